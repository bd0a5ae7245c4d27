// The only file that creates oneDNN primitive descriptors. Version 3 merged operation descriptors
// into primitive descriptors and changed the order of their arguments; `make_pd` hides this.
#include "tensor/cpu/onednn.h"

#include <omp.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tensor/cpu/allocator.h"

namespace rondo::cpu {
namespace {

using dnnl::memory;
using tag = memory::format_tag;

using Key = std::vector<std::int64_t>;

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::size_t hash = 1469598103934665603u;  // FNV-1a over 64-bit words
    for (std::int64_t word : key) {
      hash = (hash ^ static_cast<std::size_t>(word)) * 1099511628211u;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

/// Runs f. Converts an exception of oneDNN into an Error that describes the computation.
template <class F>
auto translated(const std::string& what, F f) {
  try {
    return f();
  } catch (const dnnl::error& error) {
    throw Error(concat("oneDNN cannot compute ", what, ": ", error.what()));
  }
}

/// Looks `key` up, or creates its primitive.
template <class Make>
std::shared_ptr<const Primitive> cached(Key key, Make make) {
  // A training step has a few dozen problems. Only a program whose shapes never repeat fills this
  // cache, and such a program would fill a cache of any size.
  constexpr std::size_t most = 1024;
  static std::mutex mutex;
  static auto* primitives = new std::unordered_map<Key, std::shared_ptr<const Primitive>, KeyHash>;
  key.push_back(omp_get_max_threads());  // kernels are created for a fixed number of threads
  std::lock_guard lock(mutex);
  if (auto found = primitives->find(key); found != primitives->end()) return found->second;
  auto made = std::make_shared<const Primitive>(make());
  if (primitives->size() >= most) primitives->clear();  // callers keep those in use
  primitives->emplace(std::move(key), made);
  return made;
}

std::string text_of(const Conv2dProblem& p) {
  const char* passes[] = {"conv2d", "conv2d_backward_input", "conv2d_backward_weight"};
  return concat(passes[static_cast<int>(p.pass)], " of ", p.dtype, " input ",
                Dims{p.n, p.c, p.h, p.w}, ", weight ", Dims{p.k, p.c / p.params.groups, p.r, p.s},
                ", output ", Dims{p.n, p.k, p.p, p.q});
}
std::string text_of(const MatmulProblem& p) {
  return concat("matmul of ", p.dtype, ' ', Dims{p.a_batch, p.m, p.k}, " and ",
                Dims{p.c_batch, p.k, p.n});
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// The two major versions differ here: 2.x wraps the arguments in an operation descriptor, 3.x takes
// the engine first.
#if DNNL_VERSION_MAJOR >= 3
template <class P, class... Args>
auto make_pd_with(const dnnl::primitive_attr& attr, const Args&... args) {
  return typename P::primitive_desc(engine(), args..., attr);
}
template <class P, class Hint, class... Args>
auto make_backward_pd(const Hint& hint, const Args&... args) {
  return typename P::primitive_desc(engine(), args..., hint, attributes());
}
#else
template <class P, class... Args>
auto make_pd_with(const dnnl::primitive_attr& attr, const Args&... args) {
  return typename P::primitive_desc(typename P::desc(args...), attr, engine());
}
template <class P, class Hint, class... Args>
auto make_backward_pd(const Hint& hint, const Args&... args) {
  return typename P::primitive_desc(typename P::desc(args...), attributes(), engine(), hint);
}
#endif

template <class P, class... Args>
auto make_pd(const Args&... args) {
  return make_pd_with<P>(attributes(), args...);
}

bool has_avx512() {
#if defined(__x86_64__)
  static const bool has = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return has;
#else
  return false;
#endif
}

/// Whether the kernel is faster with activations in blocks of 16 channels than with channels_last
/// (Note [Layouts on the CPU]).
bool wants_blocks(const Conv2dProblem& p) {
  if (!has_avx512() || p.params.groups != 1) return false;
  if (p.c == 16 && p.k == 16) return true;
  const bool wide = p.c >= 512 && p.k >= 512 && p.c % 16 == 0 && p.k % 16 == 0 && p.r * p.s > 1;
  const std::int64_t pixels = p.p * p.q;
  if (p.dtype != DType::f32 || !wide || pixels > 16) return false;
  const bool strided = p.params.stride_h > 1 || p.params.stride_w > 1;
  return p.pass == Conv2dProblem::Pass::forward ||
         (p.pass == Conv2dProblem::Pass::backward_input && !strided && pixels > 8);
}

/// False for oneDNN's plain loops, its fallback.
template <class PrimitiveDesc>
bool has_fast_kernel(const PrimitiveDesc& pd) {
  return std::string(pd.impl_info_str()).rfind("ref", 0) != 0;
}

/// The dimensions and parameters of a convolution, without types and layouts.
struct ConvolutionDims {
  memory::dims x, w, y, strides, dilates, pad_before, pad_after;

  explicit ConvolutionDims(const Conv2dProblem& p)
      : x{p.n, p.c, p.h, p.w}, w{p.k, p.c, p.r, p.s}, y{p.n, p.k, p.p, p.q} {
    const Conv2dParams& o = p.params;
    if (o.groups > 1) w = {o.groups, p.k / o.groups, p.c / o.groups, p.r, p.s};
    strides = {o.stride_h, o.stride_w};
    dilates = {o.dilation_h - 1, o.dilation_w - 1};
    pad_before = {o.pad_h, o.pad_w};
    // Rows at the far end that no window reaches count as negative padding.
    pad_after = {(p.p - 1) * o.stride_h + (p.r - 1) * o.dilation_h + 1 - p.h - o.pad_h,
                 (p.q - 1) * o.stride_w + (p.s - 1) * o.dilation_w + 1 - p.w - o.pad_w};
  }
};

Primitive make_convolution(const Conv2dProblem& p, bool blocked) {
  const ConvolutionDims dims(p);
  const auto& [x_dims, w_dims, y_dims, strides, dilates, pad_before, pad_after] = dims;
  auto type = data_type_of(p.dtype);
  const tag layout = blocked ? tag::nChw16c : tag::nhwc;
  memory::desc x(x_dims, type, layout), y(y_dims, type, layout);
  memory::desc w(w_dims, type, tag::any);
  memory::desc b = p.bias ? memory::desc({p.k}, type, tag::a) : memory::desc();
  auto algorithm = dnnl::algorithm::convolution_direct;

  auto forward =
      make_pd<dnnl::convolution_forward>(dnnl::prop_kind::forward_training, algorithm, x, w, b, y,
                                         strides, dilates, pad_before, pad_after);
  using Pass = Conv2dProblem::Pass;
  if (p.pass == Pass::forward) {
    return {dnnl::convolution_forward(forward),
            forward.src_desc(),
            forward.weights_desc(),
            b,
            forward.dst_desc(),
            forward.scratchpad_desc(),
            blocked,
            has_fast_kernel(forward)};
  }
  if (p.pass == Pass::backward_input) {
    auto pd = make_backward_pd<dnnl::convolution_backward_data>(
        forward, algorithm, x, w, y, strides, dilates, pad_before, pad_after);
    return {dnnl::convolution_backward_data(pd),
            pd.diff_src_desc(),
            pd.weights_desc(),
            {},
            pd.diff_dst_desc(),
            pd.scratchpad_desc(),
            blocked,
            has_fast_kernel(pd)};
  }
  auto pd = make_backward_pd<dnnl::convolution_backward_weights>(
      forward, algorithm, x, w, b, y, strides, dilates, pad_before, pad_after);
  return {dnnl::convolution_backward_weights(pd),
          pd.src_desc(),
          pd.diff_weights_desc(),
          b,
          pd.diff_dst_desc(),
          pd.scratchpad_desc(),
          blocked,
          has_fast_kernel(pd)};
}

Primitive make_convolution(const Conv2dProblem& p) {
  if (wants_blocks(p)) {
    Primitive primitive = make_convolution(p, true);
    if (primitive.fast) return primitive;  // some dilations and paddings have no fast kernel
  }
  return make_convolution(p, false);
}

Primitive make_matmul(const MatmulProblem& p) {
  auto type = data_type_of(p.dtype);
  auto desc = [&](std::int64_t batch, std::int64_t rows, std::int64_t columns,
                  const std::int64_t* s) {
    return p.batch == 1
               ? memory::desc({rows, columns}, type, memory::dims{s[1], s[2]})
               : memory::desc({batch, rows, columns}, type, memory::dims{s[0], s[1], s[2]});
  };
  memory::desc a = desc(p.a_batch, p.m, p.k, p.a_strides);
  memory::desc c = p.c_strides[2] == 0 ? memory::desc({p.k, p.n}, type, tag::any)
                                       : desc(p.c_batch, p.k, p.n, p.c_strides);
  memory::desc y = desc(p.batch, p.m, p.n, p.y_strides);
  memory::desc b;
  if (p.bias) {
    b = p.batch == 1 ? memory::desc({1, p.n}, type, tag::ab)
                     : memory::desc({1, 1, p.n}, type, tag::abc);
  }
  auto pd = make_pd<dnnl::matmul>(a, c, b, y);
  return {dnnl::matmul(pd), pd.src_desc(),       pd.weights_desc(), b,
          pd.dst_desc(),    pd.scratchpad_desc()};
}

Primitive make_int8_convolution(const Int8Conv2dProblem& problem) {
  using type = memory::data_type;
  const Conv2dProblem& p = problem.shape;
  const ConvolutionDims dims(p);
  memory::desc x(dims.x, type::u8, tag::nhwc), y(dims.y, type::f32, tag::nhwc);
  memory::desc w(dims.w, type::s8, tag::any);
  memory::desc b = p.bias ? memory::desc({p.k}, type::f32, tag::a) : memory::desc();

  dnnl::primitive_attr attr = attributes();
#if DNNL_VERSION_MAJOR >= 3
  attr.set_scales_mask(DNNL_ARG_WEIGHTS, p.params.groups > 1 ? 1 << 0 | 1 << 1 : 1 << 0);
  if (problem.zero_point) attr.set_zero_points_mask(DNNL_ARG_SRC, 0);
#else
  attr.set_output_scales(1 << 1, problem.scales);
  if (problem.zero_point) attr.set_zero_points(DNNL_ARG_SRC, 0, {DNNL_RUNTIME_S32_VAL});
#endif
  if (problem.relu) {
    dnnl::post_ops after;
#if DNNL_VERSION_MAJOR >= 3
    after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
#else
    after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
#endif
    attr.set_post_ops(after);
  }
  auto pd = make_pd_with<dnnl::convolution_forward>(
      attr, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, x, w, b, y,
      dims.strides, dims.dilates, dims.pad_before, dims.pad_after);
  return {dnnl::convolution_forward(pd), x, pd.weights_desc(), b, y, pd.scratchpad_desc()};
}

}  // namespace

const dnnl::engine& engine() {
  static auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

dnnl::memory::data_type data_type_of(DType dtype) {
  require<DTypeError>(dtype == DType::f32 || dtype == DType::bf16,
                      "oneDNN is used only for f32 and bf16, got ", dtype);
  return dtype == DType::f32 ? memory::data_type::f32 : memory::data_type::bf16;
}

bool has_dtype(DType dtype) {
  return dtype == DType::f32 || (dtype == DType::bf16 && has_avx512());
}

bool has_generated_kernels() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}

bool has_bf16_products() {
#if defined(__x86_64__)
  static const bool has = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core_bf16;
  return has;
#else
  return false;
#endif
}

dnnl::memory channels_last(const Tensor& t) {
  memory::dims dims = {t.size(0), t.size(1), t.size(2), t.size(3)};
  return memory_of({dims, data_type_of(t.dtype()), tag::nhwc}, t.data_ptr());
}

std::shared_ptr<const Primitive> convolution(const Conv2dProblem& p) {
  const Conv2dParams& o = p.params;
  return cached({0,
                 static_cast<int>(p.pass),
                 static_cast<int>(p.dtype),
                 p.n,
                 p.c,
                 p.h,
                 p.w,
                 p.k,
                 p.r,
                 p.s,
                 p.p,
                 p.q,
                 o.stride_h,
                 o.stride_w,
                 o.pad_h,
                 o.pad_w,
                 o.dilation_h,
                 o.dilation_w,
                 o.groups,
                 p.bias},
                [&] { return translated(text_of(p), [&] { return make_convolution(p); }); });
}

std::shared_ptr<const Primitive> matmul(const MatmulProblem& p) {
  Key key = {1, static_cast<int>(p.dtype), p.batch, p.a_batch, p.c_batch, p.m, p.n, p.k, p.bias};
  for (auto* strides : {p.a_strides, p.c_strides, p.y_strides})
    key.insert(key.end(), strides, strides + 3);
  return cached(std::move(key),
                [&] { return translated(text_of(p), [&] { return make_matmul(p); }); });
}

std::shared_ptr<const Primitive> int8_matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
  return cached({2, m, n, k}, [&] {
    return translated(concat("int8 matmul of ", Dims{m, k}, " and ", Dims{k, n}), [&] {
      using type = memory::data_type;
      memory::desc x({m, k}, type::u8, tag::ab), w({k, n}, type::s8, tag::any),
          y({m, n}, type::s32, tag::ab);
      auto pd = make_pd<dnnl::matmul>(x, w, y);
      return Primitive{dnnl::matmul(pd), x, pd.weights_desc(), {}, y, pd.scratchpad_desc()};
    });
  });
}

Primitive int8_convolution(const Int8Conv2dProblem& p) {
  return translated("the int8 version of " + text_of(p.shape),
                    [&] { return make_int8_convolution(p); });
}

bool has_int8_dot_product() {
#if defined(__x86_64__)
  const auto isa = dnnl::get_effective_cpu_isa();
  return isa == dnnl::cpu_isa::avx2_vnni || isa >= dnnl::cpu_isa::avx512_core_vnni;
#else
  return true;
#endif
}

void execute(const Primitive& primitive, std::unordered_map<int, dnnl::memory> arguments) {
  thread_local dnnl::stream stream(engine());
  std::size_t bytes = primitive.scratchpad.get_size();
  Storage scratch(bytes, CachingAllocator::instance());
  if (bytes > 0)
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory_of(primitive.scratchpad, scratch.data()));
  translated("a primitive", [&] {
    primitive.run.execute(stream, arguments);
    stream.wait();
  });
}

void reorder(const dnnl::memory& from, const dnnl::memory& to) {
  // Not in rondo's cache: a memory::desc has no public hash, and oneDNN has its own cache for
  // reorders.
  auto pd = translated("a reorder", [&] {
    return dnnl::reorder::primitive_desc(engine(), from.get_desc(), engine(), to.get_desc(),
                                         attributes());
  });
  Primitive primitive{dnnl::reorder(pd), {}, {}, {}, {}, pd.scratchpad_desc()};
  execute(primitive, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

}  // namespace rondo::cpu
