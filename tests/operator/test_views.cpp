// Views and copies as members of arrays: NumPy's shapes, shared memory, gradients.
#include <array>
#include <cmath>
#include <limits>

#include <sluice/operator/api.h>

#include "tests/operator/elementwise_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

NDArray counted(const Shape& shape) {
  return arange(0, static_cast<double>(shape.size())).reshape(shape);
}

std::vector<int> ints(const NDArray& x) {
  return x.to_vector<int>();
}

}  // namespace

TEST_CASE("reshape is a view where strides allow, a copy elsewhere", "[operator][view]") {
  const NDArray x = counted({2, 3, 4});
  const NDArray flat = x.reshape({24});
  flat.assign(7);
  CHECK(x.to_vector<float>() == std::vector<float>(24, 7));
  // Rows of a slice can be split and joined within what is one run.
  const NDArray part = counted({4, 6}).slice(1, 0, 4);
  const NDArray split = part.reshape({4, 2, 2});
  CHECK(split.strides() == Shape{6, 2, 1});
  CHECK(part.reshape({2, 2, 1, 4}).strides()[3] == 1);
  split.assign(0);
  CHECK(ints(part) == std::vector<int>(16, 0));
  // Joining the rows cannot be a view.
  const NDArray other = counted({4, 6}).slice(1, 0, 4);
  const NDArray joined = other.reshape({16});
  CHECK(joined.is_contiguous());
  joined.assign(-1);
  CHECK(ints(other)[0] == 0);
  CHECK(ints(counted({2, 3}).T().reshape({6})) == std::vector<int>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("reshape finds the extent given as -1 and refuses sizes that do not agree", "[operator][view]") {
  const NDArray x = counted({2, 3, 4});
  CHECK(x.reshape({-1}).shape() == Shape{24});
  CHECK(x.reshape({6, -1, 2}).shape() == Shape{6, 2, 2});
  CHECK(counted({1}).reshape({}).shape() == Shape{});
  CHECK(counted({}).reshape({1, 1}).shape() == Shape{1, 1});
  CHECK(empty({0, 3}).reshape({5, 0}).shape() == Shape{5, 0});
  CHECK(empty({0, 3}).reshape({-1, 3}).shape() == Shape{0, 3});
  CHECK_THROWS_AS(x.reshape({5, -1}), ShapeError);
  CHECK_THROWS_AS(x.reshape({-1, -1}), ShapeError);
  CHECK_THROWS_AS(x.reshape({-2, 12}), ShapeError);
  CHECK_THROWS_WITH(x.reshape({5, 5}), contains("(2, 3, 4)") && contains("(5, 5)"));
  CHECK_THROWS_AS(empty({0, 3}).reshape({0, -1}), ShapeError);
  CHECK_THROWS_AS(NDArray().reshape({1}), ValueError);
}

TEST_CASE("transpose and swapaxes permute the axes without a copy", "[operator][view]") {
  const NDArray x = counted({2, 3, 4});
  CHECK(x.T().shape() == Shape{4, 3, 2});
  CHECK(x.transpose({1, 0, 2}).shape() == Shape{3, 2, 4});
  CHECK(x.transpose({-1, 0, 1}).shape() == Shape{4, 2, 3});
  CHECK(x.swapaxes(0, -1).shape() == Shape{4, 3, 2});
  CHECK(ints(counted({2, 3}).T()) == std::vector<int>{0, 3, 1, 4, 2, 5});
  CHECK(counted({}).T().shape() == Shape{});
  CHECK_THROWS_AS(x.transpose({0, 1}), ShapeError);
  CHECK_THROWS_AS(x.transpose({0, 1, 1}), ValueError);
  CHECK_THROWS_AS(x.transpose({0, 1, 3}), IndexError);
  CHECK_THROWS_AS(x.swapaxes(0, 3), IndexError);
}

TEST_CASE("slices follow NumPy's rules for ends and steps", "[operator][view]") {
  const NDArray x = counted({10});
  CHECK(ints(x.slice(0, 2, 5)) == std::vector<int>{2, 3, 4});
  CHECK(ints(x.slice(0, -3, 100)) == std::vector<int>{7, 8, 9});
  CHECK(ints(x.slice(0, -100, 2)) == std::vector<int>{0, 1});
  CHECK(ints(x.slice(0, 1, 10, 4)) == std::vector<int>{1, 5, 9});
  CHECK(ints(x.slice(0, 1, 9, 4)) == std::vector<int>{1, 5});
  CHECK(x.slice(0, 5, 2).shape() == Shape{0});
  CHECK(x.slice(0, 10, 20).shape() == Shape{0});
  CHECK(ints(counted({2, 3}).slice(-1, 1, 2)) == std::vector<int>{1, 4});
  CHECK_THROWS_AS(x.slice(0, 0, 3, 0), ValueError);
  CHECK_THROWS_AS(x.slice(1, 0, 3), IndexError);
}

namespace {

constexpr std::int64_t k_before_all = std::numeric_limits<std::int64_t>::min();

void check_backwards(Device device) {
  const NDArray x = counted({10}).to(device);
  // What Python gives for x[a:b:s].
  CHECK(ints(x.slice(0, 5, 2, -1)) == std::vector<int>{5, 4, 3});
  CHECK(ints(x.slice(0, -1, k_before_all, -1)) == std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
  CHECK(ints(x.slice(0, 100, -11, -4)) == std::vector<int>{9, 5, 1});
  CHECK(ints(x.slice(0, 8, 0, -4)) == std::vector<int>{8, 4});
  CHECK(ints(x.slice(0, 0, -100, -1)) == std::vector<int>{0});
  CHECK(ints(x.slice(0, 3, -100, k_before_all)) == std::vector<int>{3});
  CHECK(x.slice(0, 2, 5, -1).shape() == Shape{0});
  CHECK(x.slice(0, -1, -1, -1).shape() == Shape{0});
  CHECK(x.slice(0, 0, 0).slice(0, -1, k_before_all, -1).shape() == Shape{0});

  // A view: of it there are others, it is read, cast, copied between devices and written.
  const NDArray m = counted({3, 4}).to(device), back = m.slice(1, -1, k_before_all, -1);
  CHECK(back.strides() == Shape{4, -1});
  CHECK(ints(back) == std::vector<int>{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8});
  CHECK(ints(back.T()) == std::vector<int>{3, 7, 11, 2, 6, 10, 1, 5, 9, 0, 4, 8});
  CHECK(ints(back.slice(1, -1, k_before_all, -1)) == ints(m));
  CHECK(ints(m.slice(0, -1, k_before_all, -1).slice(1, 3, 0, -2)) == std::vector<int>{11, 9, 7, 5, 3, 1});
  CHECK(ints(x.slice(0, 5, k_before_all, -1).reshape({2, 3})) == std::vector<int>{5, 4, 3, 2, 1, 0});
  CHECK(ints(x.slice(0, 5, k_before_all, -1).expand_dims(0).squeeze(0)[0]) == std::vector<int>{5});
  CHECK(ints(back.astype(float64).to(cpu()).astype(int32)) == ints(back));
  CHECK(ints(back.to(cpu())) == ints(back));
  CHECK(ints(back + m) == std::vector<int>{3, 3, 3, 3, 11, 11, 11, 11, 19, 19, 19, 19});
  CHECK(ints(matmul(back, back.T())) == ints(matmul(m, m.T())));
  back.assign(m);
  CHECK(ints(m) == std::vector<int>{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8});
  m.slice(0, -1, 0, -1).slice(1, 2, 0, -1).assign(-1);
  CHECK(ints(m) == std::vector<int>{3, 2, 1, 0, 7, -1, -1, 4, 11, -1, -1, 8});
  NDArray part = x.slice(0, 4, 1, -1);
  part += x.slice(0, 2, 5);
  CHECK(ints(x) == std::vector<int>{0, 1, 6, 6, 6, 5, 6, 7, 8, 9});
  copy_into(counted({2}), x.slice(0, -1, -3, -1));
  CHECK(ints(x.slice(0, 8, 10)) == std::vector<int>{1, 0});
}

void check_backwards_gradient(Device device) {
  NDArray x = counted({3, 4}).to(device);
  x.attach_grad();
  {
    const autograd::RecordScope record;
    const NDArray y = x.slice(1, -1, k_before_all, -2).slice(0, 1, k_before_all, -1);  // x[1::-1, ::-2]
    sum(y * counted({2, 2}).to(device)).backward();
  }
  CHECK(ints(x.grad()) == std::vector<int>{0, 3, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0});
}

}  // namespace

TEST_CASE("slices run backwards as NumPy's do, and are views", "[operator][view]") {
  check_backwards(cpu());
  check_backwards_gradient(cpu());
}

TEST_CASE("slices of GPU arrays run backwards", "[operator][view][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_backwards(gpu());
  check_backwards_gradient(gpu());
}

TEST_CASE("an index takes one entry of the first axis", "[operator][view]") {
  const NDArray x = counted({3, 2});
  CHECK(ints(x[1]) == std::vector<int>{2, 3});
  CHECK(ints(x[-1]) == std::vector<int>{4, 5});
  CHECK(x[2][0].item<int>() == 4);
  CHECK_THROWS_AS(x[3], IndexError);
  CHECK_THROWS_AS(x[-4], IndexError);
  CHECK_THROWS_AS(x[0][0][0], IndexError);
  x[1].assign(array<float>({8, 9}));
  CHECK(ints(x) == std::vector<int>{0, 1, 8, 9, 4, 5});
}

TEST_CASE("axes of extent 1 come and go", "[operator][view]") {
  const NDArray x = counted({2, 3});
  CHECK(x.expand_dims(0).shape() == Shape{1, 2, 3});
  CHECK(x.expand_dims(-1).shape() == Shape{2, 3, 1});
  CHECK(x.T().expand_dims(1).squeeze(1).shape() == Shape{3, 2});
  CHECK_FALSE(x.T().expand_dims(1).is_contiguous());  // still a view
  CHECK_THROWS_AS(x.squeeze(0), ShapeError);
  CHECK_THROWS_AS(x.expand_dims(4), IndexError);
  CHECK(counted({2, 3, 4}).flatten().shape() == Shape{2, 12});
  CHECK(counted({5}).flatten().shape() == Shape{5, 1});
  CHECK(empty({0, 3, 4}).flatten().shape() == Shape{0, 12});
  CHECK_THROWS_AS(counted({}).flatten(), ShapeError);
}

TEST_CASE("broadcast_to stretches without a copy and is not written", "[operator][view]") {
  const NDArray x = counted({3, 1});
  const NDArray y = x.broadcast_to({2, 3, 2});
  CHECK(ints(y) == std::vector<int>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2});
  CHECK_THROWS_AS(y.assign(1), ValueError);
  CHECK_THROWS_AS(x.broadcast_to({2, 2}), ShapeError);
  CHECK(counted({1}).broadcast_to({0}).shape() == Shape{0});
}

TEST_CASE("copies are copies, and cost nothing where nothing changes", "[operator][view]") {
  const NDArray x = counted({2, 3});
  CHECK(x.astype(float32).same(x));
  CHECK(x.to(cpu()).same(x));
  CHECK(x.contiguous().same(x));
  CHECK_FALSE(x.copy().same(x));
  const NDArray y = x.T().contiguous();
  CHECK(y.is_contiguous());
  CHECK(ints(y) == std::vector<int>{0, 3, 1, 4, 2, 5});
  CHECK(x.astype(int32).dtype() == int32);
  CHECK(array<float>({2.7F, -2.7F}).astype(int32).to_vector<int>() == std::vector<int>{2, -2});
  const NDArray z = x.copy();
  z.assign(0);
  CHECK(ints(x)[5] == 5);
}

TEST_CASE("assign broadcasts and casts into any view", "[operator][view]") {
  const NDArray x = zeros({2, 3}, {.dtype = int32});
  x.T().assign(array<float>({1.9F, 2.9F}));
  CHECK(ints(x) == std::vector<int>{1, 1, 1, 2, 2, 2});
  x.slice(1, 0, 3, 2).assign(-5);
  CHECK(ints(x) == std::vector<int>{-5, 1, -5, -5, 2, -5});
  CHECK_THROWS_AS(x.assign(zeros({3, 2})), ShapeError);
  CHECK_THROWS_AS(x.assign(NDArray()), ValueError);
}

TEST_CASE("gradients pass through every view and copy", "[operator][view][gradient]") {
  const NDArray x = random_array({3, 4}, 1, -1, 1, float64);
  const auto check = [&](const char* what, const Function& f) {
    CAPTURE(what);
    CHECK(gradient_differences([&](const auto& in) { return f(in) * f(in); }, {x}) == "");
  };
  check("reshape", [](const auto& in) { return in[0].reshape({2, 6}); });
  check("reshape that copies", [](const auto& in) { return in[0].T().reshape({2, 6}); });
  check("transpose", [](const auto& in) { return in[0].expand_dims(0).transpose({1, 2, 0}); });
  check("swapaxes", [](const auto& in) { return in[0].swapaxes(0, 1); });
  check("slice", [](const auto& in) { return in[0].slice(1, 1, 4, 2); });
  check("empty slice", [](const auto& in) { return in[0].slice(1, 3, 1); });
  check("index", [](const auto& in) { return in[0][1]; });
  check("squeeze", [](const auto& in) { return in[0].slice(0, 1, 2).squeeze(0); });
  check("flatten", [](const auto& in) { return in[0].flatten(); });
  check("broadcast_to", [](const auto& in) { return in[0].expand_dims(1).broadcast_to({3, 5, 4}); });
  check("copy", [](const auto& in) { return in[0].copy(); });
  check("contiguous", [](const auto& in) { return in[0].T().contiguous(); });
}

TEST_CASE("the gradient of a cast has the type of what was cast", "[operator][view][gradient]") {
  NDArray x = array<float>({1, 2, 3});
  x.attach_grad();
  {
    const autograd::RecordScope record;
    (x.astype(float64) * 0.5).backward();
  }
  CHECK(x.grad().dtype() == float32);
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0.5, 0.5, 0.5});
}

