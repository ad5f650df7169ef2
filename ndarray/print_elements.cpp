#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <span>

#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/detail/print_elements.h>

namespace sluice::detail {
namespace {

constexpr int k_precision = 8;  // digits behind the point, as numpy.set_printoptions begins

/// A finite number as 0.d1d2d3... * 10^point.
struct Decimal {
  bool negative = false;
  std::string digits;  // no trailing zeros; "0" for zero
  int point = 0;
};

/// Parses "-d.ddde+xx".
Decimal decimal_of(const char* begin, const char* end) {
  Decimal result;
  if (*begin == '-') {
    result.negative = true;
    ++begin;
  }
  const char* const e = std::find(begin, end, 'e');
  for (const char* at = begin; at != e; ++at) {
    if (*at != '.')
      result.digits += *at;
  }
  result.point = std::atoi(std::string(e + 1, end).c_str()) + 1;
  while (result.digits.size() > 1 && result.digits.back() == '0')
    result.digits.pop_back();
  return result;
}

Decimal rounded(double value, int digits) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific, digits - 1).ptr;
  return decimal_of(text, end);
}

/// The fewest digits that give the value back.
template <class T>
Decimal shortest(T value) {
  if constexpr (is_small_float<T>) {
    for (int digits = 1;; ++digits) {
      char text[64];
      const double wide = static_cast<float>(value);
      const auto end = std::to_chars(text, text + sizeof text, wide, std::chars_format::scientific, digits - 1).ptr;
      double back = 0;
      std::from_chars(text, end, back);
      if (digits == 9 || T(static_cast<float>(back)).bits == value.bits)
        return decimal_of(text, end);
    }
  } else {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
    return decimal_of(text, end);
  }
}

/// `number` to at most `precision` digits behind the point; the value itself decides the rounding.
Decimal cut_positional(const Decimal& number, double value, int precision) {
  const int behind = static_cast<int>(number.digits.size()) - number.point;
  if (behind <= precision)
    return number;
  char text[512];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, precision).ptr;
  double back = 0;
  std::from_chars(text, end, back);
  if (back == 0)
    return {.negative = number.negative, .digits = "0", .point = 1};
  Decimal result;
  const char* at = text + (*text == '-' ? 1 : 0);
  result.negative = number.negative;
  const char* const dot = std::find(at, static_cast<const char*>(end), '.');
  result.point = static_cast<int>(dot - at);
  for (; at != end; ++at) {
    if (*at != '.')
      result.digits += *at;
  }
  const std::size_t zeros = std::min(result.digits.find_first_not_of('0'), result.digits.size() - 1);
  result.digits.erase(0, zeros);
  result.point -= static_cast<int>(zeros);
  while (result.digits.size() > 1 && result.digits.back() == '0')
    result.digits.pop_back();
  return result;
}

struct Parts {
  std::string left, right;  // before and behind the point
  std::string exponent;     // "+01", or empty
};

std::string sign_of(const Decimal& number) {
  return std::string(number.negative ? 1 : 0, '-');
}

Parts positional(const Decimal& number) {
  const int count = static_cast<int>(number.digits.size());
  Parts parts;
  parts.left = sign_of(number);
  if (number.digits == "0") {
    parts.left += "0";
  } else if (number.point <= 0) {
    parts.left += "0";
    parts.right = std::string(static_cast<std::size_t>(-number.point), '0') + number.digits;
  } else if (number.point >= count) {
    parts.left += number.digits + std::string(static_cast<std::size_t>(number.point - count), '0');
  } else {
    parts.left += number.digits.substr(0, static_cast<std::size_t>(number.point));
    parts.right = number.digits.substr(static_cast<std::size_t>(number.point));
  }
  return parts;
}

Parts scientific(const Decimal& number) {
  Parts parts;
  parts.left = sign_of(number) + number.digits[0];
  parts.right = number.digits.substr(1);
  const int exponent = number.digits == "0" ? 0 : number.point - 1;
  const std::string magnitude = std::to_string(std::abs(exponent));
  parts.exponent.assign(1, exponent < 0 ? '-' : '+');
  parts.exponent.append(magnitude.size() < 2 ? 1 : 0, '0');
  parts.exponent += magnitude;
  return parts;
}

