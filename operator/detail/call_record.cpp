#include <mutex>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/call_record.h>

namespace sluice::detail {

namespace {

// Records are taken by pushing threads and come back from workers, so the pool is shared. Its lock is held for a
// pointer swap. Never destroyed: a task may still end after main.
struct Pool {
  std::mutex mutex;
  CallRecord* first = nullptr;
  int count = 0;
};
constexpr int k_most_kept = 4096;

Pool& pool() {
  static Pool* const pool = new Pool;
  return *pool;
}

}  // namespace

CallRecord* CallRecord::take() {
  {
    Pool& from = pool();
    const std::scoped_lock lock(from.mutex);
    if (from.first != nullptr) {
      --from.count;
      return std::exchange(from.first, std::exchange(from.first->next, nullptr));
    }
  }
  return new CallRecord;
}

void CallRecord::give_back(CallRecord* record) noexcept {
  record->attributes = {};
  record->inputs.clear();
  record->outputs.clear();
  Pool& to = pool();
  {
    const std::scoped_lock lock(to.mutex);
    if (to.count < k_most_kept) {
      ++to.count;
      record->next = std::exchange(to.first, record);
      return;
    }
  }
  delete record;
}

TensorView view_of(const NDArray& array) {
  const ArrayObject& object = *array.object();
  return {object.data(), object.shape, object.strides, object.size, object.dtype, array.is_contiguous()};
}

}  // namespace sluice::detail
