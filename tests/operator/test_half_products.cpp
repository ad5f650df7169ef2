// Products and convolutions of half types on a CPU: sums in float32 and one rounding, which bounds what they may be off
// by. References are the same numbers in float64, which our own kernels multiply.
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/library/channel.h>

#include "tests/operator/run_kernel.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/denormals.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Function = std::function<NDArray(const std::vector<NDArray>&)>;

// The result and the gradients of all operands.
std::vector<NDArray> run(const Function& f, std::vector<NDArray> operands, const NDArray& head) {
  for (NDArray& operand : operands)
    operand.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = f(operands);
  }
  y.backward(head);
  std::vector<NDArray> all{y};
  for (const NDArray& operand : operands)
    all.push_back(operand.grad());
  return all;
}

// Where `got` is further from the exact sum than its rounding and those of `terms` additions in float32 explain.
std::string beyond_rounding(const NDArray& got, const NDArray& exact, const NDArray& magnitude, double terms) {
  const bool bfloat = got.dtype() == bfloat16;
  const double unit = bfloat ? 0x1p-8 : 0x1p-11, least = bfloat ? 0 : 0x1p-25;
  const auto a = got.to_vector<double>(), b = exact.to_vector<double>(), m = magnitude.to_vector<double>();
  if (got.shape() != exact.shape())
    return message("a shape ", got.shape());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double sums = terms * 0x1p-24 * m[i], bound = unit * (std::abs(b[i]) + sums) + least + sums;
    if (!(std::abs(a[i] - b[i]) <= bound))
      return message("element ", i, " is ", a[i], ", not ", b[i], " give or take ", bound);
  }
  return "";
}

// f in both half types, at heads that lie in three ways. terms[i]: what an element of result i is a sum of; results
// beyond are sums of rounded ones.
void check_rounding(const Function& f, const std::vector<NDArray>& wide, const std::vector<double>& terms) {
  for (const DType dtype : {bfloat16, float16}) {
    std::vector<NDArray> half, exact, positive;
    for (const NDArray& operand : wide) {
      half.push_back(operand.astype(dtype));
      exact.push_back(half.back().astype(float64));
      positive.push_back(abs(exact.back()));
    }
    const Shape shape = f(half).shape();
    Shape turned;
    for (int axis = shape.ndim() - 1; axis >= 0; --axis)
      turned.push_back(shape[axis]);
    const NDArray heads[] = {
        random_array(shape, 50, -1, 1, dtype),
        random_array(turned, 51, -1, 1, dtype).transpose(),
        full({1}, 0.75, {.dtype = dtype}).broadcast_to(shape)};
    for (const NDArray& head : heads) {
      const auto got = run(f, half, head), want = run(f, exact, head.astype(float64).copy());
      const auto sizes = run(f, positive, abs(head.astype(float64)).copy());
      for (std::size_t i = 0; i < terms.size(); ++i) {
        CAPTURE(name_of(dtype), to_string(shape), i, to_string(head.strides()));
        REQUIRE(got[i].dtype() == dtype);
        CHECK(beyond_rounding(got[i], want[i], sizes[i], terms[i]) == "");
      }
    }
  }
}

struct Convolution {
  Shape x, weight;
  ConvolutionOptions options = {};
};

