// Elementwise operators on a GPU against the same on the CPU: every row, every type, every access pattern.
#include <functional>

#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

NDArray draw(const Shape& shape, std::uint64_t seed, double low, double high, DType dtype) {
  return random_array(shape, seed, dtype == uint8 && low < 0 ? 0 : low, high, dtype);
}

// Library functions differ in their last bits between the two.
Tolerance loose(DType dtype) {
  const Tolerance t = tolerance_of(dtype);
  return is_floating(dtype) ? Tolerance{4 * t.relative, 4 * t.absolute} : Tolerance{0, 0};
}

// Operands on the CPU whose views exercise vectors, single elements, tails, rows, columns and strides.
std::vector<std::pair<NDArray, NDArray>> pairs(double low, double high, DType dtype) {
  const auto d = [&](const Shape& shape, std::uint64_t seed) { return draw(shape, seed, low, high, dtype); };
  return {
      {d({100003}, 1), d({100003}, 2)},         // vectors and a tail
      {d({37}, 3), d({37}, 4)},                 // too short for vectors
      {d({64, 128}, 5), d({128}, 6)},           // rows
      {d({64, 1}, 7), d({64, 128}, 8)},         // columns
      {d({64, 128}, 9).T(), d({128, 64}, 10)},  // strides
      {d({33, 21}, 11), d({}, 12)},             // one number of an array
      {d({8, 40, 6}, 13).slice(1, 1, 40, 3), d({13, 1}, 14)},
      {d({129}, 15).slice(0, 1, 129), d({128}, 16)},  // not aligned to vectors
  };
}

// Large, of odd rows, with a rest behind the last vector; repeated along other axes than the innermost, with steps,
// and from within a vector.
std::vector<std::pair<NDArray, NDArray>> odd_pairs(double low, double high, DType dtype) {
  const auto d = [&](const Shape& shape, std::uint64_t seed) { return draw(shape, seed, low, high, dtype); };
  return {
      {d({301, 303}, 1), d({303}, 2)},
      {d({301, 1}, 3), d({301, 303}, 4)},
      {d({303}, 5), d({301, 1}, 6)},
      {d({3, 151, 149}, 7), d({151, 1}, 8)},
      {d({3, 151, 149}, 9), d({151, 149}, 10)},
      {d({8, 257, 49}, 11), d({258}, 12).slice(0, 1, 258).reshape({257, 1})},
      {d({301, 303}, 13), d({607}, 14).slice(0, 606, 0, -2)},
  };
}

NDArray on_gpu(const NDArray& x) {
  return x.to(gpu());
}

// A transposed or sliced view of a GPU copy, not a contiguous copy of the view.
NDArray like_on_gpu(const NDArray& x, const std::function<NDArray(const NDArray&)>& view) {
  return view(on_gpu(x));
}

struct Gradients {
  NDArray a, b;
};

Gradients gradients_of(const std::function<NDArray(const NDArray&, const NDArray&)>& f, NDArray a, NDArray b) {
  a = a.detach();
  b = b.detach();
  a.attach_grad();
  b.attach_grad();
  {
    const autograd::RecordScope record;
    f(a, b).backward();
  }
  return {a.grad(), b.grad()};
}

}  // namespace

TEST_CASE("binary rows give the same on a GPU as on the CPU", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const BinaryCase& row : binary_cases()) {
    for (const DType dtype : k_all_dtypes) {
      std::size_t index = 0;
      for (const auto& [a, b] : pairs(row.low, row.high, dtype)) {
        CAPTURE(row.name, dtype, index++);
        const NDArray want = row(a, b);
        CHECK(differences(row(on_gpu(a), on_gpu(b)), want, loose(want.dtype())) == "");
      }
    }
  }
}

