#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <boost/container/small_vector.hpp>

#include <sluice/ndarray/iterate.h>
#include <sluice/operator/fused/detail/schedule.h>
#include <sluice/operator/operator.h>

// A program on a CPU: all its calls on a tile of elements that stays in the nearest caches, then the next tile.
namespace sluice::fused {

/// An array as the tiles walk it.
struct Walked {
  std::byte* data = nullptr;
  DType dtype = DType::float32;
  sluice::detail::StridedPlan<1> plan = {};
  bool in_place = false;    // neighbours, which loops take as they lie
  std::int64_t period = 1;  // after so many elements one that is broadcast along the outer axes comes again

  std::byte* at(std::int64_t element) const noexcept {
    return data + element * static_cast<std::int64_t>(size_of(dtype));
  }
  bool is_neighbours() const noexcept { return plan.ndim == 1 && (plan.inner_stride(0) == 1 || plan.size <= 1); }
};

/// One call of a program, of one element at least.
struct TileJob {
  /// An only output without memory is left where Tiles::made() says.
  TileJob(const Interned& what, std::span<const TensorView> inputs, std::span<const TensorView> outputs);

  const Program& program;
  const Schedule& schedule;
  std::int64_t size = 0, tile = 0;  // elements, and those of a tile
  bool keeps = false;               // the output has no memory
  boost::container::small_vector<Walked, 8> inputs;
  boost::container::small_vector<Walked, 4> outputs;
  boost::container::small_vector<int, 32> output_of;  // by value: the output that it is written to at once, or -1

 private:
  void choose_tile();
  void write_in_place(std::size_t output);
};

/// What one thread needs for the tiles of a job, which must outlive it. Its memory is the thread's: one at a time.
class Tiles {
 public:
  /// Throws std::bad_alloc.
  explicit Tiles(const TileJob& job);

  /// Elements [first, first + n) of all outputs, n at most job.tile.
  void run(std::int64_t first, std::int64_t n);
  /// The elements that run() made last, of a job that keeps them.
  const std::byte* made() const noexcept { return kept_; }

 private:
  struct Gathered {
    std::int64_t phase = -1, count = 0;
  };

  std::byte* take(std::byte* base, std::size_t width);
  void lay_out(std::byte* base);
  void gather(std::size_t input, std::int64_t first, std::int64_t n);
  void run_step(const Step& step, std::int64_t first, std::int64_t n);
  void compute(const Step& step, std::byte* to, DType type, std::int64_t n);

  const TileJob& job_;
  const Schedule& schedule_;
  std::size_t bytes_ = 0;
  boost::container::small_vector<std::byte*, 48> slots_;   // by slot: where its elements of this tile are
  boost::container::small_vector<std::byte*, 8> buffers_;  // of inputs that are gathered
  boost::container::small_vector<Gathered, 8> gathered_;   // what of the input's period is there
  std::byte* rounded_ = nullptr;
  std::byte* kept_ = nullptr;
};

}  // namespace sluice::fused