// Whole and cut by images, by results and by inputs; one channel, odd ones, groups, few pixels and none at the rim.
const Convolution k_convolutions[] = {
    {{2, 3, 7, 6}, {5, 3, 3, 3}},
    {{1, 1, 5, 5}, {1, 1, 1, 1}},
    {{2, 4, 9, 8}, {6, 4, 3, 2}, {.stride = {2, 3}, .pad = {1, 2}}},
    {{1, 2, 11, 9}, {3, 2, 3, 3}, {.stride = {1, 2}, .pad = {2, 0}, .dilation = {2, 3}}},
    {{3, 4, 6, 6}, {6, 2, 3, 3}, {.pad = {1, 1}, .groups = 2}},
    {{2, 6, 7, 5}, {6, 1, 3, 3}, {.stride = {2, 1}, .pad = {1, 1}, .groups = 6}},
    {{2, 33, 6, 6}, {17, 33, 3, 3}, {.pad = {1, 0, 2, 1}}},
    {{9, 24, 17, 16}, {40, 24, 3, 3}, {.pad = {1, 1}}},
    {{1, 48, 21, 20}, {80, 48, 3, 3}, {.pad = {1, 1}}},
    {{3, 64, 2, 2}, {65, 64, 3, 3}, {.pad = {1, 1}}},
    {{5, 130, 4, 3}, {257, 130, 1, 1}, {.stride = {2, 2}}},
    {{7, 48, 13, 14}, {96, 48, 3, 3}, {.stride = {2, 1}, .pad = {1, 1}}},
    {{3, 70, 18, 16}, {1, 70, 1, 1}, {.stride = {3, 1}, .pad = {0, 1, 1, 0}}},  // windows beyond the image
    {{5, 14, 21, 1}, {71, 14, 1, 2}, {.stride = {2, 1}, .pad = {0, 1, 2, 1}}},
    {{8, 1, 3, 1}, {124, 1, 2, 2}, {.stride = {3, 2}, .pad = {1, 0, 0, 2}}},  // of which the image is one
};

}  // namespace

TEST_CASE("Convolutions of half types and their gradients are sums in float32, rounded once") {
  for (const Convolution& c : k_convolutions) {
    CAPTURE(to_string(c.x), to_string(c.weight));
    const std::vector<NDArray> operands{
        random_array(c.x, 1), random_array(c.weight, 2), random_array({c.weight[0]}, 3)};
    const auto f = [&](const auto& v) { return convolution(v[0], v[1], v[2], c.options); };
    const Shape y = f(operands).shape();
    const auto taps = static_cast<double>(c.weight[2] * c.weight[3]), pixels = static_cast<double>(y[0] * y[2] * y[3]);
    const auto outputs = static_cast<double>(c.weight[0] / c.options.groups);
    check_rounding(f, operands, {static_cast<double>(c.weight[1]) * taps + 1, outputs * taps, pixels, pixels});
  }
}

TEST_CASE("Products of half types and their gradients are sums in float32, rounded once") {
  const auto product = [](bool turn_a, bool turn_b) {
    return [=](const std::vector<NDArray>& v) { return matmul(v[0], v[1], turn_a, turn_b); };
  };
  const auto check = [&](const Shape& a, const Shape& b, bool turn_a, bool turn_b, const std::vector<double>& terms) {
    CAPTURE(to_string(a), to_string(b), turn_a, turn_b);
    check_rounding(product(turn_a, turn_b), {random_array(a, 1), random_array(b, 2)}, terms);
  };
  check({5, 7}, {7, 3}, false, false, {7, 3, 5});
  check({7, 65}, {7, 33}, true, false, {7, 33, 65});
  check({31, 130}, {17, 130}, false, true, {130, 17, 31});
  check({1, 9}, {9, 1}, false, false, {9, 1, 1});
  check({40, 6}, {50, 40}, true, true, {40, 50, 6});
  check({3, 1, 9, 8}, {4, 8, 5}, false, false, {8});  // batches that broadcast
  check({6, 9, 8}, {6, 8, 5}, false, false, {8, 5, 9});
  check({38, 63}, {99, 63}, false, true, {63, 99, 38});
  check({129, 63}, {63, 5}, false, false, {63, 5, 129});
  check({300, 290}, {310, 290}, false, true, {290, 310, 300});
  const auto of_views = [](const std::vector<NDArray>& v) {  // rows and columns that are not neighbours
    return matmul(v[0].slice(1, 3, 40), v[1].transpose().slice(0, 1, 38));
  };
  check_rounding(of_views, {random_array({20, 50}, 1), random_array({11, 39}, 2)}, {37, 11, 20});
  const auto every_second = [](const std::vector<NDArray>& v) {
    return matmul(v[0].slice(1, 0, 20, 2), v[1].slice(0, 0, 1).broadcast_to({10, 6}));
  };
  check_rounding(every_second, {random_array({9, 20}, 1), random_array({3, 6}, 2)}, {10, 6});
}

