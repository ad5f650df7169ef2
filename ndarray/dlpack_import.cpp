// Memory of other libraries as arrays.
#include <algorithm>

#include <sluice/engine/interop.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/dlpack.h>
#include <sluice/ndarray/detail/gpu_build.h>
#include <sluice/storage/foreign.h>

namespace sluice {
namespace {

constexpr const char* k_op = "from_dlpack";

/// Calls the deleter, unless somebody else has taken that over.
template <class Managed>
class TakenOver {
 public:
  explicit TakenOver(Managed* tensor) noexcept : tensor_(tensor) {}
  TakenOver(const TakenOver&) = delete;
  TakenOver& operator=(const TakenOver&) = delete;
  ~TakenOver() {
    if (tensor_ != nullptr)
      end(tensor_);
  }
  void hand_on() noexcept { tensor_ = nullptr; }

  static void end(void* tensor) noexcept {
    auto* const managed = static_cast<Managed*>(tensor);
    if (managed->deleter != nullptr)
      managed->deleter(managed);
  }

 private:
  Managed* tensor_;
};

/// A tensor as an array of ours would lie.
struct Described {
  DType dtype = DType::float32;
  Device device = cpu();
  MemoryKind kind = MemoryKind::host;
  Shape shape, strides;
  std::byte* data = nullptr;  // the first element
  std::size_t bytes = 0;      // from there to the end of the last one
  bool shared = false;        // elements may be one in memory
};

DType dtype_of_tensor(DLDataType type) {
  require<DTypeError>(type.lanes == 1, [&] {
    return message(k_op, ": elements of ", type.lanes, " lanes are not taken, only of one");
  });
  struct Row {
    DLDataTypeCode code;
    int bits;
    DType dtype;
  };
  static constexpr Row k_rows[] = {
      {kDLBool, 8, DType::bool_},
      {kDLUInt, 8, DType::uint8},
      {kDLInt, 8, DType::int8},
      {kDLInt, 32, DType::int32},
      {kDLInt, 64, DType::int64},
      {kDLInt, 16, DType::int16},
      {kDLUInt, 16, DType::uint16},
      {kDLUInt, 32, DType::uint32},
      {kDLUInt, 64, DType::uint64},
      {kDLFloat, 16, DType::float16},
      {kDLBfloat, 16, DType::bfloat16},
      {kDLFloat, 32, DType::float32},
      {kDLFloat, 64, DType::float64},
  };
  for (const Row& row : k_rows) {
    if (row.code == type.code && row.bits == type.bits)
      return row.dtype;
  }
  throw DTypeError(
      message(k_op, ": there is no array type for DLPack's code ", int{type.code}, " of ", int{type.bits}, " bits"));
}

void describe_device(DLDevice device, Described& as) {
  if (device.device_type == kDLCPU)
    return;
  if (device.device_type == kDLCUDAHost) {
    as.kind = num_gpus() > 0 ? MemoryKind::pinned : MemoryKind::host;
    return;
  }
  require<DeviceError>(device.device_type == kDLCUDA, [&] {
    return message(
        k_op,
        ": memory of DLPack's device type ",
        static_cast<int>(device.device_type),
        " is not taken; of a CPU (1), CUDA (2) and page-locked by CUDA (3) it is");
  });
  require<DeviceError>(device.device_id >= 0 && device.device_id < num_gpus(), [&] {
    return message(k_op, ": there is no CUDA device ", device.device_id, ", there are ", num_gpus());
  });
  as.device = gpu(device.device_id);
  as.kind = MemoryKind::device;
  detail::require_served(as.device);
}

void describe_extents(const DLTensor& tensor, Described& as) {
  require<ShapeError>(tensor.ndim >= 0 && tensor.ndim <= k_max_ndim, [&] {
    return message(k_op, ": arrays have 0 to ", k_max_ndim, " axes, the tensor has ", tensor.ndim);
  });
  require<ValueError>(
      tensor.ndim == 0 || tensor.shape != nullptr, [] { return message(k_op, ": the tensor has no shape"); });
  for (int axis = 0; axis < tensor.ndim; ++axis) {
    as.shape.push_back(tensor.shape[axis]);
    require<ShapeError>(tensor.shape[axis] >= 0, [&] {
      return message(k_op, ": axis ", axis, " has the extent ", tensor.shape[axis]);
    });
  }
  const bool packed = tensor.strides == nullptr || as.shape.size() == 0;
  as.strides =
      packed ? contiguous_strides(as.shape) : Shape(std::span(tensor.strides, static_cast<std::size_t>(tensor.ndim)));
  for (int axis = 0; axis < tensor.ndim; ++axis) {
    if (as.shape[axis] <= 1)
      as.strides[axis] = std::max<std::int64_t>(as.strides[axis], 0);  // means nothing
    require<UnsupportedError>(as.strides[axis] >= 0, [&] {
      return message(k_op, ": strides ", as.strides, " run backwards; hand over a copy");
    });
  }
}

/// Of the axes whose bits are in `among`.
int axis_of_least_step(const Shape& strides, unsigned among) {
  int least = -1;
  for (int axis = 0; axis < strides.ndim(); ++axis) {
    if ((among >> axis & 1) != 0 && (least < 0 || strides[axis] < strides[least]))
      least = axis;
  }
  return least;
}

/// True unless each axis steps over all that those of smaller steps reach.
bool may_share(const Described& as) {
  unsigned left = (1U << as.shape.ndim()) - 1;
  for (std::int64_t reach = 0; left != 0;) {
    const int next = axis_of_least_step(as.strides, left);
    left &= ~(1U << next);
    if (as.shape[next] == 1)
      continue;
    if (as.strides[next] <= reach)
      return true;
    reach += (as.shape[next] - 1) * as.strides[next];
  }
  return false;
}

void describe_memory(const DLTensor& tensor, Described& as) {
  if (as.shape.size() == 0)
    return;
  std::int64_t last = 0, bytes = 0;
  bool overflows = false;
  for (int axis = 0; axis < as.shape.ndim(); ++axis) {
    std::int64_t step = 0;
    overflows |= __builtin_mul_overflow(as.shape[axis] - 1, as.strides[axis], &step);
    overflows |= __builtin_add_overflow(last, step, &last);
  }
  const auto element = static_cast<std::int64_t>(size_of(as.dtype));
  overflows |= __builtin_add_overflow(last, 1, &last);
  overflows |= __builtin_mul_overflow(last, element, &bytes);
  require<ShapeError>(!overflows, [&] {
    return message(k_op, ": shape ", as.shape, " with strides ", as.strides, " has more bytes than can be counted");
  });
  require<ValueError>(
      tensor.data != nullptr, [&] { return message(k_op, ": a tensor of shape ", as.shape, " has no data"); });
  as.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  as.bytes = static_cast<std::size_t>(bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(as.data);
  require<ValueError>(address % size_of(as.dtype) == 0, [&] {
    return message(k_op, ": data at ", static_cast<const void*>(as.data), " lies across elements of ", as.dtype);
  });
  as.shared = may_share(as);
}

Described described(const DLTensor& tensor) {
  Described as;
  as.dtype = dtype_of_tensor(tensor.dtype);
  describe_device(tensor.device, as);
  describe_extents(tensor, as);
  describe_memory(tensor, as);
  return as;
}

template <class Managed>
NDArray import_tensor(
    TakenOver<Managed>& owner, Managed* tensor, bool read_only, DlpackStream stream, SourceLocation site) {
  const Described as = described(tensor->dl_tensor);
  bool waits = false;
  void* const from = detail::stream_for(k_op, as.device, stream, waits);
  Engine& engine = Engine::current();
  const ForeignLoan loan(
      engine,
      {.data = as.data,
       .bytes = as.bytes,
       .device = as.device,
       .kind = as.kind,
       .give_back = TakenOver<Managed>::end,
       .context = tensor});
  owner.hand_on();
  detail::Buffer* const buffer = detail::Buffer::create(engine, loan.pool(), as.bytes, ChunkUse::compute);
  NDArray array = detail::make_array(buffer, as.dtype, as.device, as.shape, as.strides, 0);
  if (waits)
    import_stream(engine, as.device, from, detail::accesses_to_write(*array.object()), site);
  if (read_only || as.shared)
    engine.freeze(buffer->var());
  return array;
}

}  // namespace

NDArray from_dlpack(DLManagedTensor* tensor, DlpackStream stream, SourceLocation site) {
  require<ValueError>(tensor != nullptr, [] { return message(k_op, ": there is no tensor"); });
  TakenOver owner(tensor);
  return import_tensor(owner, tensor, false, stream, site);
}

NDArray from_dlpack(DLManagedTensorVersioned* tensor, DlpackStream stream, SourceLocation site) {
  require<ValueError>(tensor != nullptr, [] { return message(k_op, ": there is no tensor"); });
  TakenOver owner(tensor);
  require<UnsupportedError>(tensor->version.major == detail::k_dlpack_version.major, [&] {
    return message(
        k_op,
        ": the tensor is of DLPack ",
        tensor->version.major,
        ".",
        tensor->version.minor,
        ", this reads ",
        detail::k_dlpack_version.major,
        ".x");
  });
  return import_tensor(owner, tensor, (tensor->flags & detail::k_dlpack_read_only) != 0, stream, site);
}

}  // namespace sluice