TEST_CASE("gradients of gradients pass through slices", "[operator][view][gradient]") {
  NDArray x = array<double>({1, 2, 3});
  x.attach_grad();
  {
    const autograd::RecordScope record;
    const NDArray y = power(x.slice(0, 1, 3), 3);
    const NDArray first = autograd::grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0];
    (first * first).backward();
  }
  // d/dx (3 x^2)^2 = 36 x^3, and nothing for the entry that was not sliced.
  CHECK(all_close(x.grad(), array<double>({0, 288, 972})));
}

TEST_CASE("a recorded assign puts the array where the value stands", "[operator][view][gradient]") {
  NDArray x = array<float>({1, 2, 3});
  x.attach_grad();
  const NDArray y = zeros({2, 3});
  {
    const autograd::RecordScope record;
    y.assign(x * 2);
    (y * array<float>({1, 10}, {2, 1})).backward();
  }
  CHECK(x.grad().to_vector<float>() == std::vector<float>{22, 22, 22});
}

TEST_CASE("arrays travel to a GPU and back, gradients too", "[operator][view][gradient][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  NDArray x = random_array({5, 7}, 3);
  x.attach_grad();
  const NDArray weight = random_array({7, 5}, 4, -1, 1, float32, gpu());
  {
    const autograd::RecordScope record;
    const NDArray y = x.T().to(gpu());
    CHECK(y.device() == gpu());
    (y * weight).to(cpu()).backward();
  }
  CHECK(x.grad().device() == cpu());
  CHECK(all_close(x.grad(), weight.to(cpu()).T()));
  const NDArray z = zeros({5, 7}, {.device = gpu()});
  z.slice(1, 1, 3).assign(x.slice(1, 1, 3));
  CHECK(differences(z.slice(1, 1, 3), x.slice(1, 1, 3)) == "");
  CHECK_THROWS_AS(z + x, DeviceError);
}

