// Arrays as DLPack's tensors. The other way: dlpack_import.cpp.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/fork_watch.h>
#include <sluice/engine/detail/unseen_writes.h>
#include <sluice/engine/interop.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/dlpack.h>
#include <sluice/ndarray/dlpack.h>

namespace sluice {

namespace detail {

void* stream_for(const char* op, Device device, DlpackStream stream, bool& waits) {
  waits = device.is_gpu() && stream != -1;
  require<ValueError>(device.is_gpu() || !stream.has_value() || *stream == -1, [&] {
    return message(op, ": an array of ", device, " has no stream, ", *stream, " was given");
  });
  require<ValueError>(!stream.has_value() || (*stream != 0 && *stream >= -1), [&] {
    return message(op, ": a stream is 1 (legacy), 2 (per thread), -1 (none) or a cudaStream_t, not ", *stream);
  });
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(stream.value_or(1)));
}

namespace {

/// Memory that others may write, once a loan. Never destroyed: deleters are called to the very end.
class Loans {
 public:
  void begin(const Buffer* buffer) {
    const std::lock_guard hold(mutex_);
    lent_.push_back(buffer);
    count_.store(lent_.size(), std::memory_order_release);
  }
  void end(const Buffer* buffer) noexcept {
    const std::lock_guard hold(mutex_);
    lent_.erase(std::find(lent_.begin(), lent_.end(), buffer));
    count_.store(lent_.size(), std::memory_order_release);
  }
  bool has(const Buffer* buffer) noexcept {
    if (count_.load(std::memory_order_acquire) == 0)
      return false;
    const std::lock_guard hold(mutex_);
    return std::find(lent_.begin(), lent_.end(), buffer) != lent_.end();
  }

 private:
  std::mutex mutex_;
  const HeldOverForks held_{mutex_};
  std::vector<const Buffer*> lent_;
  std::atomic<std::size_t> count_{0};
};

Loans& loans() {
  static auto* const made = new Loans;
  return *made;
}

}  // namespace

bool is_lent(const Buffer& buffer) noexcept {
  return loans().has(&buffer);
}

}  // namespace detail

namespace {

using detail::ArrayObject;

DLDataType dlpack_type(DType dtype) noexcept {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(dtype));
  const DLDataTypeCode code = dtype == DType::bool_      ? kDLBool
                              : is_unsigned(dtype)       ? kDLUInt
                              : dtype == DType::bfloat16 ? kDLBfloat
                              : is_integer(dtype)        ? kDLInt
                                                         : kDLFloat;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

/// Of memory that the consumer may write.
class Loan {
 public:
  explicit Loan(const detail::Buffer* buffer) : buffer_(buffer) {
    if (buffer_ != nullptr)
      detail::loans().begin(buffer_);
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() {
    if (buffer_ != nullptr)
      detail::loans().end(buffer_);
  }

 private:
  const detail::Buffer* const buffer_;  // null: of none
};

/// What an exported tensor holds; the consumer's call of the deleter ends it.
template <class Managed>
struct Exported {
  NDArray array;
  Loan loan;
  Shape shape, strides;
  Managed managed = {};

  Exported(const NDArray& of, bool writable)
      : array(of), loan(writable ? of.object()->buffer : nullptr), shape(of.shape()), strides(of.strides()) {
    const ArrayObject& object = *array.object();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { delete static_cast<Exported*>(self->manager_ctx); };
    const bool gpu = object.device.is_gpu();
    managed.dl_tensor = {
        .data = object.size == 0 ? nullptr : object.data(),
        .device = {gpu ? kDLCUDA : kDLCPU, gpu ? object.device.index : 0},
        .ndim = shape.ndim(),
        .dtype = dlpack_type(object.dtype),
        .shape = shape.ndim() == 0 ? nullptr : &shape[0],
        .strides = shape.ndim() == 0 ? nullptr : &strides[0],
        .byte_offset = 0};
  }
};

bool is_frozen(const ArrayObject& object) noexcept {
  const auto& regions = object.buffer->regions();
  return std::any_of(
      regions.begin(), regions.end(), [](const auto& one) { return detail::EngineAccess::is_frozen(one.var); });
}

NDArray copy_of(const NDArray& array, SourceLocation site) {
  const ArrayObject& object = *array.object();
  NDArray made = detail::make_empty(array.engine(), object.shape, {.dtype = object.dtype, .device = object.device});
  detail::push_copy(array, made, site);
  return made;
}

/// What was pushed on the array comes before what the consumer does.
void put_in_order(const char* op, const NDArray& array, DlpackStream stream, bool reads, SourceLocation site) {
  const ArrayObject& object = *array.object();
  bool waits = false;
  void* const on = detail::stream_for(op, object.device, stream, waits);
  AccessList list;
  detail::add_touched(list, object, reads ? AccessMode::read : AccessMode::write);
  if (waits)
    return export_stream(array.engine(), object.device, on, list, site);
  if (!object.device.is_cpu())
    return;
  if (!reads)  // a write of which those are told who keep what they made of the array
    array.engine().push(
        {.name = "export", .access = list}, [] {}, site);
  for (const Access& access : list)
    array.engine().wait(access);
}

template <class Managed>
Managed* export_array(const char* op, const NDArray& array, const DlpackOptions& options, SourceLocation site) {
  const ArrayObject& object = detail::with_data(op, detail::object_of(array, op));
  bool waits = false;
  detail::stream_for(op, object.device, options.stream, waits);  // refused before anything is pushed
  require<AutogradError>(!array.requires_grad(), [&] {
    return message(op, ": the tape does not follow an array into another library; export its detach()");
  });
  require<UnsupportedError>(options.copy || !detail::runs_backwards(object), [&] {
    return message(op, ": strides ", object.strides, " run backwards, which others do not take; ask for a copy");
  });
  constexpr bool has_flags = requires(Managed managed) {
    managed.flags;
  };
  const bool frozen = !options.copy && is_frozen(object);
  const bool read_only = frozen || (options.read_only && !options.copy);
  require<ValueError>(has_flags || !frozen, [&] {
    return message(op, ": the array is read-only, which only a versioned tensor or a copy can be told");
  });
  const bool writable = !read_only && !options.copy;
  auto made = std::make_unique<Exported<Managed>>(options.copy ? copy_of(array, site) : array, writable);
  if (writable)
    detail::note_unseen_writes();
  put_in_order(op, made->array, options.stream, read_only, site);
  if constexpr (has_flags) {
    made->managed.version = detail::k_dlpack_version;
    made->managed.flags = (read_only ? detail::k_dlpack_read_only : 0) | (options.copy ? detail::k_dlpack_copied : 0);
  }
  return &made.release()->managed;
}

}  // namespace

DLManagedTensor* to_dlpack(const NDArray& array, const DlpackOptions& options, SourceLocation site) {
  return export_array<DLManagedTensor>("to_dlpack", array, options, site);
}

DLManagedTensorVersioned* to_dlpack_versioned(const NDArray& array, const DlpackOptions& options, SourceLocation site) {
  return export_array<DLManagedTensorVersioned>("to_dlpack_versioned", array, options, site);
}

}  // namespace sluice
