// a[{..}] against plain loops: views, what is written through them, and gradients of both.
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Numbers = std::vector<float>;

NDArray counted(const Shape& shape) {
  return arange(0, static_cast<double>(shape.size()), 1).reshape(shape);
}

}  // namespace

TEST_CASE("Subscripts of several axes are the view that slices one after the other are", "[subscripts]") {
  const NDArray a = counted({4, 5, 6});
  CHECK(differences(a[{2}], a.slice(0, 2, 3).squeeze(0)) == "");
  CHECK(differences(a[{2, {}, {1, 5}}], a.slice(0, 2, 3).squeeze(0).slice(1, 1, 5)) == "");
  CHECK(differences(a[{{1, 4, 2}, -1}], a.slice(0, 1, 4, 2).slice(1, 4, 5).squeeze(1)) == "");
  CHECK(differences(a[{{}, {{}, -1}, {2, {}}}], a.slice(1, 0, 4).slice(2, 2, 6)) == "");
  CHECK(differences(a[{{{}, {}, -1}, {-2, {}, -2}}], a.slice(0, 9, -9, -1).slice(1, -2, -9, -2)) == "");
  CHECK(differences(a[{k_rest, 0}], a.slice(2, 0, 1).squeeze(2)) == "");
  enum Place { left, right };
  CHECK(differences(a[right], a[1]) == "");
  CHECK(differences(a[{1, k_rest, {{}, 2}}], a[1].slice(1, 0, 2)) == "");
  CHECK(differences(a[{1, 2, k_rest, 3}], a.slice(0, 1, 2).slice(1, 2, 3).slice(2, 3, 4).reshape({})) == "");
  CHECK(a[{k_new_axis, 0, k_rest, k_new_axis}].shape() == Shape{1, 5, 6, 1});
  CHECK(a[{{}, k_new_axis, {0, 2}}].shape() == Shape{4, 1, 2, 6});
  CHECK(a[{k_rest}].shape() == a.shape());
  CHECK(a[{{7, {}}, {3, 1}}].shape() == Shape{0, 0, 6});
  CHECK(a[{-4, -5, -6}].item<float>() == 0);
  a[{3, 4, 5}].assign(-1);
  CHECK(a.to_vector<float>().back() == -1);  // the same memory
  CHECK(a[{}].shape() == a.shape());
  CHECK(a[{1}].shape() == Shape{5, 6});
  CHECK(full({}, 3)[{k_rest}].item<float>() == 3);
}

TEST_CASE("Subscripts that do not fit are typed errors", "[subscripts]") {
  const NDArray a = counted({2, 3});
  CHECK_THROWS_AS((a[{0, 0, 0}]), IndexError);
  CHECK_THROWS_AS((a[{2, {}}]), IndexError);
  CHECK_THROWS_AS((a[{{}, -4}]), IndexError);
  CHECK_THROWS_WITH((a[{{}, 3}]), contains("index 3") && contains("axis 1") && contains("(2, 3)"));
  CHECK_THROWS_AS((a[{k_rest, k_rest}]), IndexError);
  CHECK_THROWS_AS((a[{{0, 2, 0}, 0}]), ValueError);
  CHECK_THROWS_AS((NDArray()[{0, 0}]), ValueError);
  CHECK_THROWS_AS(a.assign({0, 7}, 1), IndexError);
  CHECK_THROWS_AS(a.assign({0}, zeros({4})), ShapeError);
  const auto is_named = contains("assign: an array of shape (4,) does not broadcast to (3,)");
  CHECK_THROWS_WITH(a.assign({0}, zeros({4})), is_named);
  CHECK_THROWS_WITH(a[0].assign(zeros({4})), is_named);
  CHECK_THROWS_AS(a.assign(zeros({2, 1, 3})), ShapeError);
  CHECK_THROWS_AS(a.assign({0}, NDArray()), ValueError);
  CHECK_THROWS_AS(zeros({2}, {.dtype = int8}).assign({0}, 300), ValueError);
  CHECK_THROWS_AS(zeros({1}).broadcast_to({3}).assign({0}, 1), ValueError);
}

TEST_CASE("What is written with subscripts stands there, cast and broadcast, of every type", "[subscripts]") {
  for (const DType dtype : all_dtypes()) {
    CAPTURE(dtype);
    const NDArray a = zeros({3, 4}, {.dtype = dtype});
    a.assign({{}, {{}, {}, 2}}, ones({1, 2}, {.dtype = int32}));
    a.assign({-1, {1, 3}}, 1);
    CHECK(a.to_vector<double>() == std::vector<double>{1, 0, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0});
  }
  NDArray a = counted({2, 3});
  // First axes of extent 1 that are too many are left out, as in NumPy.
  a[{0, 0}].assign(ones({1}) * 7);
  a[1].assign(full({1, 1, 3}, 8));
  a.assign({0, {1, {}}}, array<float>({5, 6}, {1, 2}));
  CHECK(a.to_vector<float>() == Numbers{7, 5, 6, 8, 8, 8});
  a = counted({2, 3});
  a.assign({0}, a[{{}, {{}, {}, -1}}][1]);
  CHECK(a.to_vector<float>() == Numbers{5, 4, 3, 3, 4, 5});
  a.assign({{}, {0, 2}}, a[{{}, {1, 3}}]);  // from where it goes
  CHECK(a.to_vector<float>() == Numbers{4, 3, 3, 4, 5, 5});
  const NDArray row = counted({7});
  row.assign({{1, {}}}, row[{{{}, -1}}]);
  CHECK(row.to_vector<float>() == Numbers{0, 0, 1, 2, 3, 4, 5});
  row.assign({{}}, row[{{{}, {}, -1}}]);
  CHECK(row.to_vector<float>() == Numbers{5, 4, 3, 2, 1, 0, 0});
  const Operator& op = *find_operator("slice_assign");
  const NDArray inputs[] = {zeros({7}), row[{{0, 2}}]};
  invoke(op, inputs, parse_attributes(op, "begin=(5,), end=(7,), step=(1,)"), SourceLocation::current(), {&row, 1});
  CHECK(row.to_vector<float>() == Numbers{0, 0, 0, 0, 0, 5, 4});
  a.transpose().assign({2, k_new_axis}, array<float>({8, 9}, {1, 2}));
  CHECK(a.to_vector<float>() == Numbers{4, 3, 8, 4, 5, 9});
  a.assign({{5, {}}}, 1);  // nothing
  CHECK(a.to_vector<float>() == Numbers{4, 3, 8, 4, 5, 9});
}