std::string not_finite(double value) {
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

template <class T>
double wide(T value) {
  return convert<double>(value);
}

/// Far apart or far from one: then NumPy prints all with an exponent.
template <class T>
bool wants_exponent(std::span<const T> values) {
  double largest = 0, smallest = INFINITY;
  for (T element : values) {
    const double magnitude = std::fabs(wide(element));
    if (!std::isfinite(magnitude) || magnitude == 0)
      continue;
    largest = std::max(largest, magnitude);
    smallest = std::min(smallest, magnitude);
  }
  if (largest == 0)
    return false;
  // NumPy takes the quotient in the array's own type.
  return largest >= 1e8 || smallest < 0.0001 || wide(convert<T>(largest / smallest)) > 1000;
}

template <class T>
std::vector<std::string> print_floating(std::span<const T> values) {
  const bool exponent = wants_exponent(values);
  std::vector<Parts> parts(values.size());
  std::size_t left = 0, right = 0, exponent_width = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = wide(values[i]);
    if (!std::isfinite(value))
      continue;
    Decimal number = shortest(values[i]);
    if (exponent) {
      if (number.digits.size() > k_precision + 1)
        number = rounded(value, k_precision + 1);
      parts[i] = scientific(number);
    } else {
      parts[i] = positional(cut_positional(number, value, k_precision));
    }
    left = std::max(left, parts[i].left.size());
    right = std::max(right, parts[i].right.size());
    exponent_width = std::max(exponent_width, parts[i].exponent.size());
  }
  const std::size_t behind = exponent && exponent_width > 0 ? right + 1 + exponent_width : right;
  for (const T& element : values) {
    if (!std::isfinite(wide(element))) {
      const std::size_t width = not_finite(wide(element)).size();
      left = std::max(left, width > behind + 1 ? width - behind - 1 : 0);
    }
  }
  std::vector<std::string> texts(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = wide(values[i]);
    if (!std::isfinite(value)) {
      const std::string word = not_finite(value);
      texts[i] = std::string(left + behind + 1 - word.size(), ' ') + word;
      continue;
    }
    Parts& p = parts[i];
    texts[i] = std::string(left - p.left.size(), ' ') + p.left + "." + p.right;
    if (exponent) {
      std::string& digits = p.exponent;
      digits.insert(1, exponent_width - digits.size(), '0');
      texts[i] += std::string(right - p.right.size(), '0') + "e" + digits;
    } else {
      texts[i] += std::string(right - p.right.size(), ' ');
    }
  }
  return texts;
}

template <class T>
std::vector<std::string> print_plain(std::span<const T> values) {
  std::vector<std::string> texts;
  std::size_t width = 0;
  for (T value : values) {
    if constexpr (std::same_as<T, bool>) {
      texts.push_back(value ? "True" : "False");
    } else {
      texts.push_back(std::to_string(value));
    }
    width = std::max(width, texts.back().size());
  }
  if constexpr (std::same_as<T, bool>)
    width = 5;
  for (std::string& text : texts)
    text.insert(0, width > text.size() ? width - text.size() : 0, ' ');
  return texts;
}

}  // namespace

std::vector<std::string> print_elements(const void* values, DType dtype, std::size_t n) {
  return by_any_dtype(dtype, [&]<class T>() {
    const std::span<const T> elements(static_cast<const T*>(values), n);
    if constexpr (std::floating_point<T> || is_small_float<T>) {
      return print_floating(elements);
    } else {
      return print_plain(elements);
    }
  });
}

std::string print_scalar(const void* value, DType dtype) {
  return by_any_dtype(dtype, [&]<class T>() -> std::string {
    const T element = *static_cast<const T*>(value);
    if constexpr (std::same_as<T, bool>) {
      return element ? "True" : "False";
    } else if constexpr (std::integral<T>) {
      return std::to_string(element);
    } else {
      const double magnitude = std::fabs(wide(element));
      if (!std::isfinite(magnitude))
        return not_finite(wide(element));
      const Decimal number = shortest(element);
      if (magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16)) {
        const Parts parts = scientific(number);
        return parts.left + (parts.right.empty() ? "" : "." + parts.right) + "e" + parts.exponent;
      }
      const Parts parts = positional(number);
      return parts.left + "." + (parts.right.empty() ? "0" : parts.right);
    }
  });
}

}  // namespace sluice::detail
