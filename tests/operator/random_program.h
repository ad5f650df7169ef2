#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

namespace sluice::test {

/// The arrays' types, shapes and bytes, to be compared. `one_nan`: every NaN counts as the same. Which of two NaNs a
/// sum passes on, and so its sign, IEEE 754 leaves open, and kernels may turn their operands round. On a GPU the NaNs
/// of float64 always count as one: the very same call gives now this, now that (seen on an H200: 7ff8000000000000 and
/// fff8000000000000 of xlogy, 7fffffffe0000000 of erf, in one of some twenty processes beside each other).
inline std::vector<std::string> all_bytes(const Arrays& arrays, bool one_nan = false) {
  std::vector<std::string> all;
  for (const NDArray& array : arrays) {
    const NDArray here = array.to(cpu()).contiguous();
    here.wait_to_read();
    std::string text = message(array.dtype(), array.shape());
    auto values = here.astype(float64).to_vector<double>();
    if (one_nan || (array.dtype() == float64 && array.device().is_gpu()))
      std::replace_if(
          values.begin(), values.end(), [](double x) { return x != x; }, double(NAN));
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    all.push_back(std::move(text));
  }
  return all;
}

/// A program of operators drawn from a seed: elementwise with broadcasting and of several types, reductions, products,
/// views, writes in place into results and views of them, values used again much later; of few elements, none, or more
/// than a tile of a fused kernel has. Given the same inputs it makes the same calls.
class RandomProgram {
 public:
  RandomProgram(unsigned seed, Device device) : seed_(seed) {
    std::mt19937 draw(seed);
    const Shape shapes[] = {{6, 5}, {6, 5}, {6, 5}, {0, 5}, {6, 5}, {1, 7}, {6, 5}, {97, 101}};
    shape_ = shapes[seed % 8];
    for (int i = 0; i < 3; ++i) {
      std::vector<float> values(static_cast<std::size_t>(shape_.size()));
      for (float& value : values)
        value = static_cast<float>(draw() % 2001) / 1000.0f - 1.0f;
      inputs_.push_back(array(values, shape_, device));
    }
  }

  const Arrays& inputs() const { return inputs_; }

  Arrays run(const Arrays& inputs) const {
    std::mt19937 draw(seed_ + 77);
    std::vector<NDArray> known(inputs.begin(), inputs.end());
    std::vector<bool> is_own(known.size(), false);
    const auto pick = [&] { return draw() % known.size(); };
    const std::size_t length = 5 + draw() % 30;
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t a = pick(), b = pick();
      bool own = true;
      const NDArray made = step(draw() % 26, known[a], known[b], is_own[a], own);
      if (!made.defined())
        continue;
      known.push_back(made);
      is_own.push_back(own);
    }
    Arrays outputs;
    for (std::size_t i = 0; i < 3; ++i)
      outputs.push_back(known[known.size() - 1 - draw() % std::min<std::size_t>(known.size(), 6)]);
    return outputs;
  }

 private:
  // All values are (rows, columns) of float32. Undefined: something was written in place.
  NDArray step(unsigned kind, const NDArray& a, const NDArray& b, bool a_is_own, bool& own) const {
    const std::int64_t rows = shape_[0], columns = shape_[1];
    switch (kind) {
      case 0:
        return a + b;
      case 1:
        return a * b - 0.5;
      case 2:
        return tanh(a);
      case 3:
        return sin(a) + sum(b, {0}, true);
      case 4:
        return a / (abs(b) + 1.0);
      case 5:
        return mean(a, {0}).broadcast_to(shape_) + 0.0;
      case 6:
        return matmul(tanh(a), matmul(b.T(), tanh(a)));
      case 7:
        return softmax(a);
      case 8:
        return where(a > b, a, b * 0.5);
      case 9:
        return maximum(a, b).T().copy().T() + a;
      case 10:
        own = a_is_own;
        return a.reshape({columns, rows}).reshape(shape_);
      case 11:
        return full(shape_, 0.25, {.device = a.device()}) + a;
      case 12:
        if (a_is_own)
          a.slice(0, 1, 3).assign(b.slice(0, 2, 4) * 0.5);
        return {};
      case 13: {
        if (!a_is_own)
          return concat({a.slice(1, 0, 2), b.slice(1, 2, columns)}, 1);
        NDArray target = a;
        target += tanh(b);
        return {};
      }
      default:
        return elementwise_step(kind, a, b, a_is_own);
    }
  }

  // Chains, of which most become one node.
  NDArray elementwise_step(unsigned kind, const NDArray& a, const NDArray& b, bool a_is_own) const {
    switch (kind) {
      case 14:
        return relu(a * 2.0 + b) - minimum(a, 0.25);
      case 15:
        return (a.astype(float16) * b.astype(float16) + 0.1).astype(float32) - a;
      case 16:
        return (a.astype(bfloat16) - b.astype(bfloat16)).astype(float16).astype(float32) * b;
      case 17:
        return (sin(a.astype(float64)) * b.astype(float64) + 0.1).astype(float32) + tanh(a);
      case 18:  // a row, a column and a number, all views
        return (b - mean(a, {0}, true)) * sum(b, {1}, true).astype(float16).astype(float32) + mean(a);
      case 19: {
        const NDArray whole = (a * 7.0).astype(int32);
        return where(logical_or(whole > 3, isnan(b)), (whole * whole).astype(float32), b) +
               whole.astype(int8).astype(float32);
      }
      case 20: {
        if (!a_is_own)
          return a.slice(0, 0, shape_[0]) * b.slice(1, 0, shape_[1]) + a;
        // Read, written in part, and read again.
        const NDArray before = a * 0.5 + b;
        a.slice(1, 0, shape_[1], 2).assign(tanh(before.slice(1, 0, shape_[1], 2)) * 0.5);
        return before + a;
      }
      case 21: {
        if (!a_is_own)
          return clip(a, -0.5, 0.5).copy() * a + copy_of(b);
        NDArray target = a;
        target *= clip(b, -1, 1) + 0.25;
        target += b;
        return target * b;
      }
      case 24:  // calls that change nothing, and some that nearly do
        return relu(relu((a + b) * 1.0 - 0.0)) + ((a * b) + -0.0) / 1.0 + (a * 1.0 + 0.0);
      case 25: {
        const NDArray whole = (a * 7.0).astype(int32), half = (a - b).astype(float16);
        return where(a > b, whole + 0, whole + 0).astype(int64).astype(int32).astype(float32) +
               half.astype(float32).astype(float16).astype(float32) +
               (-(-(a.expand_dims(1).squeeze(1) * b))).T().T().copy() +
               a.broadcast_to(shape_).reshape({1, shape_.size()}).reshape(shape_);
      }
      case 22:
        return sum(abs(a) + b * b, {1}, true) * 0.01 + relu(b) * relu(a);
      default:
        return (a + b).reshape({shape_.size()}).reshape(shape_) * 0.5 - (a - b).T().T();
    }
  }
  static NDArray copy_of(const NDArray& x) { return x.T().copy().T() * 1.0; }

  unsigned seed_;
  Shape shape_;
  Arrays inputs_;
};

}  // namespace sluice::test
