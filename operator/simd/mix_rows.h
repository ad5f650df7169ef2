#pragma once

#include <cstdint>

namespace sluice::simd {

/// What each of n results is made of: `terms` numbers of a row, each times a weight. Term k of result i stands at
/// k * pitch + i. A place below 0 is none: a 0 stands for its number. Up to the next multiple of k_group, and of such
/// is `pitch`, what lies behind the n-th are places too.
struct MixTable {
  static constexpr std::int64_t k_group = 16;

  const std::int32_t* place = nullptr;
  const float* weight = nullptr;
  std::int64_t terms = 0, pitch = 0, n = 0;
};

/// Sums of weighted floats in the vectors of simd::target(), products rounded and added in the order of the terms: the
/// bits of the plain loops.
struct MixRows {
  /// to[i] = weight[0] * rows[0][i] + ...; of no rows 0.
  void (*across)(const float* const* rows, const float* weight, std::int64_t count, std::int64_t n, float* to);
  /// to[i] = the terms of result i.
  void (*along)(const float* row, const MixTable& table, float* to);
  /// The same of k_width rows whose numbers of one place are neighbours, as those of one result are; behind the last
  /// place, number `none`, stands a place of zeros for those that are none.
  void (*beside)(const float* rows, std::int32_t none, const MixTable& table, float* to);

  static constexpr std::int64_t k_width = 16;
};

/// Null if there are none: the plain loops serve.
const MixRows* mix_rows() noexcept;

}  // namespace sluice::simd