TEST_CASE("Gradients pass through subscripts, and through what is written with them", "[subscripts]") {
  const NDArray x = random_array({3, 4, 2}, 1, -1, 1, float64), v = random_array({4, 2}, 2, -1, 1, float64);
  CHECK(gradient_differences([](const auto& in) { return in[0][{{2, 0, -1}, -1}]; }, {x}) == "");
  CHECK(gradient_differences([](const auto& in) { return in[0][{k_new_axis, 1, k_rest, 0}]; }, {x}) == "");
  CHECK(gradient_differences([](const auto& in) { return in[0][{{}, {2, 2}}]; }, {x}) == "");
  const auto written = [](const auto& in) {
    NDArray y = in[0] * 2;
    y.assign({1}, in[1]);
    y.assign({{}, 0, {0, 1}}, in[1].slice(0, 0, 3).slice(1, 1, 2).squeeze(1).expand_dims(1));
    return y * y;
  };
  CHECK(gradient_differences(written, {x, v}) == "");
  // A number takes the gradient away; what was not on the tape comes onto it.
  const auto erased = [](const auto& in) {
    NDArray y = in[0] * 1;
    y.assign({{}, 1}, 5);
    NDArray fresh = zeros({2, 4, 2}, {.dtype = float64});
    fresh.assign({1}, in[1]);
    return sum(y * y) + sum(fresh * fresh * fresh);
  };
  CHECK(gradient_differences(erased, {x, v}) == "");
}

TEST_CASE("Writing with subscripts what gradients need, or a variable, is an AutogradError", "[subscripts]") {
  NDArray x = ones({2, 3}), v = ones({3});
  x.attach_grad();
  v.attach_grad();
  const autograd::RecordScope record;
  CHECK_THROWS_AS(x.assign({0}, v), AutogradError);
  NDArray y = x * 2;
  const NDArray view = y[0];
  CHECK_THROWS_AS(y.assign({0}, v), AutogradError);
  CHECK_THROWS_WITH((y * 1)[0] += 1, contains("b.assign({i}, values)"));
}

TEST_CASE("An index outside its axis names what the program called, whatever runs for it", "[subscripts]") {
  const NDArray x = zeros({2, 3});
  for (const int bad : {3, -4}) {
    const auto is_named = [&](const NDArray& failed, const char* name) {
      CHECK_THROWS_WITH(failed.wait_to_read(), Catch::Matchers::StartsWith(message(name, ": index ", bad)));
    };
    const NDArray number = array<int>({bad}), at = number.reshape({1, 1}), one = ones({1}), row = zeros({3});
    is_named(index_add(row, {number}, one), "index_add");
    is_named(index_add(x, {array<int>({0}), number}, one), "index_add");
    is_named(index_add(x, {k_rest, number}, one), "index_add");
    is_named(index_update(x, {k_rest, number}, one), "index_update");
    is_named(add_along_axis(row, number, one), "add_along_axis");
    is_named(scatter_nd(one, at, {3}), "scatter_nd");
    is_named(put(row, number, one), "put");
    is_named(embedding(number, zeros({3, 2})), "embedding");
    is_named(row[number], "operator[]");
    const NDArray written = row.copy(), added = row.copy();
    written.assign({number}, one);
    added.add_at({number}, one);
    is_named(written, "assign");
    is_named(added, "add_at");
  }
}

TEST_CASE("Subscripts on a GPU are those on the CPU", "[subscripts][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : all_dtypes()) {
    CAPTURE(dtype);
    const NDArray a = random_array({4, 5, 6}, 1, -9, 9, dtype), b = a.to(gpu()).copy(), c = a.copy();
    CHECK(differences(b[{{{}, {}, -1}, 2, {1, {}, 2}}].to(cpu()), a[{{{}, {}, -1}, 2, {1, {}, 2}}]) == "");
    const NDArray v = random_array({4, 2}, 2, -9, 9, dtype);
    b.assign({{}, -1, {4, 0, -2}}, v.to(gpu()));
    c.assign({{}, -1, {4, 0, -2}}, v);
    CHECK(differences(b.to(cpu()), c) == "");
  }
}
