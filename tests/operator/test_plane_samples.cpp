// Planes sampled in one go against what samples are composed of elsewhere.
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Images, channels and places in numbers at which loops change: whole groups, some more, more than a stretch.
struct Sizes {
  Shape x, at;
};
const std::vector<Sizes> k_sizes = {
    {{2, 3, 4, 5}, {2, 6, 7}},
    {{1, 33, 9, 8}, {1, 4, 4}},
    {{1, 1, 1, 1}, {1, 1, 19}},
    {{3, 2, 1, 6}, {3, 41, 27}},
    {{2, 9, 7, 1}, {2, 2, 1}},
    {{0, 2, 3, 3}, {0, 4, 4}},
    {{2, 2, 3, 3}, {2, 0, 4}},
};

Arrays called(const char* name, const std::vector<NDArray>& in, const std::string& how, bool composed) {
  const Operator& op = *find_operator(name);
  const SourceLocation site = SourceLocation::current();
  const Attributes attributes = parse_attributes(op, how);
  return composed ? op.composition(in, attributes, site) : invoke(op, in, attributes, site);
}

// Places on pixels, between them and beside the plane.
NDArray places(const Shape& at, int seed, std::int64_t extent, DType dtype) {
  const NDArray any = random_array(at, seed, -2, static_cast<double>(extent) + 1, dtype);
  return where(random_array(at, seed + 1, 0, 1) < 0.3, round(any), any);
}

}  // namespace

TEST_CASE("Planes sampled in one go are what they are composed of, and so are their gradients", "[grid_sample]") {
  for (const Sizes& sizes : k_sizes) {
    for (const char* how : {"", "nearest=true"}) {
      for (const DType dtype : {float32, float64}) {
        CAPTURE(to_string(sizes.x), to_string(sizes.at), how, name_of(dtype));
        const Tolerance close{tolerance_of(dtype).relative, 10 * tolerance_of(dtype).absolute};
        const NDArray x = random_array(sizes.x, 1, -1, 1, dtype);
        const NDArray rows = places(sizes.at, 2, sizes.x[2], dtype), columns = places(sizes.at, 4, sizes.x[3], dtype);
        const auto alike = [&](const char* name, const std::vector<NDArray>& in) {
          const Arrays got = called(name, in, how, false), want = called(name, in, how, true);
          for (std::size_t i = 0; i < want.size(); ++i)
            CHECK(differences(got[i], want[i], close) == "");
        };
        alike("plane_samples", {x, rows, columns});
        const NDArray dy = random_array({sizes.x[0], sizes.x[1], sizes.at[1], sizes.at[2]}, 6, -1, 1, dtype);
        alike("plane_samples_backward", {dy, rows, columns, x});
        if (std::string(how).empty())
          alike("plane_samples_places_backward", {dy, x, rows, columns});
      }
    }
  }
}

TEST_CASE("Samples of planes have the same bits whatever the number of workers", "[grid_sample]") {
  std::vector<std::vector<float>> all;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    NDArray x = random_array({2, 35, 31, 29}, 1), grid = random_array({2, 45, 50, 2}, 2, -1.2, 1.2), y;
    x.attach_grad();
    grid.attach_grad();
    {
      const autograd::RecordScope record;
      y = grid_sample(x, grid);
    }
    y.backward(random_array(y.shape(), 3));
    std::vector<float>& bits = all.emplace_back();
    for (const NDArray& of : {y, x.grad(), grid.grad()}) {
      const auto values = of.to_vector<float>();
      bits.insert(bits.end(), values.begin(), values.end());
    }
  }
  CHECK((all[0] == all[1]));
  CHECK((all[0] == all[2]));
}

TEST_CASE("Gradients of the gradients of samples are right", "[grid_sample]") {
  const std::vector<NDArray> inputs{
      random_array({1, 2, 4, 5}, 1, -1, 1, float64), random_array({1, 2, 3, 2}, 2, -0.9, 0.9, float64)};
  const auto of_gradient = [](const auto& v) {
    std::vector<NDArray> in(v.begin(), v.end());
    for (NDArray& each : in) {
      if (!autograd::on_tape(each)) {
        each = each.detach();
        each.attach_grad();
      }
    }
    const autograd::RecordScope record;
    const NDArray y = square(grid_sample(in[0], in[1]));
    const auto first = autograd::grad(std::vector{sum(y)}, in, {}, {.create_graph = true});
    return sum(square(first[0])) + sum(square(first[1]));
  };
  CHECK(gradient_differences(of_gradient, inputs) == "");
}

TEST_CASE("Samples of planes refuse what does not fit, by name and values", "[grid_sample]") {
  const NDArray x = ones({2, 3, 4, 5}), at = zeros({2, 3, 3});
  const auto call = [](const char* name, const std::vector<NDArray>& in, const char* how = "") {
    return called(name, in, how, false);
  };
  CHECK_THROWS_WITH(
      call("plane_samples", {x, at, zeros({2, 3, 4})}), contains("plane_samples") && contains("(2, 3, 4)"));
  CHECK_THROWS_AS(call("plane_samples", {x[0], at, at}), ShapeError);
  CHECK_THROWS_AS(call("plane_samples", {zeros({2, 3, 0, 5}), at, at}), ShapeError);
  CHECK_THROWS_AS(call("plane_samples", {x, at, at.astype(float64)}), DTypeError);
  CHECK_THROWS_AS(call("plane_samples_backward", {ones({2, 3, 3, 2}), at, at, x}), ShapeError);
  const NDArray dy = ones({2, 3, 3, 3});
  CHECK_THROWS_AS(call("plane_samples_places_backward", {dy, x, at, at}, "nearest=true"), ValueError);
}
