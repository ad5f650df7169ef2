// Products of a few rows on a GPU, as a layer makes them of one sample: of as many terms as fill vectors or do not.
#include <cstddef>

#ifdef SLUICE_CUDA
#include <sluice/operator/matmul/row_product.h>
#endif

#include "tests/operator/heavy_reference.h"
#include "tests/operator/with_tf32.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

NDArray draw(const Shape& shape, std::uint64_t seed, DType dtype) {
  return random_array(shape, seed, -1, 1, dtype);
}

// What a dense layer of x, w and b makes on a GPU, beside the same in float64.
std::string differences_of(const NDArray& x, const NDArray& w, const NDArray& b, bool relu) {
  const DenseOptions options{.activation = relu ? "relu" : ""};
  const auto wide = [](const NDArray& array) { return array.defined() ? array.to(cpu()).astype(float64) : array; };
  const NDArray wanted = dense(wide(x), wide(w), wide(b), options);
  return differences(dense(x, w, b, options).to(cpu()), wanted, sum_tolerance(x.dtype()));
}

}  // namespace

TEST_CASE("A few rows times columns of many neighbouring terms agree with float64 on a GPU", "[matmul][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : k_heavy_dtypes) {
    for (const std::int64_t m : {1, 2, 3, 4, 5}) {
      // One vector behind whole rounds of a warp, one before, fewer than the loads under way; no whole vectors.
      for (const std::int64_t k : {1032, 1272, 2048, 1037}) {
        for (const std::int64_t n : {1, 6}) {
          CAPTURE(dtype, m, k, n);
          const NDArray x = draw({m, k}, 1, dtype).to(gpu()), w = draw({n, k}, 2, dtype).to(gpu());
          CHECK(differences_of(x, w, {}, false) == "");
          CHECK(differences_of(x, w, draw({n}, 3, dtype).to(gpu()), true) == "");
        }
      }
    }
  }
}

// Of matmul, which takes matrices as they lie.
TEST_CASE("A few rows of a product lie anywhere on a GPU", "[matmul][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float16, float32}) {
    const NDArray all = draw({6, 1104}, 1, dtype), weights = draw({7, 1104}, 2, dtype),
                  turned = draw({1032, 4}, 3, dtype);
    const auto check = [&, dtype = dtype](const auto& x, const auto& w) {
      const auto product = [&](DType type, Device device) {
        const auto there = [&](const NDArray& array) { return array.astype(type).to(device); };
        return matmul(x(there(all), there(turned)), w(there(weights)).transpose()).to(cpu());
      };
      CHECK(differences(product(dtype, gpu()), product(float64, cpu()), sum_tolerance(dtype)) == "");
    };
    for (const std::int64_t first : {0, 1, 8}) {
      for (const std::int64_t k : {1032, 1037}) {
        CAPTURE(dtype, first, k);
        const auto columns = [&](const NDArray& w) { return w.slice(1, first, first + k); };
        const auto aligned = [&](const NDArray& w) { return w.slice(1, 0, k); };
        check([&](const NDArray& x, const NDArray&) { return x.slice(0, 0, 6, 2).slice(1, 8, 8 + k); }, columns);
        check([&](const NDArray& x, const NDArray&) { return columns(x.slice(0, 1, 3)); }, aligned);
        check(
            [&](const NDArray& x, const NDArray&) {
              return aligned(x.slice(0, 0, 1)).broadcast_to({3, k});
            },
            columns);
      }
    }
    for (const std::int64_t m : {1, 4})
      check(
          [m](const NDArray&, const NDArray& x) { return x.transpose().slice(0, 0, m); },
          [](const NDArray& w) { return w.slice(1, 0, 1032); });
  }
}

