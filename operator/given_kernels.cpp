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

std::string called(DeviceKind kind) {
  if (kind == DeviceKind::cpu || kind == DeviceKind::gpu)
    return kind == DeviceKind::cpu ? "CPUs" : "GPUs";
  return message("devices of kind ", static_cast<int>(kind));
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
    if (kernel == nullptr)
      return message("register_kernel: the kernel of ", name, " for ", called(kind), " is null");
    return message(
        "register_kernel: ", name, " has no place for ", called(kind), ", kinds are below ", KernelTable::k_places);
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
      return message("register_kernel: ", name, " has a kernel for ", called(kind), " already");
    });
    table.set(kind, kernel);
  });
}

}  // namespace sluice
