#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/detail/thread_scratch.h>
#include <sluice/operator/matmul/gemm_kernel.h>
#include <sluice/operator/rnn/step_library.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

/// The product of every step of a recurrent layer: a state (batch, depth) and a weight that stays, packed once, for
/// oneDNN or as the kernels of gemm() take it. The units of a layer are cut into blocks; who has a block's product goes
/// on with its units and packs what the next step multiplies, so that a step is one piece of parallel work. What a
/// number is summed up of is the same however many threads there are.
template <class T>
class PackedSteps {
 public:
  /// Of a block: `columns` of the product a unit, gate by gate: column g * units() + j is gate g of its unit j.
  PackedSteps(const Queue& queue, std::int64_t batch, std::int64_t units, std::int64_t columns, std::int64_t depth)
      : kernel_(gemm_kernel<T>()),
        batch_(batch),
        all_units_(units),
        columns_(columns),
        depth_(depth),
        library_(find_library(queue)),
        weights_(queue, library_ ? 0 : bytes(blocks() * panels_of(k_units) * kernel_.columns * depth)),
        states_(queue, bytes(2 * state_size())) {
    std::fill_n(states_.template as<T>(), 2 * state_size(), T{});
  }

  /// Packs the weight; value(gate, unit) is where the `depth` factors of that column begin, `stride` apart.
  template <class At>
  void pack_weights(std::int64_t stride, const At& at) {
    parallel_for(blocks(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block)
        pack_block(block, stride, at);
    });
  }

  /// Puts numbers [first, first + n) of sample `row`'s state where the step after the current one reads them.
  void put(std::int64_t row, std::int64_t first, std::int64_t n, const T* from) {
    if (library_) {
      std::copy_n(from, n, next_state() + row * depth_ + first);
      return;
    }
    const std::int64_t height = kernel_.rows;
    T* to = next_state() + row / height * height * depth_ + first * height + row % height;
    for (std::int64_t i = 0; i < n; ++i)
      to[i * height] = from[i];
  }
  /// The state that was put becomes the one that is multiplied.
  void advance() { ahead_ = !ahead_; }

  /// The part of a step that one thread has: samples [row, row + rows) and units [unit, unit + units); the product of
  /// sample row + i begins at product + i * stride, its gate g at g * units().
  struct Part {
    std::int64_t row, rows, unit, units;
    const T* product;
    std::int64_t stride;
    static constexpr std::int64_t gate_step() noexcept { return k_units; }
  };

  /// Calls use(part) for all parts; their products begin with `bias`(gate, unit), which may be null for zeros, and take
  /// in the state where there is one.
  template <class Bias, class Use>
  void step(bool has_state, const Bias& bias, const Use& use) {
    constexpr std::int64_t k_worth_a_thread = 64 * 1024;  // multiplications
    const std::int64_t row_blocks = (batch_ + row_block() - 1) / row_block();
    const std::int64_t work = std::min(batch_, row_block()) * k_units * columns_ * depth_;
    const std::int64_t grain = std::max<std::int64_t>(1, k_worth_a_thread / std::max<std::int64_t>(1, work));
    parallel_for(row_blocks * blocks(), grain, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t stride = library_ ? columns_ * k_units : panels_of(k_units) * kernel_.columns;
      T* const tile = static_cast<T*>(thread_scratch(ScratchUse::recurrent, bytes(rounded_up(row_block()) * stride)));
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i / blocks() * row_block(), block = i % blocks();
        Part part{row, std::min(row_block(), batch_ - row), block * k_units, 0, tile, stride};
        part.units = std::min(k_units, all_units_ - part.unit);
        if (library_ && has_state) {
          multiply_by_library(part, block, tile);
          add_bias(part, bias, tile);
        } else {
          std::fill_n(tile, rounded_up(part.rows) * stride, T{});
          add_bias(part, bias, tile);
          if (has_state)
            multiply(part, block, tile);
        }
        use(static_cast<const Part&>(part));
      }
    });
  }

 private:
  static constexpr std::int64_t k_units = 64;
  static constexpr std::int64_t k_depth = 1024 / sizeof(T);  // that panels are multiplied at once: they stay near

  static std::size_t bytes(std::int64_t numbers) { return static_cast<std::size_t>(numbers) * sizeof(T); }
  std::int64_t blocks() const noexcept { return (all_units_ + k_units - 1) / k_units; }
  std::int64_t panels_of(std::int64_t units) const noexcept {
    return (columns_ * units + kernel_.columns - 1) / kernel_.columns;
  }
  std::int64_t rounded_up(std::int64_t rows) const noexcept {
    return (rows + kernel_.rows - 1) / kernel_.rows * kernel_.rows;
  }
  // A library's blocks are all alike, hence only of batches that can be cut so.
  std::int64_t library_rows() const noexcept { return batch_ <= 128 ? batch_ : batch_ % 64 == 0 ? 64 : 0; }
  std::int64_t row_block() const noexcept { return library_ ? library_rows() : 96 / kernel_.rows * kernel_.rows; }
  std::int64_t state_size() const noexcept { return rounded_up(batch_) * depth_; }
  std::unique_ptr<StepLibrary> find_library(const Queue& queue) const {
    if (!std::is_same_v<T, float> || library_rows() == 0)
      return nullptr;
    return StepLibrary::find(queue, library_rows(), columns_ * k_units, depth_, blocks());
  }
  T* next_state() { return states_.template as<T>() + (ahead_ ? 0 : state_size()); }
  const T* state() { return states_.template as<T>() + (ahead_ ? state_size() : 0); }
  T* weights_of(std::int64_t block) {
    return weights_.template as<T>() + block * panels_of(k_units) * kernel_.columns * depth_;
  }

  template <class At>
  void pack_block(std::int64_t block, std::int64_t stride, const At& at) {
    const std::int64_t units = std::min(k_units, all_units_ - block * k_units);
    if (library_)
      return pack_for_library(block, units, stride, at);
    const std::int64_t width = kernel_.columns;
    T* const to = weights_of(block);
    std::fill_n(to, panels_of(k_units) * width * depth_, T{});
    for (std::int64_t gate = 0; gate < columns_; ++gate) {
      for (std::int64_t unit = 0; unit < units; ++unit) {
        const std::int64_t column = gate * k_units + unit;
        const T* const from = at(gate, block * k_units + unit);
        T* const panel = to + column / width * width * depth_ + column % width;
        for (std::int64_t k = 0; k < depth_; ++k)
          panel[k * width] = from[k * stride];
      }
    }
  }

  template <class At>
  void pack_for_library(std::int64_t block, std::int64_t units, std::int64_t stride, const At& at) {
    if constexpr (std::is_same_v<T, float>) {
      std::vector<T> columns(static_cast<std::size_t>(columns_ * k_units * depth_));
      for (std::int64_t gate = 0; gate < columns_; ++gate) {
        for (std::int64_t unit = 0; unit < units; ++unit) {
          const T* const from = at(gate, block * k_units + unit);
          T* const to = columns.data() + (gate * k_units + unit) * depth_;
          for (std::int64_t k = 0; k < depth_; ++k)
            to[k] = from[k * stride];
        }
      }
      library_->pack(block, columns.data());
    }
  }

  void multiply_by_library(const Part& part, std::int64_t block, T* tile) {
    if constexpr (std::is_same_v<T, float>)
      library_->multiply(block, state() + part.row * depth_, tile);
  }

  template <class Bias>
  void add_bias(const Part& part, const Bias& bias, T* tile) {
    for (std::int64_t gate = 0; gate < columns_; ++gate) {
      const T* const from = bias(gate, part.unit);
      for (std::int64_t i = 0; from != nullptr && i < part.rows; ++i) {
        T* const to = tile + i * part.stride + gate * k_units;
        for (std::int64_t j = 0; j < part.units; ++j)
          to[j] += from[j];
      }
    }
  }

  void multiply(const Part& part, std::int64_t block, T* tile) {
    const T* const left = state() + part.row * depth_;
    const T* const right = weights_of(block);
    const std::int64_t columns = part.stride;
    for (std::int64_t k = 0; k < depth_; k += k_depth) {
      const std::int64_t depth = std::min(k_depth, depth_ - k);
      for (std::int64_t j = 0; j < columns; j += kernel_.columns) {
        for (std::int64_t i = 0; i < part.rows; i += kernel_.rows)
          kernel_.run(
              depth,
              left + i * depth_ + k * kernel_.rows,
              right + j * depth_ + k * kernel_.columns,
              tile + i * part.stride + j,
              part.stride);
      }
    }
  }

  const GemmKernel<T>& kernel_;
  const std::int64_t batch_, all_units_, columns_, depth_;
  const std::unique_ptr<StepLibrary> library_;
  Workspace weights_, states_;
  bool ahead_ = false;
};

}  // namespace sluice::detail
