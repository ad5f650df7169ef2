#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <boost/container/small_vector.hpp>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/operator.h>

// From a checked call of an operator with a kernel to its task.
namespace sluice::detail {

/// Bit i of a Mask, whose last one stands for all further inputs.
inline bool has(Mask mask, std::size_t i) noexcept {
  return (mask >> std::min<std::size_t>(i, 31) & 1) != 0;
}

/// One call on its way through invoke().
struct Call {
  const Operator& op;
  std::span<const NDArray> inputs;
  const Attributes& attributes;
  SourceLocation site;
  std::span<const NDArray> destinations;
  bool recorded = false;
  bool plain = false;  // the inputs have memory
  RandomBlock random;
};

/// How the call's arrays of four axes lie where the operator cares, and its new results where it keeps an order.
MemoryOrder order_of(const Call& call, Device device);

/// Inputs as the kernel takes them: the call's own, as most calls have them, or partly copies. Of those that it also
/// writes the copies must come back, so they are noted.
class KernelInputs {
 public:
  KernelInputs(const Call& call, MemoryOrder order, Engine& engine) : arrays(call.inputs) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (!call.inputs[i].object()->contiguous || order != MemoryOrder::row_major) [[unlikely]]
        replace(call, order, engine, i);
    }
  }
  KernelInputs(const KernelInputs&) = delete;
  KernelInputs& operator=(const KernelInputs&) = delete;

  std::span<const NDArray> arrays;
  boost::container::small_vector<std::size_t, 2> copied_mutables;

 private:
  // Where the kernel does not take that one as it lies.
  void replace(const Call& call, MemoryOrder order, Engine& engine, std::size_t i);

  Arrays replaced_;
};

/// Where the kernel writes: destinations where it can, otherwise new arrays.
Arrays kernel_outputs(const Call& call, const Specs& specs, MemoryOrder order, Engine& engine);

/// Pushes the kernel's task; none where nothing is written.
void push_kernel(
    const Call& call,
    Kernel kernel,
    std::span<const NDArray> inputs,
    const Arrays& outputs,
    Device device,
    Engine& engine);

}  // namespace sluice::detail
