#pragma once

// What the tests of branches share.
#include <algorithm>
#include <vector>

#include <sluice/engine/detail/region_branch.h>

#include "tests/engine/sim_region.h"

namespace device_sim {
void set_condition(unsigned long long handle, unsigned value) noexcept;
}

namespace sluice::test {

inline void set_by_kernel(const Queue& queue, unsigned long long handle, const void* byte) {
  sim_launch(queue, [handle, byte] { device_sim::set_condition(handle, *static_cast<const unsigned char*>(byte)); });
}

/// Words and bytes where the simulated GPU has its memory, a Var each.
struct Cells {
  Cells(Engine& engine, std::size_t count) : count(count) {
    void* made = nullptr;
    cudaMalloc(&made, count * sizeof(Word));
    words = static_cast<Word*>(made);
    std::fill_n(words, count, Word{1});
    cudaMalloc(&made, count);
    bytes = static_cast<unsigned char*>(made);
    std::fill_n(bytes, count, static_cast<unsigned char>(0));
    for (std::size_t i = 0; i < count; ++i) {
      of_words.push_back(engine.new_var());
      of_bytes.push_back(engine.new_var());
    }
  }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;
  ~Cells() {
    cudaFree(words);
    cudaFree(bytes);
  }

  std::size_t count;
  Word* words = nullptr;
  unsigned char* bytes = nullptr;
  std::vector<Var> of_words, of_bytes;
};

inline detail::BranchCondition condition_of(const Cells& cells, std::size_t i) {
  return {
      .name = "choose",
      .device = gpu(0),
      .access = {read(cells.of_bytes[i])},
      .byte = cells.bytes + i,
      .set = set_by_kernel};
}

/// Keeps what a capture's bodies hand over until it is told.
struct Kept final : RetireHook {
  void on_retire(const PositionSet&) noexcept override { ++told; }
  int told = 0;
};

}  // namespace sluice::test
