#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string_view>

#include <sluice/engine/error.h>
#include <sluice/operator/detail/given_kernels.h>

namespace sluice {

namespace {

// Never destroyed: threads may ask to the very end.
class GivenKernels {
 public:
  KernelTable of(const Operator& op) const noexcept {
    if (count_.load(std::memory_order_acquire) == 0)
      return {};
    const std::shared_lock hold(mutex_);
    const auto found = tables_.find(&op);
    return found == tables_.end() ? KernelTable() : found->second;
  }

  /// False where there is one.
  bool add(const Operator& op, DeviceKind kind, Kernel kernel) {
    const std::lock_guard hold(mutex_);
    KernelTable& table = tables_[&op];
    if (table[kind] != nullptr)
      return false;
    table.set(kind, kernel);
    count_.fetch_add(1, std::memory_order_release);
    return true;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::atomic<int> count_{0};
  std::map<const Operator*, KernelTable> tables_;
};

GivenKernels& given() {
  static auto* const made = new GivenKernels;
  return *made;
}

}  // namespace

Kernel detail::given_kernel(const Operator& op, DeviceKind kind) noexcept {
  return given().of(op)[kind];
}

bool detail::was_given_kernels(const Operator& op) noexcept {
  return !given().of(op).empty();
}

void register_kernel(std::string_view name, DeviceKind kind, Kernel kernel) {
  const Operator* const op = find_operator(name);
  require(op != nullptr, [&] { return message("register_kernel: there is no operator ", name); });
  const int number = static_cast<int>(kind);
  require(kernel != nullptr && number < static_cast<int>(KernelTable::k_places), [&] {
    const char* const what = kernel == nullptr ? " was given no kernel" : " was given one for a kind without a place";
    return message("register_kernel: ", name, what, ", kind ", number);
  });
  require(op->view == nullptr && op->issue == nullptr && op->infer != nullptr, [&] {
    const char* const what = op->view != nullptr    ? " is a view"
                             : op->issue != nullptr ? " pushes its tasks itself"
                                                    : " has no inference";
    return message("register_kernel: ", name, what);
  });
  require(op->kernels[kind] == nullptr && given().add(*op, kind, kernel), [&] {
    return message("register_kernel: ", name, " has a kernel for devices of kind ", number);
  });
}

}  // namespace sluice
