#include <algorithm>
#include <cctype>
#include <span>

#include <sluice/engine/error.h>
#include <sluice/operator/rtc/signature.h>

namespace sluice::rtc {

namespace {

struct TypeName {
  std::string_view text;
  DType dtype;
};
// As CUDA C++ spells them; the first of a type is how errors do.
constexpr TypeName k_types[] = {
    {"bool", DType::bool_},
    {"unsigned char", DType::uint8},
    {"uint8_t", DType::uint8},
    {"signed char", DType::int8},
    {"int8_t", DType::int8},
    {"char", DType::int8},
    {"short", DType::int16},
    {"int16_t", DType::int16},
    {"unsigned short", DType::uint16},
    {"uint16_t", DType::uint16},
    {"int", DType::int32},
    {"int32_t", DType::int32},
    {"unsigned int", DType::uint32},
    {"unsigned", DType::uint32},
    {"uint32_t", DType::uint32},
    {"long long", DType::int64},
    {"int64_t", DType::int64},
    {"long", DType::int64},
    {"unsigned long long", DType::uint64},
    {"uint64_t", DType::uint64},
    {"unsigned long", DType::uint64},
    {"__half", DType::float16},
    {"half", DType::float16},
    {"__nv_bfloat16", DType::bfloat16},
    {"float", DType::float32},
    {"double", DType::float64},
};

bool is_word(char c) noexcept {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
}

/// Words and single other characters.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    if (std::isspace(static_cast<unsigned char>(text[at])) != 0) {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    while (is_word(text[at]) && end < text.size() && is_word(text[end]))
      ++end;
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* k_spaces = " \t\n\r";
  text.remove_prefix(std::min(text.find_first_not_of(k_spaces), text.size()));
  return text.substr(0, text.find_last_not_of(k_spaces) + 1);
}

std::string joined(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

/// The type at the front of `words`, the longest that there is, and how many words that is.
const TypeName* type_at(std::span<const std::string> words, std::size_t& length) {
  for (length = std::min<std::size_t>(3, words.size()); length > 0; --length) {
    std::string text = joined(words.first(length));
    if (text.starts_with("std::"))
      text.erase(0, 5);
    for (const TypeName& type : k_types) {
      if (type.text == text)
        return &type;
    }
  }
  return nullptr;
}

/// One parameter: [const] TYPE [const] [* [const] [__restrict__]] [NAME].
class Reader {
 public:
  Reader(std::string_view kernel, std::string_view text) : kernel_(kernel), text_(text), words_(words_of(text)) {}

  Parameter read() {
    Parameter parameter{.constant = take("const")};
    std::size_t length = 0;
    const TypeName* const type = type_at(std::span(words_).subspan(at_), length);
    require<DTypeError>(type != nullptr, [&] {
      return message(
          "rtc: kernel ",
          kernel_,
          ": parameter \"",
          text_,
          "\" is of no type that arrays have (float, int, long long, ..)");
    });
    at_ += length;
    parameter.dtype = type->dtype;
    parameter.constant |= take("const");
    parameter.array = take("*");
    while (parameter.array && (take("const") || take("__restrict__") || take("__restrict"))) {
    }
    at_ += at_ < words_.size() && is_word(words_[at_].front()) ? 1 : 0;  // its name
    require<ValueError>(at_ == words_.size(), [&] {
      return message(
          "rtc: kernel ",
          kernel_,
          ": parameter \"",
          text_,
          "\" is neither a number nor elements of an array, at \"",
          words_[at_],
          '"');
    });
    return parameter;
  }

 private:
  bool take(std::string_view word) {
    const bool there = at_ < words_.size() && words_[at_] == word;
    at_ += there ? 1 : 0;
    return there;
  }

  std::string_view kernel_, text_;
  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Parameter> parse_signature(std::string_view kernel, std::string_view signature) {
  std::vector<Parameter> parameters;
  if (trimmed(signature).empty())
    return parameters;
  for (std::size_t begin = 0; begin <= signature.size();) {
    const std::size_t end = std::min(signature.find(',', begin), signature.size());
    const std::string_view text = trimmed(signature.substr(begin, end - begin));
    require<ValueError>(!text.empty(), [&] {
      return message("rtc: kernel ", kernel, ": parameter ", parameters.size(), " of \"", signature, "\" is empty");
    });
    parameters.push_back(Reader(kernel, text).read());
    begin = end + 1;
  }
  return parameters;
}

std::string to_string(const Parameter& parameter) {
  const auto* const type = std::find_if(
      std::begin(k_types), std::end(k_types), [&](const TypeName& one) { return one.dtype == parameter.dtype; });
  return message(parameter.constant && parameter.array ? "const " : "", type->text, parameter.array ? "*" : "");
}

}  // namespace sluice::rtc
