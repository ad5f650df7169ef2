// Programs as text, and read again.
#include <algorithm>
#include <charconv>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/operator/fused/detail/schedule.h>
#include <sluice/operator/fused/program.h>
#include <sluice/operator/operator.h>

namespace sluice::fused {

namespace {

std::string listed(const auto& numbers) {
  std::string text;
  for (const Number number : numbers)
    text += message(text.empty() ? "%" : ", %", number);
  return text;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Program read() {
    Program program;
    do
      program.inputs.push_back(dtype());
    while (!takes(';'));
    types_ = program.inputs;
    while (!takes_arrow()) {
      program.calls.push_back(call());
      types_.push_back(program.calls.back().dtype);
      expect(';');
    }
    do {
      program.outputs.push_back(number());
      check(program.outputs.back() >= program.inputs.size(), "the result of a call");
    } while (takes(','));
    skip_space();
    check(at_ == text_.size(), "the end");
    return program;
  }

 private:
  static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n'))
      ++at_;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw ValueError(message("fused: program \"", text_, "\" at position ", at_, ": ", why));
  }
  void check(bool good, const char* wanted) const {
    if (!good)
      refuse(message(wanted, " was expected"));
  }
  bool takes(char c) {
    skip_space();
    const bool is_there = at_ < text_.size() && text_[at_] == c;
    at_ += is_there ? 1 : 0;
    return is_there;
  }
  void expect(char c) {
    const char wanted[] = {'\'', c, '\'', '\0'};
    check(takes(c), wanted);
  }
  bool takes_arrow() {
    if (!takes('-'))
      return false;
    expect('>');
    return true;
  }
  std::string_view word(const char* what) {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_]))
      ++at_;
    check(at_ > begin, what);
    return text_.substr(begin, at_ - begin);
  }

  DType dtype() {
    const std::string_view name = word("a type");
    for (int i = 0; i <= static_cast<int>(DType::float64); ++i) {
      if (name_of(static_cast<DType>(i)) == name)
        return static_cast<DType>(i);
    }
    at_ -= name.size();
    refuse("a type was expected");
  }

  Number digits() {
    const std::string_view text = word("a number");
    Number number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc() || end != text.data() + text.size())
      refuse(message("no number: ", text));
    return number;
  }
  /// Of a value that is there.
  Number number() {
    expect('%');
    const Number found = digits();
    if (found >= types_.size())
      refuse(message("%", found, " is not made yet"));
    return found;
  }

  // To the brace that ends it: texts in quotes may hold others.
  std::string_view braced() {
    const std::size_t begin = at_;
    bool quoted = false;
    for (; at_ < text_.size() && (quoted || text_[at_] != '}'); ++at_) {
      if (text_[at_] == '"')
        quoted = !quoted;
      else if (text_[at_] == '\\')
        ++at_;
    }
    check(at_ < text_.size(), "'}'");
    return text_.substr(begin, at_++ - begin);
  }

  Call call() {
    Call made;
    expect('%');
    if (digits() != types_.size() || types_.size() == std::numeric_limits<Number>::max())
      refuse(message("%", types_.size(), " was expected"));
    expect('=');
    const std::string_view name = word("an operator");
    made.op = find_operator(name);
    if (made.op == nullptr)
      refuse(message("no operator ", name));
    expect('(');
    do
      made.operands.push_back(number());
    while (takes(','));
    expect(')');
    if (takes('{'))
      made.attributes = parse_attributes(*made.op, braced());
    else if (!made.op->optional_attributes)
      made.attributes = make_attributes(*made.op, {});
    made.dtype = dtype();
    check_type(made);
    return made;
  }

  void check_type(const Call& call) const {
    std::vector<DType> operands;
    for (const Number operand : call.operands)
      operands.push_back(types_[operand]);
    std::optional<DType> type;
    try {
      type = type_of_call(*call.op, operands, call.attributes);
    } catch (const Error& error) {
      refuse(error.what());
    }
    if (!type)
      refuse(message(call.op->name, " of such operands is no call of a program"));
    if (*type != call.dtype)
      refuse(message(call.op->name, " gives ", *type, ", not ", call.dtype));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<DType> types_;  // of the values so far
};

}  // namespace

std::string to_text(const Program& program) {
  std::string text;
  for (const DType dtype : program.inputs)
    text += message(text.empty() ? "" : " ", dtype);
  text += ';';
  std::size_t number = program.inputs.size();
  for (const Call& call : program.calls) {
    text += message(" %", number++, " = ", call.op->name, '(', listed(call.operands), ')');
    if (const std::string attributes = to_string(call.attributes); !attributes.empty())
      text += message(" {", attributes, '}');
    text += message(' ', call.dtype, ';');
  }
  return text + " -> " + listed(program.outputs);
}

Program parse(std::string_view text) {
  return Reader(text).read();
}

const Program& program_of(const Attributes& attributes) {
  return interned(attributes).program;
}

Attributes attributes_of(const Program& program) {
  std::string text = to_text(program);
  const Interned& known = interned(text);
  return Attributes::of(FusedAttributes{std::move(text), &known});
}

}  // namespace sluice::fused
