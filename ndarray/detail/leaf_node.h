#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>

namespace sluice::detail {

/// Where the tape ends: a variable. Shares the variable's state, not the array, so that neither owns itself; of a
/// gradient that is on the tape, which leads here, it only knows where the state is.
class LeafNode final : public autograd::Node {
 public:
  LeafNode(const ArrayObject& array, std::shared_ptr<autograd::Variable> variable)
      : Node("variable", {}), variable_(std::move(variable)), known_(variable_) {
    outputs.push_back({array.shape, array.dtype, array.device});
  }
  std::vector<NDArray> pull(std::span<const NDArray>) override { return {}; }
  void release_saved() noexcept override {}

  /// Takes the gradient as the variable's request says. `keep_graph`: it was recorded and stays on the tape.
  void deposit(NDArray gradient, bool keep_graph);
  std::uint64_t last_deposit() const noexcept { return last_deposit_; }

 private:
  void put(autograd::Variable& variable, NDArray gradient, bool keep_graph);

  std::shared_ptr<autograd::Variable> variable_;  // null while its gradient is on the tape
  std::weak_ptr<autograd::Variable> known_;
  std::uint64_t last_deposit_ = 0;
};

}  // namespace sluice::detail
