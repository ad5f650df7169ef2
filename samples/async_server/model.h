#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace samples {

/// What the server computes with: whole numbers that follow from the version alone, so that a client can check every
/// answer, whatever order the requests of all clients came in.
inline std::int64_t weight_at(std::uint64_t version, std::size_t index) {
  return static_cast<std::int64_t>((version * 31 + index * 17) % 1009) - 500;
}

inline std::vector<std::int64_t> weights_of(std::uint64_t version, std::size_t size) {
  std::vector<std::int64_t> weights(size);
  for (std::size_t i = 0; i < size; ++i)
    weights[i] = weight_at(version, i);
  return weights;
}

inline std::int64_t score_of(const std::vector<std::int64_t>& weights, const std::vector<std::int64_t>& features) {
  return std::inner_product(weights.begin(), weights.end(), features.begin(), std::int64_t{0});
}

}  // namespace samples
