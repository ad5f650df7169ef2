// Kernels that move whole arrays on a GPU, in the sizes that choose between their forms: vectors or single elements,
// rows in registers or not, a warp or a block a row, tiles that end within the array.
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Function = std::function<NDArray(const NDArray&)>;

/// Empty if f gives on the GPU what it gives on the CPU, with the gradient of `head` where one is given.
std::string differences_of(const NDArray& x, const Function& f, Tolerance tolerance, double head = 0) {
  const auto run = [&](Device device) {
    NDArray variable = x.to(device).copy();
    if (head == 0)
      return std::vector<NDArray>{f(variable)};
    variable.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = f(variable);
    }
    y.backward(random_array(y.shape(), 77, 0.5 * head, head, y.dtype(), device));
    return std::vector<NDArray>{y, variable.grad()};
  };
  const auto got = run(gpu()), want = run(cpu());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::string found = differences(got[i].to(cpu()), want[i], tolerance);
    if (!found.empty())
      return message("array ", i, ": ", found);
  }
  return {};
}

constexpr std::int64_t k_to_end = std::numeric_limits<std::int64_t>::max();
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();
constexpr double k_infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("Transposed arrays of every element size are copied on a GPU, whole vectors or not", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {uint8, float16, float32, float64}) {
    for (const auto& [rows, columns] :
         {std::pair{16, 16}, {64, 64}, {128, 68}, {65, 130}, {1, 200}, {200, 15}, {333, 77}}) {
      CAPTURE(dtype, rows, columns);
      const NDArray x = random_array({rows, columns}, 1, 0, 100, dtype);
      CHECK(differences_of(x, [](const NDArray& v) { return v.T().copy(); }, {0, 0}) == "");
      // What begins between vectors, and rows that are longer than what is read of them.
      const NDArray part = random_array({rows + 3, columns + 1}, 2, 0, 100, dtype);
      CHECK(
          differences_of(
              part,
              [](const NDArray& v) { return v.slice(0, 3, k_to_end).slice(1, 1, k_to_end).T().copy(); },
              {0, 0}) == "");
    }
    const NDArray images = random_array({3, 20, 9, 16}, 3, 0, 100, dtype);
    CHECK(differences_of(images, [](const NDArray& v) { return v.transpose({0, 2, 3, 1}).copy(); }, {0, 0}) == "");
    CHECK(differences_of(images, [](const NDArray& v) { return v.transpose({3, 2, 1, 0}).copy(); }, {0, 0}) == "");
    CHECK(differences_of(images, [](const NDArray& v) { return v.transpose({1, 0, 3, 2}).copy(); }, {0, 0}) == "");
  }
}

// Rows that are not whole vectors, each with another place in them: one less and one more than a tile, than a tile and
// what it reads before it, than two.
TEST_CASE("Turned copies of odd extents on a GPU, from and to places between vectors", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const std::int64_t extents[] = {16, 17, 31, 63, 65, 71, 73, 127, 129, 143, 145, 259};
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    for (const std::int64_t rows : extents) {
      for (const std::int64_t columns : extents) {
        CAPTURE(dtype, rows, columns);
        const NDArray x = random_array({rows, columns}, 1, 0, 100, dtype);
        CHECK(differences_of(x, [](const NDArray& v) { return v.T().copy(); }, {0, 0}) == "");
        // Of rows that lie apart, into such rows: what lies between them stays.
        const std::int64_t before = (rows + columns) % 7;
        const NDArray wide = random_array({rows + 2, columns + 11}, 2, 0, 100, dtype);
        const auto into = [&](const NDArray& v) {
          const NDArray to = full({columns + 1, rows + 9}, 3, {.dtype = dtype, .device = v.device()});
          const NDArray part = v.slice(0, 1, rows + 1).slice(1, before, before + columns);
          to.slice(0, 1, k_to_end).slice(1, 8 - before, 8 - before + rows).assign(part.T());
          return to;
        };
        CHECK(differences_of(wide, into, {0, 0}) == "");
      }
    }
    const NDArray batch = random_array({5, 3, 67, 133}, 3, 0, 100, dtype);
    CHECK(differences_of(batch, [](const NDArray& v) { return v.transpose({1, 0, 3, 2}).copy(); }, {0, 0}) == "");
    CHECK(differences_of(batch, [](const NDArray& v) { return v.transpose({0, 2, 3, 1}).copy(); }, {0, 0}) == "");
    CHECK(differences_of(batch, [](const NDArray& v) { return v.transpose({3, 1, 0, 2}).copy(); }, {0, 0}) == "");
  }
}

