// Layer norm of float32 that gives and takes half types: the operators beside casts of their own, and the pass.
#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/norm/layer_norm_kernels.h>
#include <sluice/operator/view/attributes.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Tracer;

namespace {

using Attribute = detail::LayerNormAttributes;

// gamma and beta, or gamma alone for rms_norm.
Arrays parameters_of(std::int64_t n, bool centred, Device device) {
  Arrays made{random_array({n}, 2, -1, 2).to(device)};
  if (centred)
    made.push_back(random_array({n}, 3, -1, 1).to(device));
  return made;
}

Arrays norm_of(const NDArray& x, const Arrays& parameters, const Attribute& how) {
  Arrays inputs{x};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  return invoke(parameters.size() == 2 ? detail::layer_norm_op : detail::rms_norm_op, inputs, Attributes::of(how), {});
}

Arrays backward_of(const NDArray& dy, const NDArray& x, const Arrays& parameters, const Arrays& norm, Attribute how) {
  Arrays inputs{dy, x, parameters[0]};
  inputs.insert(inputs.end(), norm.begin() + 1, norm.end());
  const bool centred = parameters.size() == 2;
  return invoke(
      centred ? detail::layer_norm_backward_op : detail::rms_norm_backward_op, inputs, Attributes::of(how), {});
}

// Rows of vectors and others, columns, rows that no thread keeps, none at all.
struct Rows {
  Shape shape;
  int axis = -1;
};
const Rows k_rows[] = {
    {{6, 64}},
    {{5, 7}},
    {{3, 768}},
    {{4, 6, 5}, 1},
    {{9, 4}, 0},
    {{2, 20000}},
    {{3, 40001}},
    {{0, 8}},
    {{3, 0}},
    {{1, 1}}};

void check_rows(const Rows& rows, DType half, bool centred, Device device) {
  NDArray x = random_array(rows.shape, 1, -2, 2).to(device);
  if (rows.shape.size() > 12)
    x = where(x > 1.9, x * 1e30, x);  // beyond float16
  const int axis = rows.axis < 0 ? rows.shape.ndim() - 1 : rows.axis;
  const Arrays parameters = parameters_of(rows.shape[axis], centred, device);
  const Arrays wide = norm_of(x, parameters, {axis, 1e-5});
  const Arrays rounded = norm_of(x, parameters, {axis, 1e-5, half});
  CHECK(rounded[0].dtype() == half);
  Arrays want = wide;
  want[0] = wide[0].astype(half);
  CHECK((all_bytes(rounded) == all_bytes(want)));
  const NDArray head = random_array(rows.shape, 4, -1, 1).astype(half).to(device);
  CHECK(
      (all_bytes(backward_of(head, x, parameters, wide, {axis, 1e-5})) ==
       all_bytes(backward_of(head.astype(float32), x, parameters, wide, {axis, 1e-5}))));
}

void check_all(Device device) {
  for (const Rows& rows : k_rows) {
    for (const DType half : {float16, bfloat16}) {
      for (const bool centred : {true, false}) {
        // A simulated GPU takes its time: of long rows each type once.
        if (rows.shape.size() > 30000 && centred != (half == bfloat16))
          continue;
        CAPTURE(to_string(rows.shape), rows.axis, half, centred);
        check_rows(rows, half, centred, device);
      }
    }
  }
}

// Two layers between products in bfloat16, as autocast has them; the result and the gradients of all inputs.
Arrays step(const Arrays& given, const std::function<NDArray(const Arrays&)>& network) {
  Arrays in = given;
  for (NDArray& each : in) {
    each = each.detach();
    each.attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = network(in);
  }
  Arrays made{y};
  for (NDArray& gradient : autograd::grad({&y, 1}, in, {}))
    made.push_back(gradient);
  return made;
}

Arrays draw_inputs(Device device) {
  return {
      random_array({6, 8}, 1, -2, 2).to(device),
      random_array({8}, 2, -1, 2).to(device),
      random_array({8}, 3, -1, 1).to(device),
      random_array({8, 8}, 4, -1, 1).astype(bfloat16).to(device)};
}

NDArray norm(const Arrays& in) {
  return layer_norm(in[0], in[1], in[2]);
}
NDArray product(const Arrays& in, const NDArray& x) {
  return matmul(x, in[3]);
}

Graph traced(Device device, const std::function<NDArray(const Arrays&)>& network) {
  Tracer tracer;
  Arrays given;
  for (const NDArray& input : draw_inputs(cpu()))
    given.push_back(tracer.input({input.shape(), input.dtype(), device}));
  const Graph made = with_norm_casts(without_dead_code(tracer.trace([&] { return step(given, network); })));
  verify(made);
  return made;
}

std::int64_t casts(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) {
    return node.op == &detail::k_cast || node.op == &detail::k_copy;
  });
}
std::int64_t rounded_norms(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) {
    return node.op == &detail::layer_norm_op && node.attributes.as<Attribute>().result == bfloat16;
  });
}
std::int64_t half_heads(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) {
    return node.op == &detail::layer_norm_backward_op && graph.values[node.inputs[0]].spec.dtype == bfloat16;
  });
}

