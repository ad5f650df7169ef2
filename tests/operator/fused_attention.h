#pragma once

// Calls of attention with their gradients, by whatever kernels a device has.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/heavy_reference.h"
#include "tests/support/compare.h"

namespace sluice::test {

enum class MaskKind { none, added, added_wide, bools, keys };

struct FusedCase {
  std::string name;
  Shape q, k, v;
  bool causal = false;
  MaskKind mask = MaskKind::none;
  std::optional<double> scale = {};
};

inline std::vector<FusedCase> fused_cases() {
  return {
      {"keys of other length", {2, 4, 7, 8}, {2, 4, 9, 8}, {2, 4, 9, 16}},
      {"causal, fewer queries than keys", {2, 4, 5, 16}, {2, 4, 9, 16}, {2, 4, 9, 16}, true},
      {"causal, more queries than keys, groups", {2, 4, 9, 16}, {2, 2, 5, 16}, {2, 2, 5, 8}, true},
      {"one group", {1, 6, 4, 24}, {1, 1, 6, 24}, {1, 1, 6, 24}, false, MaskKind::none, 0.3},
      {"one query", {2, 4, 1, 8}, {2, 2, 9, 8}, {2, 2, 9, 8}},
      {"one query, causal", {2, 4, 1, 8}, {2, 2, 9, 8}, {2, 2, 9, 8}, true},
      {"one key", {2, 4, 5, 8}, {2, 2, 1, 8}, {2, 2, 1, 8}},
      {"one of each", {2, 4, 1, 8}, {2, 2, 1, 8}, {2, 2, 1, 8}, true},
      {"widest", {1, 2, 5, 256}, {1, 2, 6, 256}, {1, 2, 6, 256}, true},
      {"added mask", {2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8}, false, MaskKind::added},
      {"added mask, causal", {2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8}, true, MaskKind::added},
      {"wider mask", {2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8}, true, MaskKind::added_wide},
      {"mask of bools", {2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8}, false, MaskKind::bools},
      {"keys that are padding", {2, 4, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 8}, true, MaskKind::keys},
      {"long", {1, 2, 150, 64}, {1, 1, 170, 64}, {1, 1, 170, 64}, true},
  };
}

inline std::vector<NDArray> inputs_of(const FusedCase& c, DType dtype) {
  return {random_array(c.q, 1, -1, 1, dtype), random_array(c.k, 2, -1, 1, dtype), random_array(c.v, 3, -1, 1, dtype)};
}

/// The gradient of the result.
inline NDArray head_of(const FusedCase& c, DType dtype) {
  return random_array({c.q[0], c.q[1], c.q[2], c.v[3]}, 4, -1, 1, dtype);
}

/// Of `dtype`'s values; the second query sees nothing of most.
inline NDArray mask_of(const FusedCase& c, DType dtype) {
  const std::int64_t queries = c.q[2], keys = c.k[2];
  if (c.mask == MaskKind::none)
    return {};
  if (c.mask == MaskKind::keys)
    return random_array({c.q[0], 1, 1, keys}, 5) > -0.5;
  const Shape shape = c.mask == MaskKind::added_wide ? Shape{c.q[0], c.q[1], queries, keys} : Shape{queries, keys};
  NDArray counts = random_array(shape, 5) > -0.5;
  counts.slice(counts.ndim() - 2, 1, 2).assign(false);
  if (c.mask == MaskKind::bools)
    return counts;
  const NDArray numbers = random_array(shape, 6, -2, 2, dtype).astype(float32);
  const NDArray added = where(counts, numbers, -std::numeric_limits<double>::infinity());
  return c.mask == MaskKind::added ? added.astype(dtype) : added;
}

struct Attended {
  NDArray y;
  std::vector<NDArray> grads;  // of q, k, v
};

/// On the CPU, in the type that it was computed in. `inputs` lie as they lie.
inline Attended attend(
    const std::vector<NDArray>& inputs,
    const FusedCase& c,
    DType dtype,
    Device device,
    std::optional<NDArray> head = {}) {
  const DType narrow = dtype == float32 ? bfloat16 : dtype, values = inputs[0].dtype();
  NDArray mask = mask_of(c, is_floating(values) && size_of(values) == 2 ? values : narrow);
  if (mask.defined())
    mask = mask.to(device);
  std::vector<NDArray> given;
  for (const NDArray& x : inputs) {
    const NDArray moved = x.dtype() == dtype && x.device() == device ? x : x.astype(dtype).to(device);
    given.push_back(moved.detach());
    given.back().attach_grad();
  }
  Attended result;
  NDArray y;
  {
    const autograd::RecordScope record;
    y = scaled_dot_product_attention(
        given[0], given[1], given[2], {.mask = mask, .causal = c.causal, .scale = c.scale});
  }
  y.backward(head.value_or(head_of(c, values)).astype(dtype).to(device));
  result.y = y.to(cpu());
  for (const NDArray& x : given)
    result.grads.push_back(x.grad().to(cpu()));
  return result;
}

/// Of numbers that are sums of about `size`.
inline Tolerance fused_tolerance(DType dtype, double size = 1) {
  const Tolerance own = sum_tolerance(dtype);
  return {2 * own.relative, size * own.absolute};
}

inline std::string attended_differences(const Attended& got, const Attended& want, DType dtype) {
  if (got.y.dtype() != dtype)
    return "another type";
  std::string found = differences(got.y.astype(float32), want.y, fused_tolerance(dtype));
  for (std::size_t i = 0; i < 3 && found.empty(); ++i) {
    found = differences(got.grads[i].astype(float32), want.grads[i], fused_tolerance(dtype, 2));
    if (!found.empty())
      found = message("gradient ", i, ": ", found);
  }
  return found;
}

}  // namespace sluice::test