TEST_CASE("Dense layers of half types are sums in float32, rounded once, relu or not") {
  for (const std::int64_t rows : {1, 37, 520}) {
    const std::vector<NDArray> operands{random_array({rows, 45}, 1), random_array({70, 45}, 2), random_array({70}, 3)};
    const auto n = static_cast<double>(rows);
    check_rounding([](const auto& v) { return dense(v[0], v[1], v[2]); }, operands, {46, 70, n, n});
    for (const DType dtype : {bfloat16, float16}) {
      std::vector<NDArray> half, exact;
      for (const NDArray& operand : operands) {
        half.push_back(operand.astype(dtype));
        exact.push_back(half.back().astype(float64));
      }
      const NDArray plain = dense(half[0], half[1], half[2]);
      const NDArray joined = dense(half[0], half[1], half[2], {.activation = "relu"});
      CHECK(joined.to_vector<float>() == relu(plain).to_vector<float>());
    }
  }
}

TEST_CASE("Products and convolutions of half types of no elements are zeros") {
  for (const DType dtype : {bfloat16, float16}) {
    const auto none = [dtype](const Shape& shape) { return zeros(shape, {.dtype = dtype}); };
    CHECK(matmul(none({0, 4}), none({4, 3})).shape() == Shape{0, 3});
    CHECK(matmul(none({2, 0}), none({0, 3})).to_vector<float>() == std::vector<float>(6));
    CHECK(convolution(none({0, 3, 8, 8}), none({4, 3, 3, 3}), {}).shape() == Shape{0, 4, 6, 6});
    const auto y =
        run([](const auto& v) { return convolution(v[0], v[1], v[2]); },
            {none({0, 3, 8, 8}), none({4, 3, 3, 3}), none({4})},
            none({0, 4, 6, 6}));
    CHECK(y[2].to_vector<float>() == std::vector<float>(108));
    CHECK(y[3].to_vector<float>() == std::vector<float>(4));
  }
}

TEST_CASE("NaN and infinities pass through products and convolutions of half types") {
  const auto kinds = [](const NDArray& array) {
    std::string text;
    for (const double value : array.astype(float64).to_vector<double>())
      text += std::isnan(value) ? 'n' : std::isinf(value) ? (value > 0 ? '+' : '-') : '.';
    return text;
  };
  const float special[] = {NAN, INFINITY, -INFINITY};
  for (const DType dtype : {bfloat16, float16}) {
    NDArray a = random_array({9, 33}, 2, 0.5, 1, dtype);
    for (std::int64_t i = 0; i < 3; ++i)
      a.slice(0, 2 * i, 2 * i + 1).slice(1, 5 * i, 5 * i + 1).assign(special[i]);
    const NDArray b = random_array({33, 7}, 4, 0.5, 1, dtype), y = matmul(a, b);
    CHECK(kinds(y) == kinds(matmul(a.astype(float64), b.astype(float64))));
    CHECK(kinds(y).find("nnnnnnn.......+++++++.......-------") == 0);
    // Few channels, groups and distant taps: what lies beside is not to come in.
    for (const auto& [channels, groups, dilation] : {std::array{3, 1, 1}, {40, 1, 1}, {32, 2, 1}, {40, 1, 2}}) {
      CAPTURE(name_of(dtype), channels, groups, dilation);
      const std::int64_t side = 4 + dilation;
      NDArray x = random_array({2, channels, side, side}, 1, 0.5, 1, dtype);
      for (std::int64_t i = 0; i < 3; ++i)
        x.slice(0, i % 2, i % 2 + 1).slice(1, i, i + 1).slice(2, i, i + 1).slice(3, 4 - i, 5 - i).assign(special[i]);
      const NDArray w = random_array({128, channels / groups, 2, 2}, 3, 0.5, 1, dtype);
      const ConvolutionOptions how{.dilation = {dilation, dilation}, .groups = groups};
      const auto f = [&](const auto& v) { return convolution(v[0], v[1], {}, how); };
      const NDArray head = ones({2, 128, 4, 4}, {.dtype = dtype});
      const auto got = run(f, {x, w}, head),
                 want = run(f, {x.astype(float64), w.astype(float64)}, head.astype(float64));
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(kinds(got[i]) == kinds(want[i]));
    }
  }
}

