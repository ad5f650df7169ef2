#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
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
  Arrays gradients(const GradientCall& call) const;

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

/// True if gradients go to one of `inputs`: while recording is on, a call of them goes on the tape.
bool is_recorded(std::span<const NDArray> inputs) noexcept;

ArraySpec spec_of(const NDArray& array);
Specs specs_of(std::span<const NDArray> arrays);

/// The same for the length of a call: few of them lie in place.
class InputSpecs {
 public:
  explicit InputSpecs(std::span<const NDArray> arrays) : size_(arrays.size()) {
    if (size_ > k_in_place) [[unlikely]] {
      const Specs specs = specs_of(arrays);
      more_.assign(specs.begin(), specs.end());
      return;
    }
    for (std::size_t i = 0; i < size_; ++i) {
      const ArrayObject& object = *arrays[i].object();
      ::new (static_cast<void*>(&in_place_[i])) ArraySpec{object.shape, object.dtype, object.device, object.value};
    }
  }
  InputSpecs(const InputSpecs&) = delete;
  InputSpecs& operator=(const InputSpecs&) = delete;
  ~InputSpecs() = default;

  std::span<const ArraySpec> all() const noexcept {
    return size_ > k_in_place ? std::span<const ArraySpec>(more_) : std::span<const ArraySpec>(in_place_, size_);
  }

 private:
  static constexpr std::size_t k_in_place = 4;

  const std::size_t size_;
  std::vector<ArraySpec> more_;
  union {
    ArraySpec in_place_[k_in_place];
  };
};
static_assert(std::is_trivially_destructible_v<ArraySpec>);

}  // namespace sluice::detail
