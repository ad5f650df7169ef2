#include <array>
#include <bit>
#include <new>
#include <utility>

#include <sluice/engine/detail/block_pool.h>
#include <sluice/engine/detail/node_pool.h>

namespace sluice::detail {

namespace {

// Sizes 128, 256, ... k_largest_block, one pool each.
constexpr std::size_t k_smallest_block = 128;
constexpr std::size_t k_sizes = std::bit_width(k_largest_block / k_smallest_block);

template <std::size_t Bytes>
struct alignas(64) Block {
  union {
    Block* next;
    std::byte bytes[Bytes];
  };
  Block() : next(nullptr) {}
};

std::size_t size_index(std::size_t bytes) noexcept {
  return bytes <= k_smallest_block ? 0 : std::bit_width((bytes - 1) / k_smallest_block);
}

struct SizedPool {
  void* (*take)();
  void (*give)(void*) noexcept;
};

template <std::size_t Bytes>
struct Sized {
  using Pool = NodePool<Block<Bytes>, &Block<Bytes>::next>;
  static void* take() { return Pool::take(); }
  static void give(void* block) noexcept { Pool::give(static_cast<Block<Bytes>*>(block)); }
};

template <std::size_t... Index>
constexpr std::array<SizedPool, sizeof...(Index)> make_pools(std::index_sequence<Index...>) {
  return {{{&Sized<(k_smallest_block << Index)>::take, &Sized<(k_smallest_block << Index)>::give}...}};
}
constexpr auto k_pools = make_pools(std::make_index_sequence<k_sizes>());

}  // namespace

void* take_block(std::size_t bytes) {
  if (bytes > k_largest_block)
    return ::operator new (bytes, std::align_val_t{64});
  return k_pools[size_index(bytes)].take();
}

void give_block(void* block, std::size_t bytes) noexcept {
  if (bytes > k_largest_block)
    return ::operator delete (block, std::align_val_t{64});
  k_pools[size_index(bytes)].give(block);
}

}  // namespace sluice::detail