TEST_CASE(
    "odd rows, columns and numbers of channels give the same on a GPU as on the CPU", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float16, bfloat16, float32, float64, int32, uint8}) {
    for (const auto& [a, b] : odd_pairs(0, 9, dtype)) {
      CAPTURE(dtype, to_string(a.shape()), to_string(b.shape()));
      CHECK(differences(on_gpu(a) - on_gpu(b), a - b, {0, 0}) == "");
      CHECK(differences(on_gpu(a) > on_gpu(b), a > b, {0, 0}) == "");
      const NDArray both = a.shape().size() > b.shape().size() || a.size() > b.size() ? a : b;
      const NDArray chosen = where(both > 4, a, b);
      CHECK(differences(where(on_gpu(both) > 4, on_gpu(a), on_gpu(b)), chosen, {0, 0}) == "");
      // Parts of vectors: rows begin elsewhere, and the result lies between others.
      CHECK(
          differences(
              on_gpu(both).slice(0, 1, 3) + on_gpu(both).slice(0, 0, 1),
              both.slice(0, 1, 3) + both.slice(0, 0, 1),
              {0, 0}) == "");
    }
  }
  NDArray sum = draw({301, 303}, 1, 0, 9, float32), on = on_gpu(sum);
  const NDArray row = draw({303}, 2, 0, 9, float32), column = draw({301, 1}, 3, 0, 9, float32);
  sum += row, sum *= column;
  on += on_gpu(row), on *= on_gpu(column);
  CHECK(differences(on, sum, {0, 0}) == "");
}

TEST_CASE("numbers beside GPU arrays give the same as beside CPU arrays", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const BinaryCase& row : binary_cases()) {
    for (const DType dtype : k_all_dtypes) {
      CAPTURE(row.name, dtype);
      for (const std::int64_t size : {5, 70001}) {
        const NDArray a = draw({size}, 21, row.low, row.high, dtype);
        const DType type = row(a, 2).dtype();
        CHECK(differences(row(on_gpu(a), 2), row(a, 2), loose(type)) == "");
        CHECK(differences(row(2, on_gpu(a)), row(2, a), loose(type)) == "");
        CHECK(differences(row(on_gpu(a), 1.5), row(a, 1.5), loose(row(a, 1.5).dtype())) == "");
      }
    }
  }
}

TEST_CASE("unary rows give the same on a GPU as on the CPU", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const UnaryCase& row : unary_cases()) {
    for (const DType dtype : k_all_dtypes) {
      for (const std::int64_t size : {1, 37, 70001}) {
        CAPTURE(row.name, dtype, size);
        const NDArray x = draw({size}, 22, row.low, row.high, dtype);
        const NDArray want = row(x);
        CHECK(differences(row(on_gpu(x)), want, loose(want.dtype())) == "");
      }
    }
  }
}

TEST_CASE("strided views of GPU arrays give the same as of CPU arrays", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const std::vector<std::function<NDArray(const NDArray&)>> views = {
      [](const NDArray& x) { return x.T(); },
      [](const NDArray& x) { return x.slice(1, 1, 64, 3); },
      [](const NDArray& x) { return x.slice(0, 4, 40); },
      [](const NDArray& x) { return x.slice(1, 4, 60); },
      [](const NDArray& x) {
        return x.expand_dims(1).broadcast_to({48, 3, 64});
      },
      [](const NDArray& x) {
        return x.reshape({4, 12, 8, 8}).swapaxes(1, 2);
      },
  };
  for (const DType dtype : k_all_dtypes) {
    const NDArray x = draw({48, 64}, 23, -3, 3, dtype);
    for (std::size_t i = 0; i < views.size(); ++i) {
      CAPTURE(dtype, i);
      const NDArray here = views[i](x), there = like_on_gpu(x, views[i]);
      CHECK(differences(abs(there), abs(here), loose(dtype)) == "");
      CHECK(differences(there + there, here + here, loose(dtype)) == "");
      CHECK(differences(where(there > 0, there, 0), where(here > 0, here, 0), loose(dtype)) == "");
    }
  }
}

