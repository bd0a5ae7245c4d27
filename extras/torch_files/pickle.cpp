#include "extras/torch_files/pickle.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>

#include "tensor/error.h"

namespace rondo::io {
namespace {

/// A state dict has about twenty values for each tensor. Each takes 64 bytes here, but may be a
/// single byte in the file.
constexpr std::size_t most_values = 4'000'000;
constexpr std::size_t longest_global = 500;  // bytes

constexpr std::string_view ordered_dict = "collections.OrderedDict";

/// The names of opcodes that Python supports but this reader refuses.
std::string_view name_of_refused(unsigned char opcode) {
  switch (opcode) {
    case 'i':
      return "INST";
    case 'o':
      return "OBJ";
    case 'P':
      return "PERSID";
    case 'L':
      return "LONG";
    case 'F':
      return "FLOAT";
    case 'S':
      return "STRING";
    case 'V':
      return "UNICODE";
    case '2':
      return "DUP";
    case 0x82:
    case 0x83:
    case 0x84:
      return "EXT";
    case 0x97:
      return "NEXT_BUFFER";
    case 0x98:
      return "READONLY_BUFFER";
    default:
      return {};
  }
}

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& file, std::deque<PickleValue>& parts)
      : bytes_(bytes), file_(file), parts_(parts) {}

  const PickleValue* run() {
    while (true) {
      const auto opcode = number<std::uint8_t>();
      if (opcode == '.') break;
      step(opcode);
    }
    const PickleValue* root = pop();
    check(stack_.empty() && marks_.empty(), "something is left on its stack");
    return root;
  }
  std::size_t position() const { return at_; }

 private:
  void check(bool condition, std::string_view what) const {
    require<IoError>(condition, file_, ": is not a valid pickle: ", what, " (at byte ", at_, ")");
  }

  // ---- Reading little-endian values.

