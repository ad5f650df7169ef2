#include <algorithm>
#include <utility>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/shape_watch.h>

namespace sluice::detail {

namespace {
constinit thread_local ShapeWatch* t_watch = nullptr;
}  // namespace

ShapeWatch::ShapeWatch() noexcept : outer_(std::exchange(t_watch, this)) {}

ShapeWatch::~ShapeWatch() {
  t_watch = outer_;
}

void ShapeWatch::note(std::uint64_t value) {
  if (t_watch == nullptr)
    return;
  std::vector<std::uint64_t>& seen = t_watch->seen_;
  if (std::find(seen.begin(), seen.end(), value) == seen.end())
    seen.push_back(value);
}

UnseenShapes::UnseenShapes() noexcept : watch_(std::exchange(t_watch, nullptr)) {}

UnseenShapes::~UnseenShapes() {
  t_watch = watch_;
}

const Shape& unseen_shape(const NDArray& array) {
  return object_of(array, "shape").shape;
}

}  // namespace sluice::detail
