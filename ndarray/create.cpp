#include <cstring>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/gpu_build.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/storage/storage.h>

namespace sluice {
namespace {

// `count`: as shape.size() says.
std::size_t bytes_of(const Shape& shape, std::int64_t count, DType dtype) {
  detail::check_known("empty", dtype);
  std::int64_t signs = 0;  // of all extents
  for (const std::int64_t extent : shape)
    signs |= extent;
  require<ShapeError>(signs >= 0, [&] { return message("empty: shape ", shape, " has a negative extent"); });
  std::size_t bytes = 0;
  const auto size = static_cast<std::size_t>(count);
  require<ShapeError>(!__builtin_mul_overflow(size, size_of(dtype), &bytes), [&] {
    return message("empty: shape ", shape, " of ", dtype, " has more bytes than can be counted");
  });
  return bytes;
}

/// Host values as a contiguous array: pinned if a GPU is to read them and such memory is free, so that they are
/// copied once. They are copied before this returns, or by a task from a copy of their own.
NDArray take_values(Engine& engine, const void* values, DType from, const Shape& shape, bool pinned, SourceLocation s) {
  NDArray taken = detail::make_empty(engine, shape, {.dtype = from, .pinned = pinned});
  const detail::ArrayObject& object = *taken.object();
  const std::size_t bytes = bytes_of(shape, object.size, from);
  if (object.buffer->fresh()) {
    std::memcpy(object.data(), values, bytes);
    return taken;
  }
  // A GPU may still use the memory: only a task may write there. No GPU uses what is not pinned.
  const NDArray copied = detail::make_empty(engine, shape, {.dtype = from});
  const detail::ArrayObject& source = *copied.object();
  std::memcpy(source.data(), values, bytes);
  engine.push(
      {.name = "from_values", .access = detail::accesses_to_copy(source, object), .bytes = 2 * bytes},
      [to = object.data(), held = source.data(), bytes] { std::memcpy(to, held, bytes); },
      s);
  return taken;
}

}  // namespace

namespace detail {

NDArray make_empty(Engine& engine, const Shape& shape, const ArrayOptions& options) {
  const std::int64_t size = shape.size();
  const std::size_t bytes = bytes_of(shape, size, options.dtype);
  require<ValueError>(!options.pinned || options.device.is_cpu(), [&] {
    return message("empty: pinned memory belongs to the CPU, not to ", options.device);
  });
  require<DeviceError>(options.device.is_gpu() || options.device == cpu(), [&] {
    return message("empty: there is no ", options.device, "; the one CPU device is ", cpu());
  });
  if (options.device.is_gpu())
    require_served(options.device);
  const bool pinned = options.pinned && num_gpus() > 0;
  const MemoryKind kind = options.device.is_gpu() ? MemoryKind::device : pinned ? MemoryKind::pinned : MemoryKind::host;
  Pool& pool = Storage::of(engine).pool(options.device, kind);
  const ChunkUse use = options.copied_into ? ChunkUse::copy_target : ChunkUse::compute;
  Buffer* buffer = Buffer::create(engine, pool, bytes, use);
  return make_packed(buffer, options.dtype, options.device, shape, size);
}

NDArray make_beside(Engine& engine, const ArrayObject& beside, const Shape& shape, DType dtype) {
  if (beside.buffer == nullptr || beside.buffer->chunk().kind == MemoryKind::pinned) [[unlikely]]
    return make_empty(engine, shape, {.dtype = dtype, .device = beside.device});
  Pool& pool = *beside.buffer->chunk().pool;
  if (beside.contiguous && shape == beside.shape) [[likely]] {  // what is there has a size that can be counted
    const std::size_t bytes = static_cast<std::size_t>(beside.size) * size_of(dtype);
    return make_packed(
        Buffer::create(engine, pool, bytes, ChunkUse::compute), dtype, beside.device, shape, beside.size);
  }
  const std::int64_t size = shape.size();
  Buffer* const buffer = Buffer::create(engine, pool, bytes_of(shape, size, dtype), ChunkUse::compute);
  return make_packed(buffer, dtype, beside.device, shape, size);
}

}  // namespace detail

NDArray empty(const Shape& shape, const ArrayOptions& options) {
  return detail::make_empty(Engine::current(), shape, options);
}

NDArray empty_like(const NDArray& array) {
  const detail::ArrayObject& like = detail::object_of(array, "empty_like");
  return detail::make_empty(array.engine(), like.shape, {.dtype = like.dtype, .device = like.device});
}

NDArray from_values(
    const void* values,
    DType from,
    std::int64_t n,
    const Shape& shape,
    const ArrayOptions& options,
    SourceLocation site) {
  detail::located(site, [&] {
    detail::check_known("array", from);
    detail::check_known("array", options.dtype);
    require<ShapeError>(
        n >= 0 && shape.size() == n, [&] { return message("array: ", n, " values do not fill shape ", shape); });
  });
  if (n == 0)
    return empty(shape, options);
  const bool whole = from == options.dtype && options.device.is_cpu();
  NDArray taken =
      take_values(Engine::current(), values, from, shape, whole ? options.pinned : options.device.is_gpu(), site);
  if (whole)
    return taken;
  ArrayOptions landing = options;
  landing.copied_into = options.device.is_gpu();
  NDArray made = empty(shape, landing);
  detail::push_copy(taken, made, site, detail::CopyTo::made);
  return made;
}

}  // namespace sluice
