// Random orders and choices, made of random keys, orders and places.
#include <algorithm>
#include <limits>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/order/count.h>
#include <sluice/operator/order/order.h>
#include <sluice/operator/random/distributions.h>
#include <sluice/operator/random/drawn.h>
#include <sluice/operator/random/random.h>
#include <sluice/operator/reduce/reduce.h>

namespace sluice {

namespace {

void check_inputs(const char* op, std::span<const ArraySpec> inputs, std::size_t most) {
  require<ValueError>(inputs.size() <= most, [&] {
    return message(op, ": takes at most ", most, " inputs, was given ", inputs.size());
  });
}

// -- random_permutation -----------------------------------------------------------------------------------------------
struct PermutationAttributes {
  std::int64_t n = 0;
  Device device = cpu();

  template <class V>
  void visit(V&& v) {
    v.field("n", n);
    v.field("device", device);
  }
};

// As many entries as sort() tells apart.
void check_entries(std::int64_t n, const char* op = "random::permutation") {
  require<ValueError>(n >= 0, [&] { return message(op, ": ", n, " is negative"); });
  require<UnsupportedError>(
      n < std::int64_t{1} << 32, [&] { return message(op, ": of ", n, " entries; fewer than 2^32 are possible"); });
}

Specs infer_permutation(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<PermutationAttributes>();
  check_inputs(op.name, inputs, 1);
  if (inputs.empty()) {
    check_entries(a.n);
    return {{{a.n}, int64, a.device}};
  }
  require<ShapeError>(inputs[0].shape.ndim() > 0, [] {
    return "random::permutation: an array of shape () has no entries to be ordered";
  });
  check_entries(inputs[0].shape[0]);
  return {inputs[0]};
}

NDArray random_order(std::int64_t n, Device device, SourceLocation site) {
  constexpr std::int64_t k_least = std::numeric_limits<std::int64_t>::min(),
                         k_most = std::numeric_limits<std::int64_t>::max();
  const NDArray keys = random::randint(k_least, k_most, {n}, {.dtype = int64, .device = device}, site);
  return argsort(keys, 0, false, site);
}

Arrays ordered_at_random(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<PermutationAttributes>();
  if (inputs.empty())
    return {random_order(a.n, a.device, site)};
  const NDArray& x = inputs[0];
  const std::int64_t n = x.shape()[0];
  if (n == 0)
    return {x.copy(site)};
  return {take(x, random_order(n, x.device(), site), 0, IndexMode::raise, site)};
}

// -- random_choice ----------------------------------------------------------------------------------------------------
/// Of 0 .. n-1, or of as many as there are weights.
struct ChoiceAttributes {
  std::int64_t n = 0;
  Shape shape = {};
  bool replace = true;
  Device device = cpu();

  template <class V>
  void visit(V&& v) {
    v.field("n", n);
    v.field("shape", shape);
    v.field("replace", replace);
    v.field("device", device);
  }
};

Specs infer_choice(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<ChoiceAttributes>();
  check_inputs(op.name, inputs, 1);
  if (!inputs.empty()) {
    require<ShapeError>(inputs[0].shape.ndim() == 1, [&] {
      return message("random::choice: weights must be of shape (n,), not ", inputs[0].shape);
    });
    require<DTypeError>(is_floating(inputs[0].dtype), [&] {
      return message("random::choice: weights are of a floating type, not ", inputs[0].dtype);
    });
  }
  for (const std::int64_t extent : a.shape)
    require<ShapeError>(
        extent >= 0, [&] { return message("random::choice: shape ", a.shape, " has a negative extent"); });
  const std::int64_t n = inputs.empty() ? a.n : inputs[0].shape[0], draws = a.shape.size();
  require<ValueError>(
      n >= 1 || (n == 0 && draws == 0), [&] { return message("random::choice: of ", n, " there is none to choose"); });
  require<ValueError>(
      a.replace || draws <= n, [&] { return message("random::choice: ", draws, " of ", n, " without replacement"); });
  if (!a.replace)
    check_entries(n, "random::choice");
  return {{a.shape, int64, inputs.empty() ? a.device : inputs[0].device}};
}

// The first of exponential numbers, each by its weight, are in the order in which one would draw (Efraimidis and
// Spirakis, "Weighted random sampling with a reservoir", 2006). Quotients of doubles are the same on every device.
NDArray drawn_once_each(const NDArray& weights, std::int64_t draws, SourceLocation site) {
  constexpr double k_most = std::numeric_limits<double>::max(), k_least = 1e-300;
  const NDArray given = weights.detach().astype(float64, site);
  const NDArray counts = logical_and(greater(given, 0, site), less_equal(given, k_most, site), site);
  const NDArray sound = where(counts, given, 0, site), largest = max(sound, {}, false, site);
  const NDArray share = divide(sound, where(greater(largest, 0, site), largest, 1, site), site);
  const ArrayOptions beside{.dtype = float64, .device = weights.device()};
  const NDArray times = random::exponential(1, {weights.shape()[0]}, beside, site);
  const NDArray at = divide(times, where(less(share, k_least, site), 0, share, site), site);
  const Ordered first = topk(at, draws, 0, false, site);
  return where(less_equal(first.values, k_most, site), first.indices, -1, site);
}

Arrays chosen(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<ChoiceAttributes>();
  const std::int64_t draws = a.shape.size();
  if (!inputs.empty()) {
    if (draws == 0)
      return {full(a.shape, 0, {.dtype = int64, .device = inputs[0].device()}, site)};
    const NDArray made =
        a.replace ? random::categorical(inputs[0], draws, site) : drawn_once_each(inputs[0], draws, site);
    return {made.reshape(a.shape, site)};
  }
  if (a.replace)
    return {random::randint(0, std::max<std::int64_t>(a.n, 1), a.shape, {.dtype = int64, .device = a.device}, site)};
  return {random_order(a.n, a.device, site).slice(0, 0, draws, 1, site).copy(site).reshape(a.shape, site)};
}

// -- sample_multinomial -----------------------------------------------------------------------------------------------
struct MultinomialAttributes {
  std::int64_t n = 1;

