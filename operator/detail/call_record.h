#pragma once

#include <utility>

#include <boost/container/small_vector.hpp>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// All that one kernel run needs. It holds no arrays: the engine keeps the memory behind a task's Vars until the task
/// has finished, so addresses are enough.
struct CallRecord {
  const Operator* op = nullptr;
  Kernel kernel = nullptr;
  Attributes attributes;
  RandomBlock random;
  boost::container::small_vector<TensorView, 3> inputs;
  boost::container::small_vector<TensorView, 2> outputs;
  CallRecord* next = nullptr;  // in the pool

  /// An empty record, recycled: pushing threads take them, workers give them back. Throws std::bad_alloc.
  static CallRecord* take();
  static void give_back(CallRecord* record) noexcept;
};

/// The task body of a kernel run: owns its record. May run more than once (graph capture).
class CallBody {
 public:
  explicit CallBody(CallRecord* record) noexcept : record_(record) {}
  CallBody(CallBody&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  CallBody& operator=(CallBody&&) = delete;
  ~CallBody() {
    if (record_ != nullptr)
      CallRecord::give_back(record_);
  }
  CallRecord& record() noexcept { return *record_; }
  void operator()(Queue queue) {
    record_->kernel({*record_->op, queue, record_->inputs, record_->outputs, record_->attributes, record_->random});
  }

 private:
  CallRecord* record_;
};

/// Adds what a kernel sees of `array`.
template <class Views>
void add_view(Views& views, const ArrayObject& array) {
  views.emplace_back(array.data(), array.shape, array.strides, array.size, array.dtype, array.contiguous);
}

}  // namespace sluice::detail
