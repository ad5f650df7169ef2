#include <array>
#include <memory>
#include <new>

#include <sluice/operator/detail/thread_scratch.h>

namespace sluice::detail {

namespace {

constexpr std::align_val_t k_alignment{64};

struct Free {
  void operator()(std::byte* memory) const noexcept { ::operator delete[](memory, k_alignment); }
};
struct Kept {
  std::unique_ptr<std::byte[], Free> memory;
  std::size_t bytes = 0;
};
constexpr std::size_t k_uses = static_cast<std::size_t>(ScratchUse::recurrent) + 1;

}  // namespace

void* thread_scratch(ScratchUse use, std::size_t bytes) {
  static thread_local std::unique_ptr<std::array<Kept, k_uses>> all;  // one word: see static_tls.h
  if (all == nullptr)
    all = std::make_unique<std::array<Kept, k_uses>>();
  Kept& kept = (*all)[static_cast<std::size_t>(use)];
  if (bytes > kept.bytes) {
    kept = {};
    kept.memory.reset(static_cast<std::byte*>(::operator new[](bytes, k_alignment)));
    kept.bytes = bytes;
  }
  return kept.memory.get();
}

}  // namespace sluice::detail