  template <class V>
  void visit(V&& v) {
    v.field("n", n);
  }
};

Specs infer_multinomial(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::int64_t n = attributes.as<MultinomialAttributes>().n;
  const Shape& shape = inputs[0].shape;
  require<ValueError>(n >= 0, [&] { return message(op.name, ": ", n, " draws"); });
  require<DTypeError>(is_floating(inputs[0].dtype), [&] {
    return message(op.name, ": weights are of a floating type, not ", inputs[0].dtype);
  });
  require<ShapeError>(shape.ndim() > 0 && shape[shape.ndim() - 1] > 0, [&] {
    return message(op.name, ": weights of shape ", shape, " have no categories along a last axis");
  });
  return {{shape, int64, inputs[0].device}};
}

Arrays counted(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const std::int64_t n = attributes.as<MultinomialAttributes>().n;
  const NDArray& weights = inputs[0];
  infer_multinomial(k_sample_multinomial, detail::specs_of(inputs), attributes);  // compositions come before it
  const Shape shape = weights.shape();
  const std::int64_t categories = shape[shape.ndim() - 1], rows = shape.size() / categories;
  const NDArray row = arange(0, static_cast<double>(rows), 1, {.dtype = int64, .device = weights.device()}, site);
  const NDArray flat = random::categorical(weights, n, site).reshape({rows, n}, site);
  const NDArray places = where(flat < 0, flat, flat + row.expand_dims(1) * categories);  // of each row its own
  return {bincount(places, rows * categories, site).reshape(shape, site)};
}

}  // namespace

constinit const Operator k_random_permutation{
    .name = "random_permutation",
    .inputs = -1,
    .attributes = &attribute_type<PermutationAttributes>,
    .infer = infer_permutation,
    .composition = ordered_at_random};
constinit const Operator k_random_choice{
    .name = "random_choice",
    .inputs = -1,
    .attributes = &attribute_type<ChoiceAttributes>,
    .infer = infer_choice,
    .composition = chosen};
constinit const Operator k_sample_multinomial{
    .name = "sample_multinomial",
    .attributes = &attribute_type<MultinomialAttributes>,
    .infer = infer_multinomial,
    .composition = counted};

namespace random {

NDArray multinomial(std::int64_t n, const NDArray& weights, SourceLocation site) {
  return detail::located(site, [&] {
    detail::object_of(weights, "random::multinomial");
    return invoke_one(k_sample_multinomial, {weights}, Attributes::of(MultinomialAttributes{n}), site);
  });
}

NDArray permutation(std::int64_t n, Device device, SourceLocation site) {
  return detail::located(site, [&] {
    return invoke_one(k_random_permutation, {}, Attributes::of(PermutationAttributes{n, device}), site);
  });
}

NDArray permutation(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&] {
    detail::object_of(x, "random::permutation");
    return invoke_one(k_random_permutation, {x}, Attributes::of(PermutationAttributes{}), site);
  });
}

void shuffle(const NDArray& x, SourceLocation site) {
  detail::located(site, [&] {
    const NDArray ordered = permutation(x, site);
    NDArray(x).assign(ordered, site);
  });
}

NDArray choice(std::int64_t n, const Shape& shape, bool replace, Device device, SourceLocation site) {
  return detail::located(site, [&] {
    return invoke_one(k_random_choice, {}, Attributes::of(ChoiceAttributes{n, shape, replace, device}), site);
  });
}

NDArray choice(const NDArray& weights, const Shape& shape, bool replace, SourceLocation site) {
  return detail::located(site, [&] {
    detail::object_of(weights, "random::choice");
    return invoke_one(k_random_choice, {weights}, Attributes::of(ChoiceAttributes{0, shape, replace}), site);
  });
}

}  // namespace random
}  // namespace sluice
