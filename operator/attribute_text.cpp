// Reads the text that to_string(Attributes) writes.
#include <cctype>
#include <charconv>

#include <sluice/engine/error.h>
#include <sluice/operator/operator.h>

namespace sluice {

namespace {

class Reader {
 public:
  Reader(const char* op, std::string_view text) : op_(op), text_(text) {}

  std::vector<NamedValue> read() {
    std::vector<NamedValue> values;
    skip_space();
    while (at_ < text_.size()) {
      if (!values.empty())
        expect(',');
      std::string name(word());
      require(!name.empty(), [&] { return failure("a name"); });
      expect('=');
      values.push_back({std::move(name), value()});
      skip_space();
    }
    return values;
  }

 private:
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
      ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  std::string failure(const std::string& wanted) const {
    return message(op_, ": attributes \"", text_, "\" cannot be read: ", wanted, " was expected at position ", at_);
  }
  void expect(char c) {
    require(peek() == c, [&] { return failure(std::string("'") + c + "'"); });
    ++at_;
  }
  std::string_view word() {
    skip_space();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_]))
      ++at_;
    return text_.substr(begin, at_ - begin);
  }

  AttributeValue value() {
    switch (peek()) {
      case '"':
        return quoted();
      case '(':
        return list();
      default:
        break;
    }
    if (const std::optional<AttributeValue> found = number())
      return *found;
    return named(word());
  }

  std::string quoted() {
    std::string made;
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size())
        ++at_;
      made += text_[at_];
    }
    expect('"');
    return made;
  }

  // Whole where it is written so, else real; words such as "none" and "nan5" are neither.
  std::optional<AttributeValue> number() {
    const char* const begin = text_.data() + at_;
    const char* const end = text_.data() + text_.size();
    std::int64_t whole = 0;
    double real = 0;
    const auto as_whole = std::from_chars(begin, end, whole);
    const auto as_real = std::from_chars(begin, end, real);
    const auto ends_word = [&](const char* p) { return p == end || !is_word(*p); };
    if (as_whole.ec == std::errc() && as_whole.ptr >= as_real.ptr && ends_word(as_whole.ptr)) {
      at_ += static_cast<std::size_t>(as_whole.ptr - begin);
      return whole;
    }
    if (as_real.ec == std::errc() && ends_word(as_real.ptr)) {
      at_ += static_cast<std::size_t>(as_real.ptr - begin);
      return real;
    }
    return std::nullopt;
  }

  AttributeValue list() {
    std::vector<std::int64_t> whole;
    std::vector<double> real;
    expect('(');
    while (peek() != ')') {
      const std::optional<AttributeValue> entry = number();
      require(entry.has_value(), [&] { return failure("a number"); });
      if (const auto* number = std::get_if<std::int64_t>(&*entry)) {
        whole.push_back(*number);
        real.push_back(static_cast<double>(*number));
      } else {
        real.push_back(std::get<double>(*entry));
      }
      if (peek() != ')')
        expect(',');
    }
    expect(')');
    if (whole.size() == real.size())
      return whole;
    return real;
  }

  AttributeValue named(std::string_view name) {
    if (name == "none")
      return std::monostate();
    if (name == "true" || name == "false")
      return name == "true";
    if (name == "cpu" || name == "gpu") {
      expect('(');
      const std::optional<AttributeValue> index = number();
      const auto* whole = index ? std::get_if<std::int64_t>(&*index) : nullptr;
      constexpr std::int64_t last = 1023;  // as parse_device() has it: no machine has more
      require(whole != nullptr && *whole >= 0 && *whole <= last, [&] {
        return failure(message("a device's number, at most ", last));
      });
      expect(')');
      return Device{name == "gpu" ? DeviceKind::gpu : DeviceKind::cpu, static_cast<std::int16_t>(*whole)};
    }
    for (int i = 0; i < k_dtypes; ++i) {
      if (name_of(static_cast<DType>(i)) == name)
        return static_cast<DType>(i);
    }
    at_ -= name.size();
    throw ValueError(failure("a value (3, 0.5, true, \"text\", (1, 2), float32, gpu(0) or none)"));
  }

  const char* op_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Attributes parse_attributes(const Operator& op, std::string_view text) {
  return make_attributes(op, Reader(op.name, text).read());
}

}  // namespace sluice
