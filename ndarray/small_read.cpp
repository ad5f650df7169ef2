// Small arrays of a GPU on the host: an ordinary task that reads the array, and a host that spins on what it writes.
#include <chrono>
#include <cstring>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/engine.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/small_read.h>

namespace sluice::detail {
namespace {

/// As long as the engine's own waits spin before they sleep.
constexpr std::chrono::microseconds k_spin{50};

struct GpuReadSlots : ReadSlots {
  explicit GpuReadSlots(Engine&) noexcept : ReadSlots(allocate_mapped, free_mapped) {}
};

// Cast on the host: for so few elements a kernel would cost more than the loop.
void unpack(const ReadSlot& slot, const ArrayObject& array, void* to, DType dtype) {
  if (dtype == array.dtype) {
    std::memcpy(to, slot.data, static_cast<std::size_t>(array.size) * size_of(dtype));
    return;
  }
  const Shape flat{array.size}, step{1};
  cast_on_cpu(plan_strided<2>(flat, {&step, &step}), to, dtype, slot.data, array.dtype);
}

}  // namespace

void read_small(const NDArray& array, void* to, DType dtype) {
  Engine& engine = array.engine();
  NDArray packed = array;
  if (!is_contiguous(*array.object())) {
    const ArrayObject& view = *array.object();
    packed = make_empty(engine, view.shape, {.dtype = view.dtype, .device = view.device});
    push_copy(array, packed, SourceLocation::current());
  }
  const ArrayObject& source = *packed.object();
  const auto bytes = static_cast<std::size_t>(source.size) * size_of(source.dtype);
  const ReadSlotRef slot = engine.extension<GpuReadSlots>().take();
  TaskHandle task = engine.push(
      {.name = "read", .device = source.device, .access = accesses_to_read(source), .bytes = 2 * bytes},
      [held = slot.share(), from = source.data(), bytes](Queue queue) {
        held->position.store(queue.position());
        held->launched.store(true);
        write_slot(queue.stream(), *held, from, bytes);
      });
  engine.flush();
  if (slot->spin_until_landed(k_spin))
    EngineAccess::note_completed(engine, slot->position.load());
  task.wait();  // for a producer that takes longer or a GPU that is lost; and says whether what was read has failed
  unpack(*slot, source, to, dtype);
}

}  // namespace sluice::detail
