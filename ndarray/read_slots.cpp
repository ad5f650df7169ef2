#include <algorithm>

#include <sluice/ndarray/detail/read_slots.h>

namespace sluice::detail {
namespace {

constexpr std::size_t k_slots_at_once = 16;
// The flag shares its cache line with the first bytes, so that a scalar costs the host one miss.
constexpr std::size_t k_data_at = 16;
constexpr std::size_t k_stride = (k_data_at + ReadSlot::k_bytes + 63) / 64 * 64;

void rest_the_core() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

bool ReadSlot::spin_until_landed(std::chrono::nanoseconds limit) const noexcept {
  const auto end = std::chrono::steady_clock::now() + limit;
  do {
    for (int looks = 0; looks < 8; ++looks) {
      if (landed())
        return true;
      rest_the_core();
    }
  } while (std::chrono::steady_clock::now() < end);
  return landed();
}

ReadSlotRef::~ReadSlotRef() {
  if (slot_ != nullptr && slot_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1)
    slot_->home->give_back(*slot_);
}

ReadSlots::~ReadSlots() {
  for (void* slab : slabs_)
    free_(slab);
}

ReadSlotRef ReadSlots::take() {
  const std::lock_guard hold(mutex_);
  const auto usable = [](const ReadSlot* slot) { return !slot->launched.load() || slot->landed(); };
  auto found = std::find_if(idle_.rbegin(), idle_.rend(), usable);
  if (found == idle_.rend()) {
    make_more();
    found = idle_.rbegin();
  }
  std::swap(*found, idle_.back());
  ReadSlot* const slot = idle_.back();
  idle_.pop_back();
  slot->sequence = ++sequence_;
  slot->position.store({}, std::memory_order_relaxed);
  slot->launched.store(false, std::memory_order_relaxed);
  slot->holders.store(1, std::memory_order_relaxed);
  return ReadSlotRef(slot);
}

void ReadSlots::make_more() {
  slabs_.reserve(slabs_.size() + 1);
  slots_.reserve(slots_.size() + k_slots_at_once);
  idle_.reserve(slots_.capacity());  // give_back() must not allocate
  std::vector<std::unique_ptr<ReadSlot>> fresh(k_slots_at_once);
  for (auto& slot : fresh)
    slot = std::make_unique<ReadSlot>();
  auto* slab = static_cast<std::byte*>(allocate_(k_slots_at_once * k_stride));
  slabs_.push_back(slab);
  for (std::size_t i = 0; i < k_slots_at_once; ++i) {
    std::byte* const at = slab + i * k_stride;
    fresh[i]->flag = ::new (at) std::uint64_t{0};
    fresh[i]->data = at + k_data_at;
    fresh[i]->home = this;
    idle_.push_back(fresh[i].get());
    slots_.push_back(std::move(fresh[i]));
  }
}

void ReadSlots::give_back(ReadSlot& slot) noexcept {
  const std::lock_guard hold(mutex_);
  idle_.push_back(&slot);
}

std::size_t ReadSlots::count() const {
  const std::lock_guard hold(mutex_);
  return slots_.size();
}

}  // namespace sluice::detail
