#include "extras/export_cpp/code.h"

#include <bit>
#include <cctype>
#include <cstdio>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "autograd/ops/shape.h"
#include "extras/export_cpp/kernels.h"
#include "extras/export_cpp/plan.h"
#include "io/hash.h"

namespace rondo::io::detail {
namespace {

/// As `load` in exported code computes it.
std::uint64_t hash_of(const std::vector<float>& elements) {
  std::uint64_t hash = 14695981039346656037U;
  for (const float element : elements)
    hash = (hash ^ std::bit_cast<std::uint32_t>(element)) * 1099511628211U;
  return hash;
}

/// The functions of elements that steps use; equal ones are written once.
class Functions {
 public:
  std::string name_of(const std::string& parameters, const std::vector<std::string>& expressions) {
    std::string body;
    for (Index i = 0; i + 1 < expressions.size(); ++i) body += "  v = " + expressions[i] + ";\n";
    body += "  return " + (expressions.empty() ? "v" : expressions.back()) + ";\n";
    const auto [found, is_new] = names_.emplace(parameters + body, concat("f", names_.size()));
    if (is_new)
      text += concat("inline float ", found->second, "(", parameters, ") {\n", body, "}\n");
    return found->second;
  }
  std::string text;

 private:
  std::map<std::string, std::string> names_;
};

/// Names that a namespace of the program cannot have: keywords (of C++20 and below), those of the
/// global namespace, and, as most of <cmath>'s functions are there, too, their names.
bool is_taken(const std::string& name) {
  static const std::set<std::string> taken = [] {
    std::istringstream words(
        "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t "
        "char16_t char32_t class compl concept const consteval constexpr constinit const_cast "
        "continue co_await co_return co_yield decltype default delete do double dynamic_cast else "
        "enum explicit export extern false float for friend goto if inline int long mutable "
        "namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
        "register reinterpret_cast requires return short signed sizeof static static_assert "
        "static_cast struct switch template this thread_local throw true try typedef typeid "
        "typename union unsigned using virtual void volatile wchar_t while xor xor_eq main std "
        "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clock copysign cos cosh div erf erfc "
        "exit exp exp2 expm1 fabs floor fma fmax fmin fmod free gamma hypot index j0 j1 jn ldexp "
        "lgamma log log10 log1p log2 logb malloc modf pow printf puts rand random read remainder "
        "remove rename rint round signal sin sinh sqrt stdin stdout system tan tanh tgamma time "
        "trunc unix linux write y0 y1 yn");
    return std::set<std::string>(std::istream_iterator<std::string>(words), {});
  }();
  return taken.contains(name);
}

/// A name of C++ made of a file's stem.
std::string name_of(const std::filesystem::path& path) {
  std::string name = path.stem().string();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  if (is_taken(name)) name += '_';
  return std::isdigit(static_cast<unsigned char>(name[0])) != 0 ? "_" + name : name;
}

/// Replaces each "@KEY@" of the text.
std::string filled(std::string text, const std::map<std::string, std::string>& values) {
  for (const auto& [key, value] : values)
    for (Index at = 0; (at = text.find(key, at)) != std::string::npos; at += value.size())
      text.replace(at, key.size(), value);
  return text;
}

}  // namespace

Stored stored(const Tensors& weights) {
  Stored all;
  std::map<std::string, Int> known;
  for (const Tensor& w : weights) {
    const Tensor x = row_major(w);
    Sha256 hash;
    hash.update(x.data_ptr(), static_cast<Index>(x.nbytes()));
    const auto [at, is_new] = known.emplace(hash.hex(), static_cast<Int>(all.elements.size()));
    all.offsets.push_back(at->second);
    if (!is_new) continue;
    const auto* elements = static_cast<const float*>(x.data_ptr());
    all.elements.insert(all.elements.end(), elements, elements + x.numel());
    all.elements.resize((all.elements.size() + 15) / 16 * 16);
  }
  return all;
}

std::string code_of(const Program& program, const Stored& weights, const Tensor& input,
                    const Dims& output, const std::filesystem::path& path) {
  const Plan plan = planned(program);
  Functions functions;
  std::set<std::string> kernels;
  std::string calls;
  for (const Step& step : program.steps) {
    kernels.insert(step.kernel);
    const auto text_of = [&](const Place& x) -> std::string {
      if (x.kind == Place::Kind::absent) return "nullptr";
      if (x.kind == Place::Kind::input) return "x";
      if (x.kind == Place::Kind::weights) return concat("w + ", weights.offsets[x.index]);
      return x.index == program.output.index ? "y" : concat("a + ", plan.offsets[x.index]);
    };
    std::string arguments, templates = step.sizes;
    const auto append = [](std::string& all, const std::string& part) {
      if (!part.empty()) all += (all.empty() ? "" : ", ") + part;
    };
    for (const Place& x : step.operands) append(arguments, text_of(x));
    append(arguments, text_of({.kind = Place::Kind::buffer, .index = step.output}));
    append(arguments, step.numbers);
    if (!step.op.empty()) append(templates, functions.name_of("float a, float b", {step.op}));
    if (step.takes_then) append(templates, functions.name_of("float v", step.then));
    calls += concat("    ", step.kernel, templates.empty() ? "" : "<" + templates + ">", "(",
                    arguments, ");");
    calls += step.scope.empty() ? "\n" : concat("  // ", step.scope, "\n");
  }
  std::string texts;
  for (auto kernel = kernel_texts.rbegin(); kernel != kernel_texts.rend(); ++kernel) {
    if (!kernels.contains(std::string(kernel->name))) continue;
    std::istringstream needs{std::string(kernel->needs)};
    for (std::string name; needs >> name;) kernels.insert(name);
    texts = std::string(kernel->text) + texts;
  }
  const auto bytes = weights.elements.size() * sizeof(float);
  std::array<char, 24> hash{};
  std::snprintf(hash.data(), hash.size(), "0x%016llxU",
                static_cast<unsigned long long>(hash_of(weights.elements)));
  return filled(std::string(program_text),
                {{"@NAME@", name_of(path)},
                 {"@FILE@", path.filename().string()},
                 {"@WEIGHTS@", path.stem().string() + ".weights"},
                 {"@INPUT@", input.dtype() == i64 ? "std::int64_t" : "float"},
                 {"@INPUT_SHAPE@", concat(input.shape())},
                 {"@OUTPUT_SHAPE@", concat(output)},
                 {"@INPUT_SIZE@", std::to_string(input.numel())},
                 {"@OUTPUT_SIZE@", std::to_string(numel_of(output))},
                 {"@MEMORY@", std::to_string(plan.size)},
                 {"@BYTES@", std::to_string(bytes)},
                 {"@HASH@", hash.data()},
                 {"@FUNCTIONS@", functions.text},
                 {"@KERNELS@", texts},
                 {"@CALLS@", calls}});
}

}  // namespace rondo::io::detail
