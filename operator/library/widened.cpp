#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/operator/library/widened.h>

namespace sluice::detail {
namespace {

CopyPlan plan_of(std::int64_t n) {
  const Shape neighbours{1};
  return plan_strided<2>(Shape{n}, {&neighbours, &neighbours});
}

}  // namespace

Widened::Widened(const Queue& queue, DType from, const void* values, std::int64_t n)
    : floats_(queue, static_cast<std::size_t>(n) * sizeof(float)) {
  if (values != nullptr)
    cast_on_cpu(plan_of(n), data(), DType::float32, values, from);
}

void narrow(const float* values, DType to, void* target, std::int64_t n) {
  cast_on_cpu(plan_of(n), target, to, values, DType::float32);
}

}  // namespace sluice::detail
