#include <algorithm>
#include <limits>
#include <string_view>

#include <boost/unordered/unordered_flat_map.hpp>

#include <sluice/ndarray/create.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/elementwise/parameters.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/stored_types.h>

namespace sluice::detail {

namespace {

// -- Which operators reckon, and how they do with uint64 ------------------------------------------------------------

// The low 64 bits of a result hang on those of the operands alone, and so does what is asked.
constexpr std::string_view k_modular =
    "add subtract multiply negative square equal not_equal logical_not isfinite isinf isnan isposinf isneginf "
    "bitwise_and bitwise_or bitwise_xor bitwise_not left_shift where sum nansum prod any all count_nonzero cumsum "
    "cumprod matmul";

// Right where numbers are in the order of int64.
constexpr std::string_view k_ordered =
    "less less_equal greater greater_equal maximum minimum fmax fmin clip max min argmax argmin cummax cummin";

// What has no sign and no fraction stays what it is.
constexpr std::string_view k_kept = "abs floor ceil round trunc relu";

// Written out for uint64, below.
constexpr std::string_view k_unsigned = "sign signbit floor_divide mod fmod right_shift power mean";

// Not for uint64.
constexpr std::string_view k_narrow = "gcd lcm";

enum class Reckoned : std::uint8_t { modular, ordered, kept, unsigned_, narrow };

using Table = boost::unordered_flat_map<std::string_view, Reckoned>;

void add_words(Table& table, std::string_view words, Reckoned how) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    table.emplace(words.substr(0, end), how);
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

// Never destroyed: threads may ask to the very end.
const Table& table() {
  static const Table* const made = [] {
    auto* const all = new Table;
    add_words(*all, k_modular, Reckoned::modular);
    add_words(*all, k_ordered, Reckoned::ordered);
    add_words(*all, k_kept, Reckoned::kept);
    add_words(*all, k_unsigned, Reckoned::unsigned_);
    add_words(*all, k_narrow, Reckoned::narrow);
    return all;
  }();
  return *made;
}

// -- The bits of uint64 as int64 ------------------------------------------------------------------------------------

constexpr std::int64_t k_top = std::numeric_limits<std::int64_t>::min(), k_below_top = ~k_top;

// Of numbers of int64 in the order that uint64 has: the top bit the other way.
NDArray turned(const NDArray& bits, SourceLocation site) {
  return bitwise_xor(bits, k_top, site);
}
NDArray is_less(const NDArray& a, const NDArray& b, SourceLocation site) {
  return less(turned(a, site), turned(b, site), site);
}

// The quotient, rounded down; 0 by 0. Half of a is positive in int64: twice its quotient is right or one too small. A
// b from the top bit on is in a once or not at all.
NDArray quotient(const NDArray& a, const NDArray& b, SourceLocation site) {
  const NDArray half = bitwise_and(right_shift(a, 1, site), k_below_top, site);
  const NDArray twice = multiply(floor_divide(half, b, site), 2, site);
  const NDArray near = where(less(b, 0, site), 0, twice, site);
  const NDArray rest = subtract(a, multiply(near, b, site), site);
  const NDArray once_more = logical_not(is_less(rest, b, site), site);
  return where(equal(b, 0, site), 0, add(near, once_more, site), site);
}

NDArray remainder(const NDArray& a, const NDArray& b, SourceLocation site) {
  const NDArray rest = subtract(a, multiply(quotient(a, b, site), b, site), site);
  return where(equal(b, 0, site), 0, rest, site);
}

// A shift by one makes it positive, and the others move in zeros. What is too far, or negative in int64, leaves none.
NDArray shifted(const NDArray& a, const NDArray& b, SourceLocation site) {
  const NDArray half = bitwise_and(right_shift(a, 1, site), k_below_top, site);
  return where(equal(b, 0, site), a, right_shift(half, subtract(b, 1, site), site), site);
}

// Powers of odd numbers come again after 2^62 of them at most, those of even ones are 0 from the 64th on.
NDArray raised(const NDArray& a, const NDArray& b, SourceLocation site) {
  constexpr std::int64_t k_again = std::int64_t{1} << 62;
  const NDArray exponent = bitwise_or(bitwise_and(b, k_below_top, site), k_again, site);
  return power(a, where(less(b, 0, site), exponent, b, site), site);
}

using OfTwo = NDArray (*)(const NDArray& a, const NDArray& b, SourceLocation site);

OfTwo of_two(std::string_view op) noexcept {
  return op == "floor_divide" ? quotient : op == "right_shift" ? shifted : op == "power" ? raised : remainder;
}

NDArray reckon_unsigned(
    const Operator& op, std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const std::string_view name = op.name;
  if (name == "signbit")
    return not_equal(inputs[0], inputs[0], site);
  if (name == "mean")
    return invoke_one(op, {inputs[0].astype(float64, site)}, attributes, site).astype(float32, site);
  if (name == "sign")
    return not_equal(inputs[0], 0, site).astype(uint64, site);
  NDArray a = inputs[0].astype(int64, site), b = inputs.back().astype(int64, site);
  if (const NumberAttribute* const beside = number_of(attributes)) {
    const NDArray number = full({}, beside->number, {.dtype = int64, .device = inputs[0].device()}, site);
    (beside->first ? a : b) = number;
  }
  return of_two(name)(a, b, site).astype(uint64, site);
}

// -- Attributes with numbers, for a call in int64 -------------------------------------------------------------------

Scalar turned(Scalar number) noexcept {
  return number.as_int64() ^ k_top;
}

// Bounds that the type does not hold are its ends; NumberAttributes are known to fit.
Attributes numbers_in(const Attributes& attributes, DType dtype, bool turn) {
  if (attributes.type() == &attribute_type<UnaryParameters<Unary::clip>>) {
    auto bounds = attributes.as<UnaryParameters<Unary::clip>>();
    bounds.low = scalar_within(bounds.low, dtype);
    bounds.high = scalar_within(bounds.high, dtype);
    if (turn)
      bounds = {turned(bounds.low), turned(bounds.high)};
    return Attributes::of(bounds);
  }
  if (!turn || attributes.type() != &attribute_type<NumberAttribute>)
    return attributes;
  auto number = attributes.as<NumberAttribute>();
  number.number = turned(number.number);
  return Attributes::of(number);
}

// -- There and back ---------------------------------------------------------------------------------------------------

bool is_stored(const NDArray& array) noexcept {
  return !is_computed(array.object()->dtype);
}

Arrays widened(std::span<const NDArray> inputs, bool turn, SourceLocation site) {
  Arrays wide;
  for (const NDArray& input : inputs) {
    const NDArray bits = is_stored(input) ? input.astype(int64, site) : input;
    wide.push_back(turn && is_stored(input) ? turned(bits, site) : bits);
  }
  return wide;
}

NDArray cast_back(const NDArray& made, DType dtype, bool turn, SourceLocation site) {
  if (made.dtype() == dtype)
    return made;
  return (turn ? turned(made, site) : made).astype(dtype, site);
}

}  // namespace

bool is_reckoned(const Operator& op, std::span<const NDArray> inputs) {
  return std::any_of(inputs.begin(), inputs.end(), is_stored) && table().contains(op.name);
}

Arrays reckon(const Operator& op, std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const Specs specs = specs_of(inputs);
  const Specs results = infer(op, specs, attributes);  // refuses what the operator does not take
  const bool natural = std::any_of(specs.begin(), specs.end(), [](const ArraySpec& s) { return s.dtype == uint64; });
  const Reckoned how = table().at(op.name);
  require<DTypeError>(!natural || how != Reckoned::narrow, [&] {
    return message(op.name, ": does not take uint64; numbers that int64 holds can be converted with astype(int64)");
  });
  Arrays made;
  if (natural && how == Reckoned::kept) {
    made.push_back(inputs[0].copy(site));
  } else if (natural && how == Reckoned::unsigned_) {
    made.push_back(reckon_unsigned(op, inputs, attributes, site));
  } else {
    const bool turn = natural && how == Reckoned::ordered;
    const Attributes numbers = numbers_in(attributes, specs.back().dtype, turn);
    const Arrays wide = invoke(op, widened(inputs, turn, site), numbers, site);
    for (std::size_t i = 0; i < wide.size(); ++i)
      made.push_back(cast_back(wide[i], results[i].dtype, turn, site));
  }
  return made;
}

}  // namespace sluice::detail
