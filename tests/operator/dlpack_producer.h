#pragma once

// Another library's side of an exchange by DLPack: tensors that count how often they are given back.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/dlpack_abi.h>

#include "tests/support/gate.h"

namespace sluice::test {

/// Memory of `elements` floats 0, 1, 2, .. and one tensor on it.
template <class Managed>
struct Producer {
  std::vector<float> memory;
  std::vector<std::int64_t> shape, strides;
  std::atomic<int> returned{0}, lent{0};
  Managed tensor = {};

  Producer(std::vector<std::int64_t> extents, std::vector<std::int64_t> steps, std::size_t elements)
      : memory(elements), shape(std::move(extents)), strides(std::move(steps)) {
    for (std::size_t i = 0; i < elements; ++i)
      memory[i] = static_cast<float>(i);
    tensor.manager_ctx = this;
    tensor.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->returned; };
    tensor.dl_tensor = {
        .data = memory.data(),
        .device = {kDLCPU, 0},
        .ndim = static_cast<std::int32_t>(shape.size()),
        .dtype = {kDLFloat, 32, 1},
        .shape = shape.data(),
        .strides = strides.empty() ? nullptr : strides.data(),
        .byte_offset = 0};
    if constexpr (requires(Managed managed) { managed.version; })
      tensor.version = {1, 0};
  }
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;
  /// What was lent comes back by a task, maybe behind the last array: nobody reads the tensor once it is gone.
  ~Producer() {
    if (tensor.deleter != nullptr)
      eventually([this] { return returned >= lent; });
  }
  /// So often, and no more: the task that gives a tensor back may end after whoever read the last array goes on.
  bool came_back(int times) const {
    return eventually([this, times] { return returned >= times; }) && returned == times;
  }
  DLTensor& described() { return tensor.dl_tensor; }
  NDArray import() {
    ++lent;
    return from_dlpack(&tensor);
  }
};

using PlainProducer = Producer<DLManagedTensor>;
using VersionedProducer = Producer<DLManagedTensorVersioned>;

/// Calls the deleter at the end, as a consumer does.
template <class Managed>
class Consumed {
 public:
  explicit Consumed(Managed* tensor) : tensor_(tensor) {}
  Consumed(const Consumed&) = delete;
  Consumed& operator=(const Consumed&) = delete;
  ~Consumed() { tensor_->deleter(tensor_); }
  const Managed* operator->() const { return tensor_; }
  const DLTensor& described() const { return tensor_->dl_tensor; }
  template <class T>
  T* as() const {
    return static_cast<T*>(tensor_->dl_tensor.data);
  }

 private:
  Managed* tensor_;
};

}  // namespace sluice::test
