#include <atomic>
#include <string>

#include <sluice/engine/error.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice {
namespace {
std::atomic<Float32Precision> precision{Float32Precision::highest};
}

void set_float32_precision(std::string_view name) {
  require<ValueError>(name == "highest" || name == "high", [&] {
    return message("set_float32_precision: \"", name, "\" is neither \"highest\" nor \"high\"");
  });
  precision.store(name == "high" ? Float32Precision::high : Float32Precision::highest, std::memory_order_relaxed);
}

std::string_view float32_precision() noexcept {
  return detail::current_float32_precision() == Float32Precision::high ? "high" : "highest";
}

Float32Precision detail::current_float32_precision() noexcept {
  return precision.load(std::memory_order_relaxed);
}

}  // namespace sluice
