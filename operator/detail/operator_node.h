#pragma once

#include <span>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// One recorded call of an operator: what its gradient reads, detached from the tape.
class OperatorNode final : public autograd::Node {
 public:
  OperatorNode(
      const Operator& op,
      std::span<const NDArray> inputs,
      Attributes attributes,
      RandomBlock random,
      SourceLocation site);

  /// Keeps the outputs that the gradient reads, and notes what they are.
  void keep_outputs(std::span<const NDArray> outputs);

  static void* operator new(std::size_t bytes);
  static void operator delete(void* memory) noexcept;

  std::vector<NDArray> pull(std::span<const NDArray> output_grads) override;
  void release_saved() noexcept override;

 private:
  Arrays restored_inputs() const;
  Arrays restored_outputs();

  const Operator& op_;
  Attributes attributes_;
  RandomBlock random_;
  bool released_ = false;
  Mask kept_outputs_;
  boost::container::small_vector<bool, 3> wanted_;
  boost::container::small_vector<autograd::Saved, 3> saved_inputs_;
  boost::container::small_vector<autograd::Saved, 1> saved_outputs_;
  Specs input_specs_;
};

/// True if a call of `op` on `inputs` goes on the tape of this thread.
bool is_recorded(const Operator& op, std::span<const NDArray> inputs) noexcept;

ArraySpec spec_of(const NDArray& array);
Specs specs_of(std::span<const NDArray> arrays);

}  // namespace sluice::detail