TEST_CASE("relu behind products of half types gives every number above 0 and every NaN, otherwise 0") {
  std::vector<std::uint16_t> words(65536);
  std::iota(words.begin(), words.end(), std::uint16_t{0});
  for (const DType dtype : {bfloat16, float16}) {
    const NDArray before = zeros({65536}, {.dtype = dtype}), after = zeros({65536}, {.dtype = dtype});
    run_kernel({before, after}, [before, after, dtype, words](const Queue&) {
      std::memcpy(data_of(before), words.data(), 2 * words.size());
      std::memcpy(data_of(after), words.data(), 2 * words.size());
      detail::channel_add_cpu({3, 1, 21845, dtype}, data_of(after), nullptr, true);  // the last one stays
    });
    const auto given = before.to_vector<float>(), got = after.to_vector<float>();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 65535; ++i) {
      const bool stays = std::isnan(given[i]) || given[i] > 0;
      const float want = stays ? given[i] : 0.0F;
      wrong += std::memcmp(&want, &got[i], sizeof want) == 0 || (std::isnan(want) && std::isnan(got[i])) ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(std::isnan(got[65535]));
  }
}

TEST_CASE("Products and convolutions of bfloat16 flush denormals, and keep them where that is asked for") {
  if (!k_can_flush)
    return;
  for (const Denormals how : {Denormals::flush, Denormals::keep}) {
    Engine engine({.workers = 2, .denormals = how});
    const EngineScope scope(engine);
    const float want = how == Denormals::keep ? 0x1p-104F : 0.0F;  // 64 of 2^-130 times 2^20
    const NDArray tiny = full({4, 64}, 0x1p-130, {.dtype = bfloat16}),
                  large = full({64, 5}, 0x1p20, {.dtype = bfloat16});
    CHECK(matmul(tiny, large).to_vector<float>() == std::vector<float>(20, want));
    const NDArray images = tiny.reshape({4, 64, 1, 1}), weight = large.reshape({5, 64, 1, 1});
    CHECK(convolution(images, weight, {}).to_vector<float>() == std::vector<float>(20, want));
  }
  const NDArray small = full({3, 8}, 0x1p-24, {.dtype = float16}), one = ones({8, 2}, {.dtype = float16});
  CHECK(matmul(small, one).to_vector<float>() == std::vector<float>(6, 0x1p-21F));  // a float16's denormals are floats
}

TEST_CASE("Products and convolutions of half types give the same bits with 1, 2 and 3 workers") {
  const auto with = [](int workers, DType dtype) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    std::vector<std::vector<float>> all;
    const auto add = [&](const Function& f, const std::vector<NDArray>& operands) {
      std::vector<NDArray> half;
      for (const NDArray& operand : operands)
        half.push_back(operand.astype(dtype));
      for (const NDArray& result : run(f, half, random_array(f(half).shape(), 9, -1, 1, dtype)))
        all.push_back(result.to_vector<float>());
    };
    add(
        [](const auto& v) {
          return convolution(v[0], v[1], v[2], {.pad = {1, 1}});
        },
        {random_array({21, 16, 18, 18}, 1), random_array({80, 16, 3, 3}, 2), random_array({80}, 3)});
    add(
        [](const auto& v) {
          return convolution(v[0], v[1], {}, {.pad = {1, 1}});
        },
        {random_array({2, 96, 6, 6}, 1), random_array({320, 96, 3, 3}, 2)});
    add([](const auto& v) { return dense(v[0], v[1], v[2]); },
        {random_array({501, 260}, 1), random_array({300, 260}, 2), random_array({300}, 3)});
    return all;
  };
  for (const DType dtype : {bfloat16, float16}) {
    const auto want = with(1, dtype);
    CHECK(want.size() == 11);
    for (const int workers : {2, 3})
      CHECK(with(workers, dtype) == want);
  }
}
