#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <sluice/operator/library/onednn.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

/// The products of PackedSteps by oneDNN, on the calling thread alone: weights are laid out once, as it likes them
/// best.
class StepLibrary {
 public:
  /// Null where there is no oneDNN, or it does not take products (rows, depth) (depth, columns).
  static std::unique_ptr<StepLibrary> find(
      const Queue& queue, std::int64_t rows, std::int64_t columns, std::int64_t depth, std::int64_t blocks);

#ifdef SLUICE_ONEDNN
  StepLibrary(const Queue& queue, std::shared_ptr<const OnednnPlan> plan, std::int64_t blocks);

  /// The weight of a block, a column after the other.
  void pack(std::int64_t block, const float* columns);
  /// product (rows, columns) = state (rows, depth) times that weight.
  void multiply(std::int64_t block, const float* state, float* product);

 private:
  char* weight(std::int64_t block) const noexcept;

  const Queue& queue_;
  const std::shared_ptr<const OnednnPlan> plan_;
  OnednnPlan packed_;  // the same of weights that are laid out
  std::size_t each_;   // bytes of a weight
  Workspace weights_;
#else
  void pack(std::int64_t, const float*) {}
  void multiply(std::int64_t, const float*, float*) {}
#endif
};

}  // namespace sluice::detail
