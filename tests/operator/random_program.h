#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

namespace sluice::test {

/// The arrays' types, shapes and bytes, to be compared.
inline std::vector<std::string> all_bytes(const Arrays& arrays) {
  std::vector<std::string> all;
  for (const NDArray& array : arrays) {
    const NDArray here = array.to(cpu()).contiguous();
    here.wait_to_read();
    std::string text = message(array.dtype(), array.shape());
    const auto values = here.astype(float64).to_vector<double>();
    text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    all.push_back(std::move(text));
  }
  return all;
}

/// A program of operators drawn from a seed: elementwise with broadcasting, reductions, products, views, writes in
/// place into results and views of them, values used again much later. Given the same inputs it makes the same calls.
class RandomProgram {
 public:
  RandomProgram(unsigned seed, Device device) : seed_(seed) {
    std::mt19937 draw(seed);
    for (int i = 0; i < 3; ++i) {
      std::vector<float> values(k_rows * k_columns);
      for (float& value : values)
        value = static_cast<float>(draw() % 2001) / 1000.0f - 1.0f;
      inputs_.push_back(array(values, {k_rows, k_columns}, device));
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
      const NDArray made = step(draw() % 14, known[a], known[b], is_own[a], own);
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
  static constexpr std::int64_t k_rows = 6, k_columns = 5;

  // All values are (rows, columns) of float32. Undefined: something was written in place.
  static NDArray step(unsigned kind, const NDArray& a, const NDArray& b, bool a_is_own, bool& own) {
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
        return broadcast_row(mean(a, {0}));
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
        return a.reshape({k_columns, k_rows}).reshape({k_rows, k_columns});
      case 11:
        return full({k_rows, k_columns}, 0.25, {.device = a.device()}) + a;
      case 12:
        if (a_is_own)
          a.slice(0, 1, 3).assign(b.slice(0, 2, 4) * 0.5);
        return {};
      default: {
        if (!a_is_own)
          return concat({a.slice(1, 0, 2), b.slice(1, 2, k_columns)}, 1);
        NDArray target = a;
        target += tanh(b);
        return {};
      }
    }
  }
  static NDArray broadcast_row(const NDArray& row) { return row.broadcast_to({k_rows, k_columns}) + 0.0; }

  unsigned seed_;
  Arrays inputs_;
};

}  // namespace sluice::test
