// A row operator is a struct of a few lines: one that only this file has, x by the root of its mean square, runs on the
// simulated GPU in every form of the kernel that softmax and its like share.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "operator_row_kernel_cuh.h"
#include "tests/support/catch.h"

using namespace sluice::detail;

namespace {

constexpr int k_first_line = __LINE__;
template <class T>
struct RootMeanSquare : RowOperands<T, 1, true> {
  using C = Compute<T>;
  using InRegisters = RootMeanSquare;
  static constexpr C k_absent = 0;
  C n = 1;

  __device__ C start(std::int64_t) const { return 0; }
  template <int V>
  __device__ void take(C& squares, const RowValues<C, 1, V>& values, std::int64_t) const {
    for (int j = 0; j < V; ++j)
      squares += values.at[0][j] * values.at[0][j];
  }
  __device__ C join(C a, C b) const { return a + b; }
  __device__ C finish(std::int64_t, std::int64_t, C squares, bool) const { return 1 / std::sqrt(squares / n); }
  template <int V>
  __device__ C give(C scale, const RowValues<C, 1, V>& values, int j, std::int64_t) const {
    return values.at[0][j] * scale;
  }
};
constexpr int k_lines = __LINE__ - k_first_line;

template <class T>
double worst(const AxisLayout& at) {
  const auto size = static_cast<std::size_t>(at.outer * at.n * at.inner);
  // Rows begin where vectors do, but for a number of elements that makes none.
  std::vector<sluice::detail::Neighbours<T, k_neighbours<T>>> x(size / k_neighbours<T> + 1), y(x.size());
  T *const from = &x[0].at[0], *const to = &y[0].at[0];
  for (std::size_t i = 0; i < size; ++i)
    from[i] = static_cast<T>(static_cast<float>(i * 37 % 101) / 25 - 2);
  RootMeanSquare<T> op;
  op.in[0] = from;
  op.out = to;
  op.n = static_cast<Compute<T>>(at.n);
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  launch_rows("root_mean_square", op, Rows(at), stream);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  double most = 0;
  for (std::int64_t row = 0; row < at.outer * at.inner; ++row) {
    const auto place = [&](std::int64_t i) {
      return static_cast<std::size_t>((row / at.inner * at.n + i) * at.inner + row % at.inner);
    };
    double squares = 0;
    for (std::int64_t i = 0; i < at.n; ++i)
      squares += std::pow(static_cast<double>(from[place(i)]), 2);
    const double scale = 1 / std::sqrt(squares / static_cast<double>(at.n));
    for (std::int64_t i = 0; i < at.n; ++i) {
      const double want = static_cast<double>(from[place(i)]) * scale;
      most = std::max(most, std::abs(static_cast<double>(to[place(i)]) - want));
    }
  }
  return most;
}

}  // namespace

TEST_CASE("A row operator is a struct of a few lines, for every form of the one kernel", "[gpu][rows]") {
  CHECK(k_lines < 25);
  // Rows in registers, longer ones, odd ones, columns.
  for (const AxisLayout& at : std::vector<AxisLayout>{
           {5, 64, 1}, {3, 1000, 1}, {2, 4096, 1}, {2, 20480, 1}, {3, 33, 1}, {2, 2049, 1}, {2, 50, 3}, {1, 1, 1}}) {
    CAPTURE(at.outer, at.n, at.inner);
    CHECK(worst<float>(at) < 1e-5);
    CHECK(worst<double>(at) < 1e-12);
    CHECK(worst<sluice::Half>(at) < 4e-3);
    CHECK(worst<sluice::BFloat16>(at) < 3e-2);
  }
}
