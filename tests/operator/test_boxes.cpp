// Boxes without those that better ones overlap, against a plain loop in double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <sluice/operator/vision/boxes.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Corners {
  double at[4];
};

Corners corners_of(const double* box, bool center) {
  if (!center)
    return {{box[0], box[1], box[2], box[3]}};
  return {{box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2}};
}

double overlap(const Corners& a, const Corners& b) {
  double shared = 1, of_a = 1, of_b = 1;
  for (int i = 0; i < 2; ++i) {
    shared *= std::max(std::min(a.at[i + 2], b.at[i + 2]) - std::max(a.at[i], b.at[i]), 0.0);
    of_a *= std::max(a.at[i + 2] - a.at[i], 0.0);
    of_b *= std::max(b.at[i + 2] - b.at[i], 0.0);
  }
  const double all = of_a + of_b - shared;
  return all == 0 ? 0 : shared / all;
}

// Of one batch, n boxes of k numbers: which remain, in order.
std::vector<std::int64_t> remaining(const double* data, std::int64_t n, std::int64_t k, const BoxNmsOptions& o) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n)), kept;
  std::iota(order.begin(), order.end(), 0);
  const auto number = [&](std::int64_t i, std::int64_t at) { return data[i * k + at]; };
  std::erase_if(order, [&](std::int64_t i) {
    const bool background =
        o.id_index >= 0 && o.background_id >= 0 && number(i, o.id_index) == static_cast<double>(o.background_id);
    return !(number(i, o.score_index) > o.valid_thresh) || background;
  });
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return number(a, o.score_index) > number(b, o.score_index);
  });
  if (o.topk > 0 && o.topk < static_cast<std::int64_t>(order.size()))
    order.resize(static_cast<std::size_t>(o.topk));
  const bool by_class = o.id_index >= 0 && !o.force_suppress;
  const auto corners = [&](std::int64_t i) {
    return corners_of(data + i * k + o.coord_start, o.in_format == BoxFormat::center);
  };
  for (const std::int64_t i : order) {
    const bool ended = std::any_of(kept.begin(), kept.end(), [&](std::int64_t better) {
      const bool alike = !by_class || number(better, o.id_index) == number(i, o.id_index);
      return alike && overlap(corners(better), corners(i)) > o.overlap_thresh;
    });
    if (!ended)
      kept.push_back(i);
  }
  return kept;
}

NDArray reference(const NDArray& data, const BoxNmsOptions& o) {
  const auto values = data.to_vector<double>();
  const std::int64_t k = data.shape().back(), n = data.shape()[data.ndim() - 2];
  std::vector<double> all(values.size(), -1);
  for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(n * k)) {
    std::size_t to = begin;
    for (const std::int64_t i : remaining(values.data() + begin, n, k, o)) {
      for (std::int64_t j = 0; j < k; ++j)
        all[to++] = values[begin + static_cast<std::size_t>(i * k + j)];
    }
  }
  return array(all, data.shape());
}

// Class, score on a coarse scale so that some are equal, and a box.
NDArray boxes(const Shape& batches, std::int64_t n, DType dtype) {
  Shape shape = batches;
  shape.push_back(n);
  std::vector<double> values;
  const auto draw = random_array({shape.size() * 6}, 3, 0, 1, float64).to_vector<double>();
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    const double* const at = draw.data() + i * 6;
    const double left = std::floor(at[2] * 8), top = std::floor(at[3] * 8);
    values.insert(values.end(), {std::floor(at[0] * 3), std::floor(at[1] * 10) / 8 - 0.125, left, top});
    values.insert(values.end(), {left + std::floor(1 + at[4] * 8), top + std::floor(1 + at[5] * 8)});
  }
  shape.push_back(6);
  return array(values, shape).astype(dtype);
}

const std::vector<BoxNmsOptions> k_options = {
    {},
    {.overlap_thresh = 0.2, .id_index = 0},
    {.overlap_thresh = 0.3, .topk = 7, .id_index = 0, .background_id = 1},
    {.overlap_thresh = 0.3, .id_index = 0, .background_id = 0},
    {.overlap_thresh = 0.1, .valid_thresh = 0.5, .id_index = 0, .force_suppress = true},
    {.overlap_thresh = 0.25, .in_format = BoxFormat::center, .out_format = BoxFormat::center},
};

