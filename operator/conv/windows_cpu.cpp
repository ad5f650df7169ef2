#include <algorithm>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/conv/window_walk.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_grain = 8 * 1024;  // elements

}  // namespace

void unfold_cpu(const KernelCall& call, const WindowWalk& walk) {
  const TensorView &x = call.inputs[0], &columns = call.outputs[0];
  const std::int64_t width = walk.out[1], grain = std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, width));
  by_element_size(size_of(x.dtype), [&]<class U>() {
    parallel_for(columns.size == 0 ? 0 : walk.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const WindowWalk::Row at = walk.row(i);
        U* const to = columns.as<U>() + i * width;
        for (std::int64_t ox = 0; ox < width; ++ox)
          to[ox] = walk.taken(x.as<const U>(), at, ox);
      }
    });
  });
}

namespace {

// A row of an image: tap by tap over the windows that have it, in the order of WindowWalk::added().
template <class C>
void add_row(const WindowWalk& walk, const FloatingArray<C>& columns, std::int64_t row, std::vector<C>& sums) {
  std::fill(sums.begin(), sums.end(), C(0));
  const std::int64_t y = row % walk.in[0], plane = row / walk.in[0];
  for (std::int64_t ky = 0; ky < walk.kernel[0]; ++ky) {
    const std::int64_t oy = walk.window(0, y, ky);
    for (std::int64_t kx = 0; oy >= 0 && kx < walk.kernel[1]; ++kx) {
      const std::int64_t first = walk.row_at({plane, ky, kx, oy}) * walk.out[1];
      for (std::int64_t ox = 0; ox < walk.out[1]; ++ox) {
        if (const std::int64_t x = walk.place(1, ox, kx); walk.is_inside(1, x))
          sums[static_cast<std::size_t>(x)] += columns[first + ox];
      }
    }
  }
}

}  // namespace

void fold_cpu(const KernelCall& call, const WindowWalk& walk) {
  const TensorView& x = call.outputs[0];
  by_computing_type(x.dtype, [&]<class C>() {
    const FloatingArray<C> columns(call.inputs[0]), to(x);
    const std::int64_t width = walk.in[1], taps = walk.kernel[0] * walk.kernel[1];
    const std::int64_t rows = x.size == 0 ? 0 : x.size / width;
    parallel_for(
        rows, std::max<std::int64_t>(1, k_grain / (taps * width + 1)), [&](std::int64_t begin, std::int64_t end) {
          std::vector<C> sums(static_cast<std::size_t>(width));
          for (std::int64_t row = begin; row < end; ++row) {
            add_row(walk, columns, row, sums);
            for (std::int64_t i = 0; i < width; ++i)
              to.put(row * width + i, sums[static_cast<std::size_t>(i)]);
          }
        });
  });
}

}  // namespace sluice::detail
