// Large transfers in slices. Each slice is two tasks that meet at a piece of pinned memory: one copies between host and
// pinned memory, one between pinned memory and the GPU. A few pieces go round; their Vars order everything. The arrays
// themselves are held by one task around them, so that others see the transfer done as a whole or not at all.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <vector>

#include <sluice/engine/coroutine.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/pipeline.h>

namespace sluice::detail {
namespace {

/// Transfers that have begun fill their slices one after the other, a lane for each direction of each GPU: side by
/// side, the first would be done when the last is. Only those that have begun, so none waits for one that cannot.
class Lanes {
 public:
  explicit Lanes(Engine&) noexcept {}
  /// Makes `mine` the last of the lane; returns the one before, empty if there is none.
  Var enter(int lane, const Var& mine) {
    const std::lock_guard hold(mutex_);
    return std::exchange(last_[lane], mine);
  }
  /// A Var that stayed here would keep its engine for ever.
  void leave(int lane, const Var& mine) noexcept {
    const std::lock_guard hold(mutex_);
    const auto at = last_.find(lane);
    if (at != last_.end() && at->second.core() == mine.core())
      last_.erase(at);
  }

 private:
  std::mutex mutex_;
  std::map<int, Var> last_;
};

class Transfer {
 public:
  Transfer(const SlicedCopy& copy, SourceLocation site)
      : copy_(copy), site_(site), filled_(static_cast<std::size_t>(copy.slicing.count)) {
    for (int axis = 1; axis < copy.slicing.shape.ndim(); ++axis)
      row_ *= copy.slicing.shape[axis];
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// In the task that holds the arrays. Throws only if nothing was pushed.
  void push_slices(const std::shared_ptr<Transfer>& self);
  int pieces() const noexcept { return static_cast<int>(ring_.size()); }
  const Var& piece(int i) const noexcept { return ring_[static_cast<std::size_t>(i)].object()->buffer->var(); }

  /// Slices that have not begun are left out.
  void stop() noexcept { stopped_.store(true, std::memory_order_relaxed); }
  void note_failure(std::exception_ptr failure) {
    stop();
    const std::lock_guard hold(mutex_);
    if (failure_ == nullptr)
      failure_ = std::move(failure);
  }
  /// Every slice has ended. Throws unless all of them have arrived.
  void conclude();

 private:
  using Work = void (Transfer::*)(Queue, int slice, std::byte* staging);
  void push_task(const std::shared_ptr<Transfer>& self, Task task, int slice, std::byte* staging, Work work);
  void fill(Queue queue, int slice, std::byte* staging);
  void empty(Queue queue, int slice, std::byte* staging);
  void copy_host(int slice, std::byte* staging) const;
  void copy_far(Queue queue, int slice, std::byte* staging) const;
  int lane() const noexcept { return 2 * copy_.far_device.index + (copy_.outward ? 1 : 0); }
  std::int64_t rows(int slice) const noexcept {
    return std::min(copy_.slicing.rows, copy_.slicing.shape[0] - slice * copy_.slicing.rows);
  }
  std::size_t bytes(int slice) const noexcept {
    return static_cast<std::size_t>(rows(slice) * row_) * size_of(copy_.wire);
  }

  const SlicedCopy copy_;
  const SourceLocation site_;
  std::int64_t row_ = 1;  // elements
  std::vector<NDArray> ring_;
  Var turn_;
  std::vector<char> filled_;  // each under the Var of the slice's piece
  std::atomic<int> arrived_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

void Transfer::push_slices(const std::shared_ptr<Transfer>& self) {
  Engine& engine = Engine::current();
  const int count = copy_.slicing.count;
  std::vector<NDArray> ring(static_cast<std::size_t>(std::min(count, k_slices_in_flight)));
  for (NDArray& piece : ring)
    piece = make_empty(engine, {copy_.slicing.rows * row_}, {.dtype = copy_.wire, .pinned = true});
  ring_.swap(ring);
  turn_ = engine.new_var();
  const Var before = engine.extension<Lanes>().enter(lane(), turn_);
  const StreamKind stream = copy_.outward ? StreamKind::copy_out : StreamKind::copy_in;
  const Device near = cpu(), from = copy_.outward ? copy_.far_device : near,
               to = copy_.outward ? near : copy_.far_device;
  const TaskName name = copy_.outward ? TaskName("copy_out slice") : TaskName("copy_in slice");
  try {
    for (int slice = 0; slice < count; ++slice) {
      const int at = slice % pieces();
      std::byte* const staging = ring_[static_cast<std::size_t>(at)].object()->data();
      Task filling{.name = name, .device = from, .access = {out(piece(at)), write(turn_)}, .stream = stream};
      if (slice == 0 && before.core() != nullptr)
        filling.access.push_back(write(before));
      push_task(self, filling, slice, staging, &Transfer::fill);
      push_task(
          self,
          {.name = name, .device = to, .access = {read(piece(at))}, .stream = stream},
          slice,
          staging,
          &Transfer::empty);
    }
  } catch (...) {
    note_failure(std::current_exception());
  }
}

// The slices' tasks always run and keep what they throw to themselves: the task around them must know when all have
// ended, and nobody but it asks.
void Transfer::push_task(const std::shared_ptr<Transfer>& self, Task task, int slice, std::byte* staging, Work work) {
  static auto* const never = new std::stop_source;  // leaked: tasks may outlive static objects
  task.on_failed_input = OnFailedInput::run;
  task.stop = never->get_token();
  task.denormals = copy_.denormals;
  task.bytes = 2 * bytes(slice);
  Engine::current().push(
      task,
      [held = self, slice, staging, work](Queue queue) {
        try {
          (held.get()->*work)(queue, slice, staging);
        } catch (...) {
          held->note_failure(std::current_exception());
        }
      },
      site_);
}

void Transfer::fill(Queue queue, int slice, std::byte* staging) {
  if (stopped_.load(std::memory_order_relaxed))
    return;
  copy_.outward ? copy_far(queue, slice, staging) : copy_host(slice, staging);
  filled_[static_cast<std::size_t>(slice)] = 1;
}

void Transfer::empty(Queue queue, int slice, std::byte* staging) {
  if (filled_[static_cast<std::size_t>(slice)] == 0)
    return;
  copy_.outward ? copy_host(slice, staging) : copy_far(queue, slice, staging);
  arrived_.fetch_add(1);
}

void Transfer::copy_host(int slice, std::byte* staging) const {
  const Slicing& cut = copy_.slicing;
  Shape shape = cut.shape;
  shape[0] = rows(slice);
  const Shape packed = contiguous_strides(shape);
  const std::int64_t first = slice * cut.rows * cut.strides[0];
  std::byte* const host = copy_.host + first * static_cast<std::int64_t>(size_of(copy_.host_type));
  if (copy_.outward) {
    const auto plan = plan_strided<2>(shape, {&cut.strides, &packed}, AxisOrder::free);
    cast_on_cpu(plan, host, copy_.host_type, staging, copy_.wire);
  } else {
    const auto plan = plan_strided<2>(shape, {&packed, &cut.strides}, AxisOrder::free);
    cast_on_cpu(plan, staging, copy_.wire, host, copy_.host_type);
  }
}

void Transfer::copy_far([[maybe_unused]] Queue queue, int slice, std::byte* staging) const {
  const std::int64_t first = slice * copy_.slicing.rows * row_;
  std::byte* const far = copy_.far + first * static_cast<std::int64_t>(size_of(copy_.wire));
  std::byte* const to = copy_.outward ? staging : far;
  const std::byte* const from = copy_.outward ? far : staging;
#ifdef SLUICE_CUDA
  if (queue.device().is_gpu())
    return copy_bytes(queue.stream(), to, from, bytes(slice));
#endif
  std::memcpy(to, from, bytes(slice));
}

void Transfer::conclude() {
  Engine::current().extension<Lanes>().leave(lane(), turn_);
  ring_.clear();
  if (arrived_.load() == copy_.slicing.count)
    return;
  const std::lock_guard hold(mutex_);
  if (failure_ != nullptr)
    std::rethrow_exception(failure_);
  throw DeviceError(message(
      "copy: ",
      copy_.slicing.count - arrived_.load(),
      " of ",
      copy_.slicing.count,
      " slices were not issued on ",
      copy_.far_device));
}

}  // namespace

std::optional<Slicing> slicing_of(
    const Shape& shape, const Shape& strides, DType dtype, DType wire, const SliceSizes& sizes) {
  ArrayObject like;
  like.dtype = dtype;
  like.shape = shape;
  like.strides = strides;
  like.size = shape.size();
  const std::size_t bytes = static_cast<std::size_t>(like.size) * size_of(wire);
  if (bytes < sizes.from || like.size < 2)
    return {};
  Slicing cut{shape, strides};
  if (is_contiguous(like)) {
    cut.shape = {like.size};
    cut.strides = {1};
  }
  const std::size_t row = bytes / static_cast<std::size_t>(cut.shape[0]);
  const std::size_t wanted = std::clamp(bytes / 4, sizes.smallest, sizes.largest);
  cut.rows = static_cast<std::int64_t>(wanted / row);
  if (cut.rows > 256)
    cut.rows -= cut.rows % 256;  // slices begin at aligned places
  if (cut.rows == 0 || cut.rows >= cut.shape[0])
    return {};
  cut.count = static_cast<int>((cut.shape[0] + cut.rows - 1) / cut.rows);
  return cut;
}

TaskHandle push_sliced(Engine& engine, const SlicedCopy& copy, AccessList access, SourceLocation site) {
  auto transfer = std::make_shared<Transfer>(copy, site);
  const std::uint64_t elements = static_cast<std::uint64_t>(copy.slicing.shape.size());
  const Task task{
      .name = TaskName::lasting(copy.outward ? "copy_out" : "copy_in"),
      .access = std::move(access),
      .bytes = elements * (size_of(copy.wire) + size_of(copy.host_type))};
  return engine.push(
      task,
      [transfer]() -> Coroutine {
        transfer->push_slices(transfer);
        // Each piece is awaited to its end, whoever cancels: until then slices use the arrays that this task holds.
        for (int i = 0; i < transfer->pieces();) {
          try {
            co_await write(transfer->piece(i));
            ++i;
          } catch (const Cancelled&) {
            transfer->note_failure(std::current_exception());
          } catch (...) {
            transfer->note_failure(std::current_exception());
            ++i;
          }
        }
        transfer->conclude();
      },
      site);
}

bool read_sliced(const NDArray& array, void* to, DType dtype) {
  const ArrayObject& object = *array.object();
  const DType wire = size_of(dtype) <= size_of(object.dtype) ? dtype : object.dtype;
  const auto slicing = slicing_of(object.shape, contiguous_strides(object.shape), dtype, wire);
  if (!slicing)
    return false;
  Engine& engine = array.engine();
  NDArray sent = array;
  if (wire != object.dtype || !is_contiguous(object)) {
    sent = make_empty(engine, object.shape, {.dtype = wire, .device = object.device});
    push_copy(array, sent, SourceLocation::current());
  }
  const ArrayObject& source = *sent.object();
  const SlicedCopy copy{true, wire, static_cast<std::byte*>(to), dtype, source.data(), source.device, *slicing};
  const Var landed = engine.new_var();
  AccessList access = accesses_to_read(source);
  access.push_back(out(landed));
  TaskHandle task = push_sliced(engine, copy, std::move(access), SourceLocation::current());
  try {
    engine.wait(landed);
  } catch (...) {
    task.cancel();  // a wait that is refused, because it would never end, leaves a task that has not begun
    throw;
  }
  return true;
}

}  // namespace sluice::detail