void check_boxes(Device device) {
  for (const BoxNmsOptions& o : k_options) {
    for (const DType dtype : k_heavy_dtypes) {
      for (const Shape& batches : {Shape{}, Shape{3}, Shape{2, 2}}) {
        CAPTURE(o.overlap_thresh, name_of(dtype), to_string(batches));
        const NDArray data = boxes(batches, 40, dtype);
        CHECK(differences(box_nms(data.to(device), o).to(cpu()), reference(data, o), {0, 0}) == "");
      }
    }
  }
  for (const std::int64_t count : {1, 63, 64, 65, 128, 700}) {  // 64 are a word
    CAPTURE(count);
    const NDArray many = boxes({2}, count, float32);
    CHECK(differences(box_nms(many.to(device), k_options[1]).to(cpu()), reference(many, k_options[1]), {0, 0}) == "");
  }
}

}  // namespace

TEST_CASE("box_nms leaves the boxes that a plain loop leaves, for every type and option", "[boxes]") {
  check_boxes(cpu());
  CHECK(box_nms(zeros({2, 0, 6})).shape() == Shape{2, 0, 6});
  CHECK(box_nms(zeros({0, 3, 6})).shape() == Shape{0, 3, 6});
}

TEST_CASE("box_nms leaves on a GPU the boxes that a plain loop leaves", "[boxes][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_boxes(gpu());
}

TEST_CASE("Of more boxes than there is room for pairs a GPU leaves what a CPU leaves", "[boxes][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr std::int64_t n = 24000;
  const NDArray corner = random_array({1, n, 2}, 3, 0, 100, float32);
  const NDArray place = concat({corner, corner + random_array({1, n, 2}, 4, 5, 10, float32)}, 2);
  const NDArray takes_part = random_array({1, n}, 5, 0, 1, float32) < 0.05;
  const Operator& op = *find_operator("nms_mask");
  const auto left = [&](Device device) {
    const NDArray in[] = {place.to(device), takes_part.to(device)};
    return invoke(op, in, parse_attributes(op, "threshold=0.3"), SourceLocation::current())[0].to(cpu());
  };
  CHECK(differences(left(gpu()), left(cpu()), {0, 0}) == "");
}

TEST_CASE("box_nms takes numbers wherever they stand, turns formats, and leaves out NaN", "[boxes]") {
  const std::vector<float> values{0, 0, 2, 2, 0.5f, 0, 0, 2, 2, NAN, 4, 4, 2, 2, 0.75f};
  const BoxNmsOptions how{.coord_start = 0, .score_index = 4, .in_format = BoxFormat::center};
  const NDArray y = box_nms(array(values, {3, 5}), how);
  CHECK(y.to_vector<float>() == std::vector<float>{3, 3, 5, 5, 0.75f, -1, -1, 1, 1, 0.5f, -1, -1, -1, -1, -1});
  BoxNmsOptions back{.coord_start = 0, .score_index = 4, .out_format = BoxFormat::center};
  const NDArray corners = array(std::vector<float>{3, 3, 5, 5, 0.75f}, {1, 5});
  CHECK(box_nms(corners, back).to_vector<float>() == std::vector<float>{4, 4, 2, 2, 0.75f});
  // A threshold is met where an overlap is above it.
  const NDArray half = array(std::vector<float>{0, 0, 2, 1, 1, 0, 0, 1, 1, 0.5f}, {2, 5});
  const auto left = [&](double threshold) {
    return box_nms(half, {.overlap_thresh = threshold, .coord_start = 0, .score_index = 4}).to_vector<float>()[5] == 0;
  };
  CHECK(left(0.5));
  CHECK_FALSE(left(0.49));
}