TEST_CASE("Products of a few rows of a batch each have their own on a GPU", "[matmul][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = draw({3, 2, 1032}, 1, float32), w = draw({3, 5, 1032}, 2, float32);
  const auto product = [](const NDArray& a, const NDArray& b) { return matmul(a, b.swapaxes(-1, -2)).to(cpu()); };
  CHECK(
      differences(
          product(x.to(gpu()), w.to(gpu())), product(x.astype(float64), w.astype(float64)), sum_tolerance(float32)) ==
      "");
}

#ifdef SLUICE_CUDA
TEST_CASE("Products of a few rows with columns of few terms, or of very many, are left to a library", "[matmul]") {
  using namespace sluice::detail;
  alignas(16) std::byte here[16];
  const auto takes = [&](DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
    return is_row_product(
        {.dtype = dtype, .m = m, .n = n, .k = k, .a = {here, k, 1}, .b = {here, 1, k}, .c = {here, n, 1}});
  };
  CHECK(takes(float32, 1, 1000, 2048));
  CHECK(takes(float16, 4, 50304, 768));
  CHECK(takes(float32, 1, 10, 25088));
  CHECK_FALSE(takes(float32, 5, 1000, 2048));
  CHECK_FALSE(takes(float32, 1, 1, 1 << 20));
  CHECK_FALSE(takes(float16, 1, 1, 1 << 18));
  CHECK_FALSE(takes(float32, 1, 1 << 20, 64));
  CHECK_FALSE(takes(float16, 4, 1 << 20, 16));
}
#endif

TEST_CASE("NaN and infinity pass a product of a few rows on a GPU, relu too", "[matmul][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  NDArray x = ones({2, 1040}, {.dtype = float16});
  x.slice(0, 1, 2).slice(1, 1039, 1040).assign(NAN);
  NDArray w = full({3, 1040}, -1, {.dtype = float16});
  w.slice(0, 2, 3).slice(1, 3, 4).assign(INFINITY);
  const std::vector<float> got =
      dense(x.to(gpu()), w.to(gpu()), {}, {.activation = "relu"}).astype(float32).to(cpu()).to_vector<float>();
  CHECK(got[0] == 0);
  CHECK(got[2] == INFINITY);
  for (const std::size_t at : {3, 4, 5})
    CHECK(std::isnan(got[at]));
}

// More columns than all warps of a launch have at once.
TEST_CASE("A row of a product goes through many columns on a GPU", "[matmul][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  for (const std::int64_t m : {1, 3}) {
    const NDArray x = draw({m, 1032}, 1, float16).to(gpu()), w = draw({20001, 1032}, 2, float16).to(gpu());
    CHECK(differences_of(x, w, draw({20001}, 3, float16).to(gpu()), true) == "");
  }
}

// Of the tiles' own extents, one more and one fewer; of as few and as many terms as blocks share, and more.
TEST_CASE("Products in TF32 whose tiles blocks share agree with float64", "[matmul][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const WithTf32 high;
  for (const std::int64_t m : {5, 64, 65, 256}) {
    for (const std::int64_t n : {60, 64, 68, 256, 257}) {
      for (const std::int64_t k : {228, 256, 784, 2048, 2052}) {
        CAPTURE(m, n, k);
        const NDArray x = draw({m, k}, 1, float32), w = draw({n, k}, 2, float32), b = draw({n}, 3, float32);
        const NDArray there[] = {x.to(gpu()), w.to(gpu()), b.to(gpu())};
        for (const bool relu : {false, true}) {
          const DenseOptions options{.activation = relu ? "relu" : ""};
          const NDArray made = dense(there[0], there[1], there[2], options);
          const NDArray wanted = dense(x.astype(float64), w.astype(float64), b.astype(float64), options);
          CHECK(differences(made.to(cpu()), wanted, {3e-3, 3e-2}) == "");
          CHECK(differences(dense(there[0], there[1], there[2], options).to(cpu()), made.to(cpu())) == "");
        }
        CHECK(
            differences(
                matmul(there[0], there[1].transpose()).to(cpu()),
                matmul(x.astype(float64), w.astype(float64).transpose()),
                {3e-3, 3e-2}) == "");
      }
    }
  }
}
