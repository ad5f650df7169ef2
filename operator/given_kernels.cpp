#include <map>
#include <string_view>

#include <sluice/engine/error.h>
#include <sluice/operator/detail/given_kernels.h>
#include <sluice/operator/detail/grown.h>

namespace sluice {

namespace {

using Given = std::map<const Operator*, KernelTable>;

// Never destroyed: threads may ask to the very end.
detail::Grown<Given>& given() {
  static auto* const made = new detail::Grown<Given>(Given());
  return *made;
}

KernelTable given_to(const Operator& op) noexcept {
  const Given& all = given().now();
  const auto found = all.find(&op);
  return found == all.end() ? KernelTable() : found->second;
}

}  // namespace

Kernel detail::given_kernel(const Operator& op, DeviceKind kind) noexcept {
  return given_to(op)[kind];
}

bool detail::was_given_kernels(const Operator& op) noexcept {
  return !given_to(op).empty();
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
  given().add([&](Given& all) {
    KernelTable& table = all[op];
    require(op->kernels[kind] == nullptr && table[kind] == nullptr, [&] {
      return message("register_kernel: ", name, " has a kernel for devices of kind ", number);
    });
    table.set(kind, kernel);
  });
}

}  // namespace sluice