TEST_CASE("views of GPU arrays give what views of CPU arrays give", "[operator][view][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = random_array({6, 8}, 5);
  const NDArray y = x.to(gpu());
  CHECK(differences(y.T().reshape({12, 4}), x.T().reshape({12, 4})) == "");
  CHECK(differences(y.slice(1, 1, 8, 3).copy(), x.slice(1, 1, 8, 3)) == "");
  CHECK(differences(y[2].astype(float16), x[2].astype(float16)) == "");
  CHECK(differences(y.slice(0, 1, 2).broadcast_to({4, 8}).contiguous(), x.slice(0, 1, 2).broadcast_to({4, 8})) == "");
}

TEST_CASE("ranges on a GPU are those of the CPU, made there in one task", "[operator][view][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  arange(0, 1, 1, {.device = gpu()}).wait_to_read();  // what a device is asked for the first time
  const auto before = Engine::current().counters().pushed;
  const NDArray made = arange(0, 100'003, 1, {.dtype = int64, .device = gpu()});
  CHECK(Engine::current().counters().pushed - before == 1);
  CHECK(made.to_vector<std::int64_t>()[100'002] == 100'002);
  for (const DType dtype : k_every_dtype) {
    // 0.1 is no double: each entry shows how it was rounded.
    for (const auto& [start, stop, step] :
         {std::array{0.0, 7.0, 1.0}, {0.3, 100.0, 0.1}, {100.0, 0.0, -0.7}, {0.0, 0.0, 1.0}, {5.0, 1.0, 1.0}}) {
      CAPTURE(dtype, start, stop, step);
      const NDArray here = arange(start, stop, step, {.dtype = dtype});
      const NDArray there = arange(start, stop, step, {.dtype = dtype, .device = gpu()});
      CHECK(there.shape() == here.shape());
      CHECK(there.to_vector<double>() == here.to_vector<double>());
    }
  }
  CHECK_THROWS_AS(arange(0, INFINITY, 1, {.device = gpu()}), ValueError);
}