  std::string_view take(std::uint64_t n) {
    check(n <= bytes_.size() - at_, "it is cut short");
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + at_,
                                static_cast<std::size_t>(n));
    at_ += static_cast<std::size_t>(n);
    return text;
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string line() {
    const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_,
                                bytes_.size() - at_);
    const std::size_t end = rest.find('\n');
    check(end != std::string_view::npos, "it is cut short");
    at_ += end + 1;
    return std::string(rest.substr(0, end));
  }
  double big_endian_double() {
    std::uint64_t bits = 0;
    for (char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
    return std::bit_cast<double>(bits);
  }
  void push_int(const std::string& text) {
    if (text == "00" || text == "01") return push(text == "01");
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    check(error == std::errc() && end == text.data() + text.size(), "a number is invalid");
    push(value);
  }
  /// LONG1, LONG4: two's complement of n bytes.
  void push_long(std::uint64_t n) {
    const std::string_view text = take(n);
    if (n > 8) return push(PickleBytes{std::string(text)});
    std::uint64_t bits = n > 0 && static_cast<unsigned char>(text[n - 1]) >= 128 ? ~0ULL : 0;
    if (n > 0) std::memcpy(&bits, text.data(), static_cast<std::size_t>(n));
    push(static_cast<std::int64_t>(bits));
  }

  // ---- The stack.

  template <class T>
  void push(T value) {
    check(parts_.size() < most_values, "it has more than 4 million values, which is the maximum");
    parts_.push_back({.value = std::move(value)});
    stack_.push_back(&parts_.back());
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  PickleValue* top() const {
    check(stack_.size() > floor(), "its stack is empty");
    return stack_.back();
  }
  PickleValue* pop() {
    PickleValue* value = top();
    stack_.pop_back();
    return value;
  }
  std::vector<const PickleValue*> pop_to_mark() {
    check(!marks_.empty(), "a mark is missing");
    std::vector<const PickleValue*> items(stack_.begin() + static_cast<std::ptrdiff_t>(floor()),
                                          stack_.end());
    stack_.resize(floor());
    marks_.pop_back();
    return items;
  }
  void push_tuple(std::size_t n) {
    check(stack_.size() - floor() >= n, "its stack is empty");
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(n);
    PickleSequence tuple{.items = {begin, stack_.end()}, .is_tuple = true};
    stack_.erase(begin, stack_.end());
    push(std::move(tuple));
  }
  void remember(std::uint64_t key) {
    memo_[key] = top();
    check(memo_.size() <= most_values,
          "its memo has more than 4 million values, which is the maximum");
  }
  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    check(found != memo_.end(), "it gets a memo entry that does not exist");
    stack_.push_back(found->second);
  }

  // ---- Objects.

  void add_to_list(const std::vector<const PickleValue*>& items) {
    if (std::holds_alternative<PickleCall>(top()->value)) top()->value = PickleSequence{};
    auto* list = std::get_if<PickleSequence>(&top()->value);
    check(list != nullptr && !list->is_tuple,
          "something is appended to a value that is not a list");
    list->items.insert(list->items.end(), items.begin(), items.end());
  }
  void add_to_dict(const std::vector<const PickleValue*>& items) {
    if (std::holds_alternative<PickleCall>(top()->value)) top()->value = PickleDict{};
    auto* dict = std::get_if<PickleDict>(&top()->value);
    check(dict != nullptr, "a key is set in a value that is not a dict");
    check(items.size() % 2 == 0, "a key has no value");
    for (std::size_t i = 0; i < items.size(); i += 2)
      dict->items.emplace_back(items[i], items[i + 1]);
  }
  void call(const PickleValue* function, const PickleValue* with) {
    const auto* arguments = with->as<PickleSequence>();
    check(arguments != nullptr && arguments->is_tuple, "the arguments of a call are not a tuple");
    const auto* global = function->as<PickleGlobal>();
    if (global == nullptr || global->name != ordered_dict)
      return push(PickleCall{.function = function, .arguments = arguments});
    PickleDict dict;
    if (!arguments->items.empty()) {  // Python 2 wrote a list of pairs
      const auto* pairs = arguments->items[0]->as<PickleSequence>();
      check(pairs != nullptr, "an OrderedDict is not made of pairs");
      // Many dicts with the same list of pairs would make a large object from a small file.
      copied_ += pairs->items.size();
      check(copied_ <= bytes_.size(), "it holds more than its size allows");
      for (const PickleValue* item : pairs->items) {
        const auto* pair = item->as<PickleSequence>();
        check(pair != nullptr && pair->items.size() == 2, "an OrderedDict is not made of pairs");
        dict.items.emplace_back(pair->items[0], pair->items[1]);
      }
    }
    push(std::move(dict));
  }

  // ---- Opcodes. Each function handles some opcodes, and returns whether `opcode` is one of them.

  bool push_constant(unsigned char opcode) {
    switch (opcode) {
      case 'N':  // NONE
        push(PickleNone{});
        break;
      case 0x88:  // NEWTRUE
        push(true);
        break;
      case 0x89:  // NEWFALSE
        push(false);
        break;
      case 'J':  // BININT
        push(std::int64_t{number<std::int32_t>()});
        break;
      case 'K':  // BININT1
        push(std::int64_t{number<std::uint8_t>()});
        break;
      case 'M':  // BININT2
        push(std::int64_t{number<std::uint16_t>()});
        break;
      case 'I':  // INT, as text; 00 and 01 are the booleans of protocol 1
        push_int(line());
        break;
      case 0x8a:  // LONG1
        push_long(number<std::uint8_t>());
        break;
      case 0x8b:  // LONG4
        push_long(number<std::uint32_t>());
        break;
      case 'G':  // BINFLOAT
        push(big_endian_double());
        break;

      case 0x8c:  // SHORT_BINUNICODE
      case 'U':   // SHORT_BINSTRING, Python 2's
        push(std::string(take(number<std::uint8_t>())));
        break;
      case 'X':  // BINUNICODE
      case 'T':  // BINSTRING
        push(std::string(take(number<std::uint32_t>())));
        break;
      case 0x8d:  // BINUNICODE8
        push(std::string(take(number<std::uint64_t>())));
        break;
      case 'C':  // SHORT_BINBYTES
        push(PickleBytes{std::string(take(number<std::uint8_t>()))});
        break;
      case 'B':  // BINBYTES
        push(PickleBytes{std::string(take(number<std::uint32_t>()))});
        break;
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        push(PickleBytes{std::string(take(number<std::uint64_t>()))});
        break;
      default:
        return false;
    }
    return true;
  }

  bool push_container(unsigned char opcode) {
    switch (opcode) {
      case ')':  // EMPTY_TUPLE
        push_tuple(0);
        break;
      case 0x85:  // TUPLE1
        push_tuple(1);
        break;
      case 0x86:  // TUPLE2
        push_tuple(2);
        break;
      case 0x87:  // TUPLE3
        push_tuple(3);
        break;
      case 't':  // TUPLE
        push(PickleSequence{.items = pop_to_mark(), .is_tuple = true});
        break;
      case ']':  // EMPTY_LIST
        push(PickleSequence{});
        break;
      case 'l':  // LIST
        push(PickleSequence{.items = pop_to_mark()});
        break;
      case 0x8f:  // EMPTY_SET
        push(PickleSequence{});
        break;
      case 0x91:  // FROZENSET
        push(PickleSequence{.items = pop_to_mark()});
        break;
      case 0x90:  // ADDITEMS
        add_to_list(pop_to_mark());
        break;
      case 'a': {  // APPEND
        const PickleValue* item = pop();
        add_to_list({item});
        break;
      }
      case 'e':  // APPENDS
        add_to_list(pop_to_mark());
        break;
      case '}':  // EMPTY_DICT
        push(PickleDict{});
        break;
      case 'd': {  // DICT
        const auto items = pop_to_mark();
        push(PickleDict{});
        add_to_dict(items);
        break;
      }
      case 's': {  // SETITEM
        const PickleValue* value = pop();
        const PickleValue* key = pop();
        add_to_dict({key, value});
        break;
      }
      case 'u':  // SETITEMS
        add_to_dict(pop_to_mark());
        break;
      default:
        return false;
    }
    return true;
  }

  bool move_on_stack(unsigned char opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        check(number<std::uint8_t>() <= 5, "its protocol is unknown");
        break;
      case 0x95:  // FRAME
        take(8);
        break;
      case '(':  // MARK
        marks_.push_back(stack_.size());
        break;
      case '0':  // POP, may remove a mark: Python writes this for tuples that contain themselves
        if (!marks_.empty() && marks_.back() == stack_.size()) {
          marks_.pop_back();
        } else {
          pop();
        }
        break;
      case '1':  // POP_MARK
        pop_to_mark();
        break;

      case 'q':  // BINPUT
        remember(number<std::uint8_t>());
        break;
      case 'r':  // LONG_BINPUT
        remember(number<std::uint32_t>());
        break;
      case 0x94:  // MEMOIZE
        remember(memo_.size());
        break;
      case 'h':  // BINGET
        recall(number<std::uint8_t>());
        break;
      case 'j':  // LONG_BINGET
        recall(number<std::uint32_t>());
        break;
      default:
        return false;
    }
    return true;
  }

  bool call_or_name(unsigned char opcode) {
    switch (opcode) {
      case 'c': {  // GLOBAL
        const std::string module = line();
        push(PickleGlobal{module + '.' + line()});
        break;
      }
      case 0x93: {  // STACK_GLOBAL
        const auto* name = pop()->as<std::string>();
        const auto* module = pop()->as<std::string>();
        check(name != nullptr && module != nullptr, "a global has no name");
        // Both may be texts that were stored once, and each global is a copy.
        check(module->size() + name->size() <= longest_global, "a global has too long a name");
        push(PickleGlobal{*module + '.' + *name});
        break;
      }
      case 'R':     // REDUCE
      case 0x81: {  // NEWOBJ
        const PickleValue* arguments = pop();
        call(pop(), arguments);
        break;
      }
      case 0x92: {  // keyword arguments
        pop();      // arguments that have names
        const PickleValue* arguments = pop();
        call(pop(), arguments);
        break;
      }
      case 'b': {  // BUILD: attributes; a state dict's ("_metadata") are ignored
        const PickleValue* state = pop();
        if (auto* object = std::get_if<PickleCall>(&top()->value)) object->state = state;
        break;
      }
      case 'Q':  // BINPERSID
        push(PicklePersistent{pop()});
        break;
      default:
        return false;
    }
    return true;
  }

  void step(unsigned char opcode) {
    if (push_constant(opcode) || push_container(opcode) || move_on_stack(opcode) ||
        call_or_name(opcode))
      return;
    const std::string_view name = name_of_refused(opcode);
    require<IoError>(name.empty(), file_, ": has the pickle opcode ", name,
                     ", which torch.save does not write; it is not read");
    check(false, "an opcode is unknown");
  }

  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::deque<PickleValue>& parts_;  // a deque, so that parts do not move when one is added
  std::size_t at_ = 0, copied_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;  // stack heights
  std::map<std::uint64_t, PickleValue*> memo_;
};

}  // namespace

std::string_view PickleCall::name() const {
  const PickleValue* named = function;
  // Before PyTorch 1.6 the classes of modules were stored outside, as ("module", class, file,
  // source).
  const auto* outside = named->as<PicklePersistent>();
  const auto* id = outside != nullptr ? outside->id->as<PickleSequence>() : nullptr;
  if (id != nullptr && id->items.size() > 1) named = id->items[1];
  const auto* global = named->as<PickleGlobal>();
  return global != nullptr ? std::string_view(global->name) : std::string_view();
}

Pickle parse_pickle(std::span<const std::byte> bytes, const std::string& file) {
  Pickle pickle;
  Machine machine(bytes, file, pickle.parts);
  pickle.root = machine.run();
  pickle.bytes = machine.position();
  return pickle;
}

}  // namespace rondo::io
