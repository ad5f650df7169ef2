#include <dlfcn.h>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/extension/parts.h"

namespace samples {

using namespace sluice;

void doubling(const std::string& object, Device device) {
  // It stays open: the library knows its operator from now on.
  require<FileError>(dlopen(object.c_str(), RTLD_NOW) != nullptr, [] { return message("doubling: ", dlerror()); });
  const Operator* const op = find_operator("sample_doubling");
  require<Error>(op != nullptr, [&] { return message("doubling: ", object, " has no operator of that name"); });
  NDArray x = arange(0, 5, 1, {.device = device});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = invoke_one(*op, {square(x)}, {}, SourceLocation::current());
  }
  y.backward();
  fmt::print("doubling: {} and its gradient {} on {}\n", y.to_string(), x.grad().to_string(), to_string(device));
  require<Error>(all(y == x * x * 2.0F).item<bool>(), [] { return "doubling: a value is wrong"; });
  require<Error>(all(x.grad() == 4.0F * x).item<bool>(), [] { return "doubling: the gradient is wrong"; });
}

}  // namespace samples
