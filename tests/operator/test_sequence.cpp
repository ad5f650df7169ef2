// Sequences of several lengths against plain loops.
#include <cstdint>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/gather/sequence.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Lengths = std::vector<std::int64_t>;

// Where each element of the result is from; -1 for the value.
template <class From>
NDArray walked(const NDArray& x, const Shape& shape, double value, const From& from) {
  const Dense source(x);
  Dense to(shape, value);
  for (std::size_t i = 0; i < to.values.size(); ++i) {
    const std::vector<std::int64_t> at = from(unravel(shape, static_cast<std::int64_t>(i)));
    if (!at.empty())
      to.values[i] = source.values[static_cast<std::size_t>(ravel(x.shape(), at))];
  }
  return to.array();
}

void check_sequences(const NDArray& x, const NDArray& lengths, int axis, Device device) {
  const auto list = lengths.to_vector<std::int64_t>();
  const auto step = static_cast<std::size_t>(axis), batch = 1 - step;
  const NDArray given = x.to(device), beside = lengths.to(device);
  const auto length = [&](const auto& at) { return list[static_cast<std::size_t>(at[batch])]; };
  const NDArray masked = walked(x, x.shape(), 1, [&](auto at) { return at[step] < length(at) ? at : decltype(at){}; });
  CHECK(differences(sequence_mask(given, beside, 1, axis).to(cpu()), masked) == "");
  const NDArray reversed = walked(x, x.shape(), 0, [&](auto at) {
    at[step] = at[step] < length(at) ? length(at) - 1 - at[step] : at[step];
    return at;
  });
  CHECK(differences(sequence_reverse(given, beside, axis).to(cpu()), reversed) == "");
  Shape last = x.shape();
  last.erase(axis);
  const NDArray ends = walked(x, last, 0, [&](auto at) {
    const std::int64_t end = list[static_cast<std::size_t>(at[0])] - 1;
    at.insert(at.begin() + axis, end);
    return at;
  });
  CHECK(differences(sequence_last(given, beside, axis).to(cpu()), ends) == "");
}

void check_all(Device device) {
  for (const DType dtype : all_dtypes()) {
    for (const int axis : {0, 1}) {
      for (const Shape& shape : {Shape{5, 5}, Shape{5, 5, 3}, Shape{5, 5, 2, 8}, Shape{5, 5, 300}}) {
        CAPTURE(dtype, axis, shape);
        const NDArray x = random_array(shape, 1, -9, 9, dtype);
        check_sequences(x, array<std::uint8_t>({1, 5, 3, 4, 2}), axis, device);
        check_sequences(x.swapaxes(0, 1).copy().swapaxes(0, 1), array<int>({1, 5, 3, 4, 2}), axis, device);
      }
    }
  }
}

}  // namespace

TEST_CASE("Sequences are masked, reversed and cut to their last step, of every type", "[sequence]") {
  check_all(cpu());
  const NDArray x = random_array({4, 2, 3}, 1);
  check_sequences(x, array<std::int64_t>({1, 4}), 0, cpu());
  check_sequences(x.slice(0, 0, 2), array<std::int8_t>({2, 1}), 1, cpu());
}

TEST_CASE("Sequences on a GPU are those on the CPU", "[sequence][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu());
}

TEST_CASE("Lengths beyond the steps mask nothing, and are refused where a step is asked for", "[sequence]") {
  const NDArray x = ones({3, 2});
  CHECK(sequence_mask(x, array<int>({4, -1})).to_vector<float>() == std::vector<float>{1, 0, 1, 0, 1, 0});
  CHECK(sequence_reverse(x, array<int>({0, 3})).to_vector<float>() == std::vector<float>(6, 1));
  for (const int bad : {4, -1}) {
    CHECK_THROWS_AS(sequence_reverse(x, array<int>({1, bad})).wait_to_read(), IndexError);
    CHECK_THROWS_AS(sequence_last(x, array<int>({1, bad})).wait_to_read(), IndexError);
  }
  const NDArray late = sequence_last(x, array<int>({1, 0}));
  CHECK_THROWS_WITH(late.wait_to_read(), contains("sequence_last: length 0 of sequence 1"));
  CHECK_THROWS_AS(sequence_mask(x, array<int>({1, 2, 3})), ShapeError);
  CHECK_THROWS_AS(sequence_mask(x, array<float>({1, 2})), DTypeError);
  CHECK_THROWS_AS(sequence_mask(ones({3}), array<int>({1})), ShapeError);
  CHECK_THROWS_AS(sequence_last(ones({3, 2, 2}), array<int>({1, 1}), 2), IndexError);
  CHECK_THROWS_AS(sequence_mask(ones({3, 2}, {.dtype = int8}), array<int>({1, 1}), 300), ValueError);
  CHECK(sequence_mask(zeros({0, 2}), array<int>({1, 1})).shape() == Shape{0, 2});
  CHECK(sequence_last(zeros({3, 0, 2}), zeros({0}, {.dtype = int32})).shape() == Shape{0, 2});
}

TEST_CASE("A bad length on a GPU is an IndexError at the wait, and the GPU goes on", "[sequence][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = ones({3, 2}, {.device = gpu()});
  const NDArray bad = sequence_last(x, array<int>({1, 0}, gpu())), beside = x + 1;
  CHECK(sum(beside).item<float>() == 12);
  CHECK_THROWS_AS(sum(bad).item<float>(), IndexError);
  CHECK(sum(sequence_last(x, array<int>({1, 3}, gpu()))).item<float>() == 2);
}

TEST_CASE("Gradients of sequences agree with finite differences", "[sequence]") {
  const NDArray x = random_array({4, 2, 3}, 1, -1, 1, float64), lengths = array<int>({3, 1});
  CHECK(gradient_differences([&](const auto& in) { return sequence_mask(in[0], lengths, 7); }, {x}) == "");
  CHECK(gradient_differences([&](const auto& in) { return sequence_last(in[0], lengths); }, {x}) == "");
  CHECK(gradient_differences([&](const auto& in) { return sequence_reverse(in[0], lengths); }, {x}) == "");
  const NDArray turned = x.swapaxes(0, 1);
  CHECK(gradient_differences([&](const auto& in) { return sequence_last(in[0], lengths, 1); }, {turned}) == "");
}
