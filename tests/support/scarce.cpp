#include "tests/support/scarce.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <execinfo.h>
#include <new>

namespace {

std::atomic<long> to_go{0};  // 0: nothing fails
std::atomic<int> struck_times{0};
std::atomic<int> frames{0};
std::array<void*, 24> frame_of{};
thread_local long calls = 0;

bool fails() noexcept {
  if (sluice::test::Plenty::here())
    return false;
  ++calls;
  if (to_go.load(std::memory_order_relaxed) <= 0 || to_go.fetch_sub(1) != 1)
    return false;
  frames.store(backtrace(frame_of.data(), static_cast<int>(frame_of.size())));
  struck_times.fetch_add(1);
  return true;
}

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  if (fails())
    return nullptr;
  bytes = bytes == 0 ? 1 : bytes;
  if (alignment <= alignof(std::max_align_t))
    return std::malloc(bytes);
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* const block = allocate(bytes, alignment);
  if (block == nullptr)
    throw std::bad_alloc();
  return block;
}

}  // namespace

#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t bytes) {
  return allocate_or_throw(bytes, 1);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, 1);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  std::free(block);
}

namespace sluice::test {

void Scarcity::arm() noexcept {
  struck_times.store(0);
  frames.store(0);
  to_go.store(nth_);
}
void Scarcity::disarm() noexcept {
  to_go.store(0);
}
bool Scarcity::struck() const noexcept {
  return struck_times.load() > 0;
}

std::string Scarcity::where() {
  std::string text;
  for (int i = 0; i < frames.load(); ++i) {
    char address[32];
    std::snprintf(address, sizeof address, "%s%p", i == 0 ? "" : " ", frame_of[static_cast<std::size_t>(i)]);
    text += address;
  }
  return text;
}

long allocations_here() noexcept {
  return calls;
}

}  // namespace sluice::test
