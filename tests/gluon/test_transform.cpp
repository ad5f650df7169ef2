#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;
using vision::Normalize;
using vision::ToTensor;

namespace {

// A transform as a user would write it: every value doubled.
struct Doubled {
  ArraySpec output_spec(const ArraySpec& in) const { return in; }
  void operator()(const TensorView& in, const TensorView& out) const {
    for (std::int64_t i = 0; i < in.size; ++i)
      out.as<float>()[i] = 2 * in.as<float>()[i];
  }
};

// The whole dataset as one batch.
template <class D>
Batch all_of(const D& dataset) {
  DataLoader loader(dataset, {.batch_size = dataset.size()});
  return *loader.begin();
}

ArrayDataset two_images() {
  // (2, 1, 2, 3): two images of one row, two columns, three channels.
  return ArrayDataset(
      array<std::uint8_t>({0, 51, 102, 153, 204, 255, 1, 2, 3, 4, 5, 6}, {2, 1, 2, 3}), array<std::int32_t>({7, 8}));
}

}  // namespace

TEST_CASE("ToTensor turns channels first and divides by 255", "[gluon][data]") {
  const auto [x, y] = all_of(two_images().transform_first(ToTensor()));
  CHECK(x.shape() == Shape{2, 3, 1, 2});
  CHECK(x.dtype() == float32);
  const std::vector<float> found = values(x);
  CHECK(
      std::vector<float>(found.begin(), found.begin() + 6) ==
      std::vector<float>{0 / 255.f, 153 / 255.f, 51 / 255.f, 204 / 255.f, 102 / 255.f, 255 / 255.f});
  CHECK(found.back() == 6 / 255.0f);
  CHECK(y.to_vector<std::int32_t>() == std::vector<std::int32_t>{7, 8});
}

TEST_CASE("Normalize shifts and scales each channel", "[gluon][data]") {
  const auto normalised = two_images().transform_first(ToTensor()).transform_first(Normalize({0, 0.5, 1}, {1, 2, 4}));
  const std::vector<float> found = values(all_of(normalised).data);
  check_near({found.begin(), found.begin() + 6}, {0, 0.6f, (0.2f - 0.5f) / 2, (0.8f - 0.5f) / 2, -0.15f, 0});
  const auto one_for_all = two_images().transform_first(ToTensor()).transform_first(Normalize(0.5, 0.5));
  CHECK(values(all_of(one_for_all).data)[5] == 1);
}

TEST_CASE("Compose gives what its parts give one after another", "[gluon][data]") {
  const Compose chain(ToTensor(), Normalize(0.25, 0.5), Doubled());
  const auto apart =
      two_images().transform_first(ToTensor()).transform_first(Normalize(0.25, 0.5)).transform_first(Doubled());
  CHECK(values(all_of(two_images().transform_first(chain)).data) == values(all_of(apart).data));
  const Compose nested(Compose(ToTensor(), Normalize(0.25, 0.5)), Doubled());
  CHECK(values(all_of(two_images().transform_first(nested)).data) == values(all_of(apart).data));
}

TEST_CASE("transforms refuse samples that they do not take", "[gluon][data]") {
  CHECK_THROWS_AS(ArrayDataset(zeros({2, 1, 2, 3}), zeros({2})).transform_first(ToTensor()), DTypeError);
  const NDArray flat = zeros({2, 3}, {.dtype = uint8});
  CHECK_THROWS_AS(ArrayDataset(flat, zeros({2})).transform_first(ToTensor()), ShapeError);
  CHECK_THROWS_AS(two_images().transform_first(Normalize(0, 1)), DTypeError);
  const auto tensors = two_images().transform_first(ToTensor());
  CHECK_THROWS_AS(tensors.transform_first(Normalize({0, 0}, {1, 1})), ShapeError);
  CHECK_THROWS_AS(Normalize({0, 0}, {1}), ValueError);
  CHECK_THROWS_AS(Normalize(0, 0), ValueError);
}

TEST_CASE("an ArrayDataset of any arrays, strided or half, reads their rows", "[gluon][data]") {
  const NDArray x = arange(0, 12).reshape({3, 4}).T();  // (4, 3), not contiguous
  const auto [data, label] = all_of(ArrayDataset(x, arange(0, 4, 1, {.dtype = int64})));
  CHECK(values(data) == values(x));
  CHECK(label.dtype() == int64);
  CHECK_THROWS_AS(ArrayDataset(x, zeros({3})), ShapeError);
  CHECK_THROWS_AS(ArrayDataset(zeros({}), zeros({})), ShapeError);
}