TEST_CASE("gradients of rows give the same on a GPU as on the CPU", "[operator][elementwise][gradient][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : k_floating_dtypes) {
    const Tolerance t = loose(dtype);
    const Tolerance wide{8 * t.relative, 8 * t.absolute};  // sums over broadcast axes
    for (const UnaryCase& row : unary_cases()) {
      if (!row.has_gradient())
        continue;
      CAPTURE(row.name, dtype);
      const auto f = [&](const NDArray& x, const NDArray&) { return row(x); };
      const NDArray x = draw({1003}, 24, row.low, row.high, dtype);
      CHECK(differences(gradients_of(f, on_gpu(x), on_gpu(x)).a, gradients_of(f, x, x).a, wide) == "");
    }
    for (const BinaryCase& row : binary_cases()) {
      if (!row.has_gradient())
        continue;
      CAPTURE(row.name, dtype);
      const auto f = [&](const NDArray& a, const NDArray& b) { return row(a, b); };
      const auto g = [&](const NDArray& a, const NDArray& b) { return row(a, 1.5) + row(1.5, b); };
      const NDArray a = draw({16, 32}, 25, row.low, row.high, dtype);
      for (const Shape& shape : {Shape{16, 32}, Shape{32}, Shape{16, 1}}) {
        const NDArray b = draw(shape, 26, row.low, row.high, dtype);
        const Gradients here = gradients_of(f, a, b), there = gradients_of(f, on_gpu(a), on_gpu(b));
        CHECK(differences(there.a, here.a, wide) == "");
        CHECK(differences(there.b, here.b, wide) == "");
      }
      const Gradients here = gradients_of(g, a, a), there = gradients_of(g, on_gpu(a), on_gpu(a));
      CHECK(differences(there.a, here.a, wide) == "");
      CHECK(differences(there.b, here.b, wide) == "");
    }
  }
}

TEST_CASE("where, clip and writing in place give the same on a GPU as on the CPU", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : k_all_dtypes) {
    CAPTURE(dtype);
    const NDArray a = draw({65, 33}, 27, 0, 5, dtype), b = draw({33}, 28, 0, 5, dtype);
    CHECK(differences(where(on_gpu(a) > 2, on_gpu(a), on_gpu(b)), where(a > 2, a, b)) == "");
    CHECK(differences(where(on_gpu(a) > 2, 1, on_gpu(b)), where(a > 2, 1, b)) == "");
    CHECK(differences(clip(on_gpu(a), 1, 3), clip(a, 1, 3)) == "");
    if (dtype == bool_)
      continue;
    NDArray here = a.copy(), there = on_gpu(a);
    here += b;
    there += on_gpu(b);
    here *= 2;
    there *= 2;
    NDArray here_column = here.slice(1, 3, 4), there_column = there.slice(1, 3, 4);
    here_column -= 1;
    there_column -= 1;
    CHECK(differences(there, here) == "");
  }
  const auto f = [](const NDArray& a, const NDArray& b) { return clip(a, -0.5, 0.5) * where(b > 0, b, a); };
  const NDArray a = draw({257}, 29, -1, 1, float32), b = draw({257}, 30, -1, 1, float32);
  const Gradients here = gradients_of(f, a, b), there = gradients_of(f, on_gpu(a), on_gpu(b));
  CHECK(differences(there.a, here.a) == "");
  CHECK(differences(there.b, here.b) == "");
}

TEST_CASE("GPU work on many arrays needs no wait in between", "[operator][elementwise][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  NDArray x = zeros({1 << 16}, {.device = gpu()});
  for (int i = 0; i < 200; ++i)
    x = x * 0.5 + 1;
  CHECK(all_close(x, full({1 << 16}, 2)));
}

TEST_CASE("more elements than 32 bits count are all computed", "[operator][elementwise][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const std::int64_t n = (std::int64_t{1} << 31) + 4099;
  const NDArray x = zeros({n}, {.dtype = int8, .device = gpu()});
  x.slice(0, n - 3, n).assign(5);
  const NDArray y = x + 1;
  CHECK(y.slice(0, 0, 2).to_vector<int>() == std::vector<int>{1, 1});
  CHECK(y.slice(0, n / 2, n / 2 + 2).to_vector<int>() == std::vector<int>{1, 1});
  CHECK(y.slice(0, n - 4, n).to_vector<int>() == std::vector<int>{1, 6, 6, 6});
  CHECK(y.slice(0, 0, n, 65537).to_vector<int>().size() == static_cast<std::size_t>((n - 1) / 65537 + 1));
}