// Elements of 4 bytes go as above only where both arrays are large: many small turns in one copy, and one large one.
TEST_CASE("Large turned copies of odd extents on a GPU, of elements of 4 bytes", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const auto& [rows, columns] : {std::pair{17, 71}, {65, 63}, {143, 129}, {73, 16}, {2903, 2909}}) {
    CAPTURE(rows, columns);
    const std::int64_t count = ((std::int64_t{8} << 20) + rows * columns - 1) / (rows * columns);
    const std::int64_t size = count * rows * columns;
    const NDArray x = arange(0, static_cast<double>(size + 1), 1, {.dtype = int32});
    const auto turn = [&](const NDArray& v) {  // from and to places that are no whole vectors
      const NDArray to = full({size + 3}, -1, {.dtype = int32, .device = v.device()});
      const NDArray part = v.slice(0, 1, size + 1).reshape({count, rows, columns});
      to.slice(0, 2, size + 2).reshape({count, columns, rows}).assign(part.swapaxes(1, 2));
      return to;
    };
    CHECK(differences_of(x, turn, {0, 0}) == "");
    CHECK(turn(x).slice(0, 2, 3).item<int>() == 1);
  }
}

TEST_CASE("Arithmetic with transposed arrays on a GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {uint8, bfloat16, float32, float64}) {
    for (const std::int64_t n : {8, 63, 64, 96, 256, 512}) {
      CAPTURE(dtype, n);
      const NDArray x = random_array({n, n}, 9, 0, 100, dtype);
      CHECK(differences_of(x, [](const NDArray& v) { return v + v.T(); }, {0, 0}) == "");
      CHECK(differences_of(x, [](const NDArray& v) { return v.T() < v; }, {0, 0}) == "");
    }
    const NDArray batch = random_array({3, 64, 32}, 10, 0, 100, dtype);
    CHECK(
        differences_of(batch, [](const NDArray& v) { return v.swapaxes(1, 2).copy().swapaxes(1, 2) * v[0]; }, {0, 0}) ==
        "");
  }
}

TEST_CASE("Softmax and its gradient on a GPU, rows in registers and longer ones", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float64, bfloat16}) {
    const Tolerance tolerance = dtype == float64   ? Tolerance{1e-11, 1e-13}
                                : dtype == float32 ? Tolerance{2e-5, 1e-7}
                                                   : Tolerance{2e-2, 1e-3};
    for (const std::int64_t n : {1, 7, 8, 32, 520, 1024, 1032, 2048, 4096, 8192, 8200, 16384, 33000}) {
      CAPTURE(dtype, n);
      const NDArray x = random_array({5, n}, 4, -3, 3, dtype);
      CHECK(
          differences_of(
              x, [](const NDArray& v) { return softmax(v); }, tolerance, 1) == "");
      CHECK(
          differences_of(
              x, [](const NDArray& v) { return log_softmax(v); }, {tolerance.relative, 1e-4}, 1) == "");
    }
  }
  for (const std::int64_t n : {8, 1032, 20000}) {
    CAPTURE(n);
    NDArray x = random_array({4, n}, 5);
    x.slice(0, 0, 1).assign(-k_infinity);
    x.slice(0, 1, 2).slice(1, 1, k_to_end).assign(-k_infinity);
    x.slice(0, 2, 3).slice(1, n - 1, k_to_end).assign(k_nan);
    CHECK(differences_of(x, [](const NDArray& v) { return softmax(v); }, {2e-5, 1e-7}) == "");
    CHECK(differences_of(x, [](const NDArray& v) { return log_softmax(v); }, {2e-5, 1e-5}) == "");
  }
}

