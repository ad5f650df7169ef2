#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <sluice/gluon/detail/hybrid.h>
#include <sluice/ndarray/autograd.h>

namespace sluice::gluon::detail {

/// A recorded call of a hybridized block: one node on the tape, whose gradient is a plan.
class HybridNode final : public autograd::Node {
 public:
  /// `results`: of program->forward.
  HybridNode(
      std::shared_ptr<const HybridProgram> program,
      std::span<const NDArray> inputs,
      std::span<const NDArray> results,
      SourceLocation site);

  std::vector<NDArray> pull(std::span<const NDArray> output_grads) override;
  void release_saved() noexcept override;

 private:
  std::vector<NDArray> pull_again(std::span<const NDArray> output_grads) const;
  void check_constants_again() const;

  const std::shared_ptr<const HybridProgram> program_;
  std::vector<autograd::Saved> inputs_;        // of the call
  std::vector<autograd::Saved> saved_;         // that the gradients read, and behind them the numbers that were drawn
  std::vector<autograd::Saved> constants_;     // that the gradients read
  std::vector<std::uint64_t> versions_again_;  // of what forward reads beside when it is run again
  bool released_ = false;
};

}  // namespace sluice::gluon::detail
