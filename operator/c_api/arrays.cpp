#include <sluice/engine/engine.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/c_api/detail/handles.h>

using namespace sluice;
using namespace sluice::c_api;

namespace {

Shape shape_of(int ndim, const std::int64_t* extents) {
  require<ShapeError>(
      ndim >= 0 && ndim <= k_max_ndim, [&] { return message("arrays have 0 to ", k_max_ndim, " axes, not ", ndim); });
  if (ndim > 0)
    check_given("the shape", extents);
  Shape shape;
  for (int axis = 0; axis < ndim; ++axis)
    shape.push_back(extents[axis]);
  return shape;
}

void check_bytes(const NDArray& array, std::size_t bytes) {
  const std::size_t all = static_cast<std::size_t>(array.size()) * size_of(array.dtype());
  require<ShapeError>(bytes == all, [&] {
    return message(
        "an array of shape ", array.shape(), " and type ", array.dtype(), " has ", all, " bytes, not ", bytes);
  });
}

}  // namespace

int sluice_c_api_version() {
  return SLUICE_C_API_VERSION;
}

int sluice_num_gpus() {
  return num_gpus();
}

sluice_status sluice_array_create(
    const void* values,
    const char* dtype,
    int ndim,
    const std::int64_t* shape,
    const char* device,
    sluice_array_t* out) {
  return guarded("sluice_array_create", [&] {
    check_given("dtype", dtype);
    check_given("device", device);
    check_given("out", out);
    const Shape extents = shape_of(ndim, shape);
    const ArrayOptions options{.dtype = parse_dtype(dtype), .device = parse_device(device)};
    const NDArray made = values == nullptr ? empty(extents, options)
                                           : from_values(values, options.dtype, extents.size(), extents, options);
    *out = new_handle(made);
  });
}

sluice_array_t sluice_array_retain(sluice_array_t array) {
  return new_handle(optional_array(array));
}

void sluice_array_release(sluice_array_t array) {
  const NDArray last(object_of(array));
}

sluice_status sluice_array_describe(sluice_array_t array, sluice_array_info* out) {
  return guarded("sluice_array_describe", [&] {
    check_given("out", out);
    const NDArray of = array_of(array);
    const detail::ArrayObject& object = *of.object();
    *out = sluice_array_info{
        .ndim = object.shape.ndim(),
        .shape = object.shape.begin(),
        .strides = object.strides.begin(),
        .size = object.size,
        .element_bytes = size_of(object.dtype),
        .dtype = name_of(object.dtype).data(),
        .is_gpu = object.device.is_gpu() ? 1 : 0,
        .device_index = object.device.index};
  });
}

sluice_status sluice_array_read(sluice_array_t array, void* to, std::size_t bytes) {
  return guarded("sluice_array_read", [&] {
    const NDArray of = array_of(array);
    check_bytes(of, bytes);
    if (bytes == 0)
      return of.wait_to_read();
    check_given("the memory to write", to);
    of.read_out(to, of.dtype(), of.size());
  });
}

sluice_status sluice_array_write(sluice_array_t array, const void* from, std::size_t bytes) {
  return guarded("sluice_array_write", [&] {
    const NDArray of = array_of(array);
    check_bytes(of, bytes);
    if (bytes == 0)
      return;
    check_given("the memory to read", from);
    of.assign(from_values(from, of.dtype(), of.size(), of.shape(), {.dtype = of.dtype(), .device = of.device()}));
  });
}

sluice_status sluice_array_wait(sluice_array_t array) {
  return guarded("sluice_array_wait", [&] { array_of(array).wait_to_read(); });
}

sluice_status sluice_wait_all() {
  return guarded("sluice_wait_all", [] { Engine::current().wait_all(); });
}