const auto k_plain = [](const Arrays& in) { return product(in, norm(in).astype(bfloat16)); };

}  // namespace

TEST_CASE("Layer norm gives and takes half types as if cast beside it", "[norm]") {
  check_all(cpu());
}

TEST_CASE("Layer norm gives and takes half types on a GPU as if cast beside it", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu());
}

void check_nothing(Device device) {
  for (const DType dtype : {float64, float32, float16}) {
    for (const Shape& shape : {Shape{3, 0}, Shape{0, 3}, Shape{2, 0, 3}}) {
      CAPTURE(dtype, to_string(shape));
      const int axis = shape[0] == 0 ? 0 : 1;
      const NDArray x = zeros(shape, {.dtype = dtype, .device = device}), none = x.reshape({0});
      const Arrays centred = norm_of(x, {none, none}, {axis, 1e-5}), others = norm_of(x, {none}, {axis, 1e-5});
      const std::vector<double> means(static_cast<std::size_t>(centred[1].size()), 0);
      CHECK(centred[1].to_vector<double>() == means);
      for (const NDArray& inv_std : {centred[2], others[1]})
        CHECK(isnan(inv_std).to_vector<bool>() == std::vector<bool>(means.size(), true));
      const Attributes by_sums = Attributes::of(detail::L2NormalizationAttributes{4});
      const Arrays summed = invoke(detail::l2_normalization_op, std::span(&x, 1), by_sums, {});
      for (const double number : summed[1].to_vector<double>())
        CHECK(number == 0.5);
    }
  }
}

TEST_CASE("Rows without elements have the mean and the spread of nothing", "[norm]") {
  check_nothing(cpu());
}

TEST_CASE("Rows without elements have the mean and the spread of nothing on a GPU", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_nothing(gpu());
}

TEST_CASE("What layer norm does not give is refused", "[norm]") {
  const NDArray x = random_array({2, 8}, 1, -1, 1);
  const Arrays parameters = parameters_of(8, true, cpu()),
               halves{parameters[0].astype(float16), parameters[1].astype(float16)};
  CHECK_THROWS_AS(norm_of(x, parameters, {1, 1e-5, float64}), DTypeError);
  CHECK_THROWS_AS(norm_of(x, parameters, {1, 1e-5, int32}), DTypeError);
  CHECK_THROWS_AS(norm_of(x.astype(float16), halves, {1, 1e-5, float32}), DTypeError);
  CHECK_THROWS_AS(norm_of(x.astype(float16), halves, {1, 1e-5, bfloat16}), DTypeError);
  CHECK(norm_of(x, parameters, {1, 1e-5, float32})[0].dtype() == float32);
  CHECK(norm_of(x.astype(float16), halves, {1, 1e-5, float16})[0].dtype() == float16);
  const Arrays wide = norm_of(x, parameters, {1, 1e-5});
  CHECK_THROWS_AS(backward_of(x.astype(float64), x, parameters, wide, {1, 1e-5}), DTypeError);
  // Groups know no other types.
  const Arrays groups = invoke(
      detail::group_norm_op,
      Arrays{x, parameters[0], parameters[1]},
      Attributes::of(detail::GroupNormAttributes{2}),
      {});
  CHECK_THROWS_AS(
      invoke(
          detail::group_norm_backward_op,
          Arrays{x.astype(float16), x, parameters[0], groups[1], groups[2]},
          Attributes::of(detail::GroupNormAttributes{2}),
          {}),
      DTypeError);
}