TEST_CASE("Largest elements and their places on a GPU: ties, NaN, few and many rows", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, bfloat16, float64, int32, uint8}) {
    for (const auto& [rows, n] :
         {std::pair{3, 16}, {3, 1040}, {2, 4096}, {9000, 64}, {8200, 1040}, {2, 40000}, {4, 1041}}) {
      // A warp a long row: in the widest vectors. How many rows there are is the same to all types.
      const bool are_many = rows > 8192;
      if ((rows * n > 1000000 && dtype != uint8) || (are_many && dtype != uint8 && dtype != float32))
        continue;
      CAPTURE(dtype, rows, n);
      NDArray x = random_array({rows, n}, 6, 0, 30, dtype).astype(int32).astype(dtype);  // many are equal
      if (is_floating(dtype)) {
        x.slice(0, 1, 2).slice(1, n / 2, n / 2 + 2).assign(k_nan);
        x.slice(0, 0, 1).assign(-k_infinity);
      }
      CHECK(differences_of(x, [](const NDArray& v) { return argmax(v, 1); }, {0, 0}) == "");
      CHECK(differences_of(x, [](const NDArray& v) { return max(v, {1}); }, {0, 0}) == "");
      if (are_many)
        continue;
      CHECK(differences_of(x, [](const NDArray& v) { return argmin(v, 1); }, {0, 0}) == "");
      CHECK(differences_of(x, [](const NDArray& v) { return min(v, {1}); }, {0, 0}) == "");
    }
  }
}

TEST_CASE("Sums over several axes on a GPU, planes in vectors or not", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float64, bfloat16, int32}) {
    const Tolerance tolerance = dtype == bfloat16 ? Tolerance{1e-2, 1e-1} : Tolerance{1e-5, 1e-4};
    for (const Shape& shape : {Shape{3, 5, 4, 4}, {2, 3, 7, 7}, {8, 2, 56, 56}, {70, 1, 33, 31}, {0, 4, 5, 5}}) {
      CAPTURE(dtype, shape);
      const NDArray x = random_array(shape, 7, 0, 3, dtype);
      CHECK(
          differences_of(
              x,
              [](const NDArray& v) {
                return sum(v, {0, 2, 3});
              },
              tolerance) == "");
      CHECK(
          differences_of(
              x,
              [](const NDArray& v) {
                return sum(v, {1, 3});
              },
              tolerance) == "");
      CHECK(
          differences_of(
              x,
              [](const NDArray& v) {
                return sum(v.slice(3, 1, k_to_end), {0, 2, 3});
              },
              tolerance) == "");
    }
  }
}

TEST_CASE("Batch norm and its gradient on a GPU, long and short planes and channels last", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float64, bfloat16}) {
    const Tolerance tolerance = dtype == float64   ? Tolerance{1e-9, 1e-9}
                                : dtype == float32 ? Tolerance{1e-3, 1e-4}
                                                   : Tolerance{3e-2, 3e-2};
    for (const auto& [shape, axis] :
         {std::pair{Shape{4, 3, 8, 8}, 1},
          {Shape{3, 5, 7, 7}, 1},
          {Shape{2, 2, 96, 96}, 1},
          {Shape{40, 3, 33, 31}, 1},
          {Shape{6, 5, 4, 8}, 3},
          {Shape{9, 7}, 1},
          {Shape{3, 1, 5, 5}, 1}}) {
      CAPTURE(dtype, shape, axis);
      const std::int64_t count = shape[axis];
      // Far from zero: sums of squares would lose what the moments keep.
      const NDArray x = random_array(shape, 8, 99, 101, float64).astype(dtype);
      const auto norm = [&, at = axis](const NDArray& v) {
        const ArrayOptions like{.dtype = dtype == bfloat16 ? float32 : dtype, .device = v.device()};
        const NDArray gamma = full({count}, 1.5, like), beta = full({count}, -0.5, like);
        const NDArray mean = zeros({count}, like), var = ones({count}, like);
        return batch_norm(v, gamma, beta, mean, var, {.axis = at});
      };
      CHECK(differences_of(x, norm, tolerance, 1) == "");
    }
  }
}