TEST_CASE("nms gives the indices of the boxes that remain, of each class for itself", "[boxes]") {
  const NDArray data = boxes({}, 60, float32);
  const NDArray place = data.slice(1, 2, 6).copy(), scores = data.slice(1, 1, 2).reshape({60});
  const NDArray ids = data.slice(1, 0, 1).reshape({60}).astype(int32);
  const auto values = data.to_vector<double>();
  BoxNmsOptions o{.overlap_thresh = 0.2, .valid_thresh = -10};
  CHECK(nms(place, scores, 0.2).to_vector<std::int64_t>() == remaining(values.data(), 60, 6, o));
  o.id_index = 0;
  CHECK(nms(place, scores, 0.2, ids).to_vector<std::int64_t>() == remaining(values.data(), 60, 6, o));
  CHECK(nms(place.astype(float16), scores.astype(float64), 0.2, ids).size() > 0);
  const NDArray none = zeros({0}), no_ids = zeros({0}, {.dtype = int64});
  CHECK(nms(zeros({0, 4}), none).shape() == Shape{0});
  CHECK(nms(zeros({0, 4}), none, 0.5, no_ids).shape() == Shape{0});
  CHECK_THROWS_AS(nms(ones({3}), ones({3})), ShapeError);
  CHECK_THROWS_AS(nms(ones({3, 4}), ones({2})), ShapeError);
  CHECK_THROWS_AS(nms(ones({3, 4}), ones({3}), 0.5, ones({2}).astype(int32)), ShapeError);
  CHECK_THROWS_AS(nms(ones({3, 4}), ones({3}), 0.5, ones({3})), DTypeError);
  CHECK_THROWS_AS(nms(ones({3, 4}).astype(int32), ones({3})), DTypeError);
}

TEST_CASE("nms tells classes apart whose numbers no float does", "[boxes]") {
  const NDArray place = array(std::vector<float>{0, 0, 9, 9}, {1, 4}).broadcast_to({4, 4});
  const NDArray scores = array(std::vector<float>{0.9f, 0.8f, 0.7f, 0.6f}, {4});
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t first : {std::int64_t{-3}, std::int64_t{1} << 24, std::int64_t{1} << 53, most - 1}) {
    CAPTURE(first);
    const NDArray ids = array(std::vector<std::int64_t>{first, first + 1, first, first + 1}, {4});
    for (const DType dtype : {float32, float64})
      CHECK(nms(place.astype(dtype), scores, 0.5, ids).to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
    CHECK(nms(place, scores, 0.5, ids.slice(0, 0, 1).broadcast_to({4})).size() == 1);
  }
}

TEST_CASE("The gradient of box_nms goes to the boxes that remain, in graphs too", "[boxes]") {
  NDArray data = array(std::vector<float>{0, 0.5f, 0, 0, 2, 2, 0, 0.75f, 0, 0, 2, 3, 0, 0.25f, 5, 5, 6, 6}, {3, 6});
  data.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = box_nms(data) * 3;
  }
  y.backward();
  std::vector<float> want(18, 3);
  std::fill_n(want.begin(), 6, 0.f);
  CHECK(data.grad().to_vector<float>() == want);
  const auto f = [](const auto& v) { return box_nms(v[0], {.overlap_thresh = 0.2, .id_index = 0}); };
  CHECK(traced_differences(f, {boxes({2}, 20, float32)}) == "");
}

TEST_CASE("box_nms refuses what does not fit, by name and values", "[boxes]") {
  const NDArray data = zeros({3, 6});
  CHECK_NOTHROW(box_nms(data, {.coord_start = 2}));
  CHECK_THROWS_WITH(box_nms(data, {.coord_start = 3}), contains("box_nms") && contains("coord_start 3"));
  CHECK_THROWS_AS(box_nms(data, {.score_index = 6}), ValueError);
  CHECK_THROWS_AS(box_nms(data, {.score_index = -1}), ValueError);
  CHECK_THROWS_AS(box_nms(data, {.id_index = 6}), ValueError);
  CHECK_THROWS_AS(box_nms(data[0]), ShapeError);
  CHECK_THROWS_AS(box_nms(data.astype(int32)), DTypeError);
}
