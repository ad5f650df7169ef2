// put_along_axis() and take_along_axis() on a GPU where rows are many, against the CPU's loops, to the last bit; and
// where no numbers name anything.
#include <array>

#include <sluice/operator/api.h>
#include <sluice/operator/gather/indexing.h>

#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Rows {
  std::int64_t rows, n, numbers;
};

// More numbers than places and fewer, one row and one place less and more than the kernel of whole rows takes.
constexpr std::array k_rows{
    Rows{200, 37, 111},
    Rows{128, 8192, 300},
    Rows{130, 8193, 300},
    Rows{127, 10, 30},
    Rows{500, 1, 4},
    Rows{129, 300, 1}};

NDArray there(const NDArray& array) {
  return array.to(gpu());
}

void check(const Rows& of, DType dtype, DType type) {
  CAPTURE(of.rows, of.n, of.numbers, dtype, type);
  const NDArray x = random_array({of.rows, of.n}, 1, -8, 9, dtype);
  const NDArray values = random_array({of.rows, of.numbers}, 2, -8, 9, dtype);
  const auto n = static_cast<double>(of.n);
  const NDArray numbers = random_array({of.rows, of.numbers}, 3, -n, n - 0.01).astype(type);
  const Arrays on_cpu{put_along_axis(x, numbers, values, 1), take_along_axis(x, numbers, 1)};
  const Arrays on_gpu{
      put_along_axis(there(x), there(numbers), there(values), 1), take_along_axis(there(x), there(numbers), 1)};
  CHECK((all_bytes(on_gpu) == all_bytes(on_cpu)));
  const NDArray turned = put_along_axis(
      there(x.transpose({1, 0}).copy()),
      there(numbers.transpose({1, 0}).copy()),
      there(values.transpose({1, 0}).copy()),
      0);
  CHECK((all_bytes({turned.transpose({1, 0}).copy()}) == all_bytes({on_cpu[0]})));
}

}  // namespace

TEST_CASE("Many rows on a GPU take and get what numbers along them name, the last of several", "[indexing][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Rows& of : k_rows) {
    for (const DType dtype : {float32, float16, int8, float64})
      check(of, dtype, int32);
    check(of, float32, int64);
  }
}

TEST_CASE("A number outside its row on a GPU is an IndexError of what was put or taken", "[indexing][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Rows& of : k_rows) {
    for (const std::int64_t bad : {of.n, -of.n - 1}) {
      CAPTURE(of.rows, of.n, bad);
      const NDArray x = there(zeros({of.rows, of.n})), values = there(ones({of.rows, of.numbers}));
      NDArray numbers = there(zeros({of.rows, of.numbers}, {.dtype = int64}));
      NDArray last = numbers.slice(0, of.rows - 1, of.rows);
      last.assign(bad);
      CHECK_THROWS_AS(put_along_axis(x, numbers, values, 1).wait_to_read(), IndexError);
      CHECK_THROWS_AS(take_along_axis(x, numbers, 1).wait_to_read(), IndexError);
      CHECK(put_along_axis(x, numbers, values, 1, IndexMode::clip).shape() == x.shape());
    }
  }
}

namespace {

void check_gradients_of_no_numbers(Device device) {
  const auto there = [=](const NDArray& array) { return array.to(device).copy(); };
  for (const int axis : {0, 1, 2}) {
    CAPTURE(axis);
    const Shape shape{2, 3, 2};
    Shape of_none = shape;
    of_none[axis] = 0;
    const NDArray head = random_array(shape, 1), none = there(zeros(of_none, {.dtype = int32}));
    const auto gradients = [&](const auto& f) {
      NDArray x = there(random_array(shape, 2)), values = there(zeros(of_none));
      x.attach_grad();
      values.attach_grad();
      NDArray y;
      {
        const autograd::RecordScope record;
        y = f(x, values);
      }
      y.backward(there(head));
      CHECK(values.grad().shape() == of_none);
      CHECK(differences(x.grad().to(cpu()), head) == "");
    };
    gradients([&](const NDArray& x, const NDArray& values) { return put_along_axis(x, none, values, axis); });
    gradients([&](const NDArray& x, const NDArray& values) { return add_along_axis(x, none, values, axis); });
    const NDArray numbers = there(zeros({0}, {.dtype = int32}));
    gradients([&](const NDArray& x, const NDArray& values) { return index_update(x, {numbers}, values, axis); });
  }
}

}  // namespace

TEST_CASE("Where no numbers name entries gradients are the heads", "[indexing]") {
  check_gradients_of_no_numbers(cpu());
}

TEST_CASE("Where no numbers name entries on a GPU gradients are the heads", "[indexing][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_gradients_of_no_numbers(gpu());
}
