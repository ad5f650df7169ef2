// What an array knows of itself, and reading its values.
#include <memory>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/pipeline.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/ndarray/detail/small_read.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice {

namespace detail {

bool is_contiguous(const ArrayObject& array) noexcept {
  if (array.size <= 1)
    return true;
  std::int64_t expected = 1;
  for (int axis = array.shape.ndim() - 1; axis >= 0; --axis) {
    if (array.shape[axis] == 1)
      continue;
    if (array.strides[axis] != expected)
      return false;
    expected *= array.shape[axis];
  }
  return true;
}

void refuse_without_data(const char* op, const ArrayObject& array) {
  throw ValueError(message(
      op,
      ": an array of shape ",
      array.shape,
      " has no memory: it stands for the result of a call that was recorded for later, not run, as while hybridize(), "
      "export_to() or a TrainStep traces; where(), cond() and while_loop() branch by values, hybridize(false) ends "
      "it"));
}

}  // namespace detail

using detail::object_of;
using detail::with_data;

namespace {

// Of an array without memory: who asks may go on as the extents say, and a trace has to know.
const detail::ArrayObject& seen_object(const NDArray& array, const char* member) {
  const detail::ArrayObject& object = object_of(array, member);
  if (object.buffer == nullptr) [[unlikely]]
    detail::ShapeWatch::note(object.value);
  return object;
}

}  // namespace

const Shape& NDArray::shape() const {
  return seen_object(*this, "shape").shape;
}
const Shape& NDArray::strides() const {
  return seen_object(*this, "strides").strides;
}
std::int64_t NDArray::size() const {
  return seen_object(*this, "size").size;
}
DType NDArray::dtype() const {
  return object_of(*this, "dtype").dtype;
}
Device NDArray::device() const {
  return object_of(*this, "device").device;
}
Engine& NDArray::engine() const {
  const detail::ArrayObject& object = object_of(*this, "engine");
  return object.buffer != nullptr ? object.buffer->engine() : Engine::current();
}
bool NDArray::is_contiguous() const {
  return object_of(*this, "is_contiguous").contiguous;
}

void NDArray::wait_to_read() const {
  const detail::ArrayObject& object = with_data("wait_to_read", object_of(*this, "wait_to_read"));
  for (const Access& access : detail::accesses_to_read(object))
    engine().wait(access);
}

void NDArray::wait_to_write() const {
  const detail::ArrayObject& object = with_data("wait_to_write", object_of(*this, "wait_to_write"));
  AccessList list;
  detail::add_touched(list, object, AccessMode::write);
  for (const Access& access : list)
    engine().wait(access);
}

std::int64_t NDArray::size_for(const char* member, SourceLocation site) const {
  return detail::located(site, [&] { return object_of(*this, member).size; });
}

void NDArray::read_for(const char* member, void* to, DType dtype, std::int64_t n, SourceLocation site) const {
  detail::located(site, [&] {
    const detail::ArrayObject& object = with_data(member, object_of(*this, member));
    detail::check_known(member, dtype);
    require<ShapeError>(object.size == n, [&] {
      return message(member, ": an array of shape ", object.shape, " has ", object.size, " elements, not ", n);
    });
    read_elements(to, dtype, n);
  });
}

void NDArray::read_elements(void* to, DType dtype, std::int64_t n) const {
  const detail::ArrayObject& object = *object_;
#ifdef SLUICE_CUDA
  if (detail::is_small_read(object))
    return detail::read_small(*this, to, dtype);
  if (object.device.is_gpu() && detail::read_sliced(*this, to, dtype))
    return;
#endif
  Engine& mine = engine();
  const EngineScope scope(mine);
  NDArray host = *this;
  if (object.device.is_gpu() && n > 0) {
    const DType wire = size_of(dtype) <= size_of(object.dtype) ? dtype : object.dtype;
    host = detail::make_empty(mine, object.shape, {.dtype = wire, .pinned = true});
    detail::push_copy(*this, host, SourceLocation::current());
  }
  const detail::ArrayObject& source = *host.object();
  for (const Access& access : detail::accesses_to_read(source))
    mine.wait(access);
  if (n == 0)
    return;
  const Shape packed = contiguous_strides(source.shape);
  const auto plan = detail::plan_strided<2>(source.shape, {&packed, &source.strides});
  detail::cast_on_cpu(plan, to, dtype, source.data(), source.dtype);
}

template <>
SLUICE_API std::vector<bool> NDArray::to_vector<bool>(SourceLocation site) const {
  const auto n = static_cast<std::size_t>(size_for("to_vector", site));
  const auto values = std::make_unique<bool[]>(n);
  read_for("to_vector", values.get(), DType::bool_, size(), site);
  return std::vector<bool>(values.get(), values.get() + n);
}

NDArray NDArray::detach() const {
  const detail::ArrayObject& object = object_of(*this, "detach");
  return detail::make_view(*this, object.shape, object.strides, object.offset);
}

}  // namespace sluice