TEST_CASE("The gradients of a rounded layer norm are those of a cast behind it", "[norm]") {
  const auto gradients = [](bool rounds) {
    Arrays in{random_array({5, 8}, 1, -2, 2), random_array({8}, 2, -1, 2), random_array({8}, 3, -1, 1)};
    for (NDArray& each : in)
      each.attach_grad();
    const NDArray head = random_array({5, 8}, 4, -1, 1).astype(bfloat16);
    std::vector<NDArray> first;
    NDArray squares;
    {
      const autograd::RecordScope record;
      const NDArray y = rounds ? norm_of(in[0], {in[1], in[2]}, {1, 1e-5, bfloat16})[0] : norm(in).astype(bfloat16);
      first = autograd::grad({&y, 1}, in, {&head, 1}, {.create_graph = true});
      squares = sum(first[0] * first[0]) + sum(first[1] * first[1]);
    }
    squares.backward();
    first.push_back(in[0].grad());
    first.push_back(in[1].grad());
    return Arrays(first.begin(), first.end());
  };
  CHECK((all_bytes(gradients(true)) == all_bytes(gradients(false))));
}

TEST_CASE("On a GPU layer norm takes casts along, where nobody else reads what they read", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const Graph plain = traced(gpu(0), k_plain);
  CHECK(rounded_norms(plain) == 1);
  CHECK(half_heads(plain) == 1);
  CHECK(casts(plain) == 0);
  const Graph on_cpu = traced(cpu(), k_plain);
  CHECK(rounded_norms(on_cpu) + half_heads(on_cpu) == 0);
  const Graph shared = traced(gpu(0), [](const Arrays& in) {
    const NDArray y = norm(in), z = y.astype(bfloat16);
    return product(in, z).astype(float32) + y;
  });
  CHECK(rounded_norms(shared) + half_heads(shared) == 0);
  const Graph widened = traced(gpu(0), [](const Arrays& in) { return norm(in).astype(float64); });
  CHECK(casts(widened) == 2);
  CHECK(rounded_norms(traced(gpu(0), [](const Arrays& in) {
          NDArray y = norm(in);
          y += 1;  // written before it is cast
          return product(in, y.astype(bfloat16));
        })) == 0);
}

TEST_CASE("A head that was written since is not taken from before its cast", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  for (const bool written : {false, true}) {
    CAPTURE(written);
    Tracer tracer;
    const ArraySpec wide{{6, 8}, float32, gpu(0)}, row{{8}, float32, gpu(0)};
    const NDArray x = tracer.input(wide), gamma = tracer.input(row), beta = tracer.input(row);
    const NDArray head = tracer.input({{6, 8}, bfloat16, gpu(0)});
    const Graph made = with_norm_casts(tracer.trace([&] {
      const Arrays norm = norm_of(x, {gamma, beta}, {1, 1e-5});
      NDArray own = head * 2;
      const NDArray cast = own.astype(float32);
      if (written)
        own += 1;
      return backward_of(cast, x, {gamma, beta}, norm, {1, 1e-5});
    }));
    verify(made);
    CHECK(half_heads(made) == (written ? 0 : 1));
  }
}

TEST_CASE("A head is taken from where it begins as new memory does alone", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  using Head = std::function<NDArray(const NDArray&)>;
  const auto taken = [](const Head& head_of) {
    Tracer tracer;
    const ArraySpec wide{{6, 8}, float32, gpu(0)}, row{{8}, float32, gpu(0)};
    const NDArray x = tracer.input(wide), gamma = tracer.input(row), beta = tracer.input(row);
    const NDArray given = tracer.input({{6, 8}, bfloat16, gpu(0)});
    const Graph made = with_norm_casts(tracer.trace([&] {
      const Arrays norm = norm_of(x, {gamma, beta}, {1, 1e-5});
      return backward_of(head_of(given).astype(float32), x, {gamma, beta}, norm, {1, 1e-5});
    }));
    verify(made);
    return half_heads(made) == 1;
  };
  CHECK(taken([](const NDArray& given) { return (given * 2).reshape({48}).reshape({6, 8}); }));
  CHECK_FALSE(taken([](const NDArray& given) { return given; }));  // an array of the caller's, from anywhere
  CHECK_FALSE(taken([](const NDArray& given) {
    return concat(std::vector<NDArray>{given, given * 2}, 0).slice(0, 1, 7);
  }));
}

TEST_CASE("A step with layer norm between casts on a GPU gives as a plan what it gives by hand", "[graph][norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Arrays in = draw_inputs(gpu());
  Tracer tracer;
  Arrays given;
  for (const NDArray& input : in)
    given.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  graph::Plan plan(tracer.trace([&] { return step(given, k_plain); }));
  CHECK(rounded_norms(plan.graph()) == 1);
  const auto want = all_bytes(step(in, k_plain));
  for (int run = 0; run < 3; ++run)
    CHECK((all_bytes(plan.run(in)) == want));
}
