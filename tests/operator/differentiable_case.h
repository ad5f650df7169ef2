#pragma once

// One function with its inputs, for tests of gradients.
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

namespace sluice::test {

struct DifferentiableCase {
  std::string name;
  std::vector<Shape> shapes;
  std::function<NDArray(const std::vector<NDArray>&)> f;
  double low = -1, high = 1;
  double noise = 1;         // rounding errors, as a multiple of what others have: inputs without variance, say
  bool in_float32 = false;  // whatever it is given
};

namespace case_parts {

// Scales and shifts beside half types are float32.
inline NDArray widened(const NDArray& x) {
  return size_of(x.dtype()) < sizeof(float) ? x.astype(float32) : x;
}

inline NDArray numbers(const std::vector<std::int64_t>& values, const Shape& shape, const NDArray& beside) {
  return array(values, shape).to(beside.device());
}

/// The values over and over, as many as there are in `shape`.
inline NDArray cycled(const std::vector<std::int64_t>& values, const Shape& shape, const NDArray& beside) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = values[i % values.size()];
  return numbers(all, shape, beside);
}

// A layer of which nothing but the bias trains.
inline NDArray dense_of_bias(const std::vector<NDArray>& v) {
  const auto fixed = [&](const Shape& shape) { return cycled({1, -2, 3}, shape, v[0]).astype(v[0].dtype()); };
  return dense(fixed({3, 4}), fixed({v[0].shape()[0], 4}), v[0]);
}

using Cases = std::vector<DifferentiableCase>;

}  // namespace case_parts

}  // namespace sluice::test
