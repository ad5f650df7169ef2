#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/view/beside.h>

namespace sluice {

namespace {

// `make` of what is said of the new array, in the other one's engine.
template <class Make>
NDArray made_beside(
    const char* op, const NDArray& beside, std::optional<DType> dtype, SourceLocation site, const Make& make) {
  return detail::located(site, [&]() -> NDArray {
    const detail::ArrayObject& other = detail::object_of(beside, op);
    const EngineScope scope(beside.engine());
    return make(ArrayOptions{.dtype = dtype.value_or(other.dtype), .device = other.device});
  });
}

NDArray filled_beside(
    const char* op,
    const NDArray& beside,
    const Shape& shape,
    Scalar value,
    std::optional<DType> dtype,
    SourceLocation site) {
  return made_beside(
      op, beside, dtype, site, [&](const ArrayOptions& options) { return full(shape, value, options, site); });
}

}  // namespace

NDArray new_full(
    const NDArray& beside, const Shape& shape, Scalar value, std::optional<DType> dtype, SourceLocation site) {
  return filled_beside("new_full", beside, shape, value, dtype, site);
}

NDArray new_zeros(const NDArray& beside, const Shape& shape, std::optional<DType> dtype, SourceLocation site) {
  return filled_beside("new_zeros", beside, shape, 0, dtype, site);
}

NDArray new_ones(const NDArray& beside, const Shape& shape, std::optional<DType> dtype, SourceLocation site) {
  return filled_beside("new_ones", beside, shape, 1, dtype, site);
}

NDArray new_empty(const NDArray& beside, const Shape& shape, std::optional<DType> dtype, SourceLocation site) {
  return made_beside(
      "new_empty", beside, dtype, site, [&](const ArrayOptions& options) { return empty(shape, options); });
}

}  // namespace sluice
