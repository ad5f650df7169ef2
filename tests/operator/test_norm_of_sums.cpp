// Layer norm that takes along the sum in front of it: the operators beside calls one by one, and the pass.
#include <vector>

#include "tests/operator/norm_sums.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Tracer;

namespace {

Arrays at_once(const NDArray& a, const NDArray& b, const Arrays& parameters, const LayerAttributes& how) {
  Arrays inputs{a, b};
  inputs.insert(inputs.end(), parameters.begin(), parameters.end());
  const Operator& op = parameters.size() == 2 ? detail::add_layer_norm_op : detail::add_rms_norm_op;
  return invoke(op, inputs, Attributes::of(how), {});
}

Arrays one_by_one(const NDArray& a, const NDArray& b, const Arrays& parameters, const LayerAttributes& how) {
  const NDArray sum = a + b.astype(a.dtype());
  Arrays made = NormOperands::norm(sum, parameters, how);
  made.push_back(sum);
  return made;
}

void check_rows(const NormRowsOf& rows, DType dtype, DType added, bool centred, Device device) {
  const NormOperands given(rows, dtype, added, centred, device);
  const NDArray &a = given.x, &b = given.head;
  LayerAttributes how{rows.axis_in_front(), 1e-5};
  const bool rounds = dtype == float32 && added == bfloat16;
  if (rounds)
    how.result = bfloat16;
  const auto want = all_bytes(one_by_one(a, b, given.parameters, how), true);
  CHECK((all_bytes(at_once(a, b, given.parameters, how), true) == want));
  if (a.size() == 0)
    return;
  CHECK((all_bytes(at_once(beside_vectors(a), b, given.parameters, how), true) == want));
  CHECK((all_bytes(at_once(a, beside_vectors(b), given.parameters, how), true) == want));
}

void check_all(Device device) {
  for (const NormRowsOf& rows : k_norm_rows) {
    for (const bool centred : {true, false}) {
      CAPTURE(to_string(rows.shape), rows.axis, centred);
      check_rows(rows, float32, float32, centred, device);
      check_rows(rows, float32, centred ? bfloat16 : float16, centred, device);
      check_rows(rows, float32, centred ? float16 : bfloat16, centred, device);
      if (rows.shape.size() > 1000)
        continue;
      for (const DType dtype : {float64, float16, bfloat16})
        check_rows(rows, dtype, dtype, centred, device);
    }
  }
}

using SumOf = std::function<Arrays(const Arrays&)>;

/// Of a stream of float32, a branch of bfloat16, gamma, beta and places.
Graph traced(const SumOf& network, const Shape& shape = {6, 8}, Device device = gpu(0)) {
  Tracer tracer;
  const Shape row{shape[1]};
  const Arrays in{
      tracer.input({shape, float32, device}),
      tracer.input({shape, bfloat16, device}),
      tracer.input({row, float32, device}),
      tracer.input({row, float32, device}),
      tracer.input({{shape[0]}, int32, device})};
  const Graph made = with_norm_sums(without_dead_code(tracer.trace([&] { return network(in); })));
  verify(made);
  return made;
}

std::int64_t taken(const Graph& graph) {
  return count(graph, "add_layer_norm") + count(graph, "add_rms_norm");
}
std::int64_t of_halves(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) {
    return node.op == &detail::add_layer_norm_op && graph.values[node.inputs[1]].spec.dtype == bfloat16;
  });
}

Arrays plain(const Arrays& in) {
  const NDArray x = in[0] + in[1].astype(float32);
  return {x, layer_norm(x, in[2], in[3])};
}

}  // namespace

TEST_CASE("Layer norm of a sum is that of the two, to the last bit", "[norm]") {
  check_all(cpu());
}

TEST_CASE("Layer norm of a sum is that of the two on a GPU, to the last bit", "[norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu());
}

TEST_CASE("Layer norm of a sum refuses what does not fit, by name", "[norm]") {
  const NormOperands given({{3, 8}}, float32, float32, true, cpu());
  const auto call = [&](const NDArray& a, const NDArray& b) { return at_once(a, b, given.parameters, {1, 1e-5}); };
  CHECK(call(given.x, given.head.astype(bfloat16)).size() == 4);
  CHECK_THROWS_AS(call(given.x, ones({8})), ShapeError);
  CHECK_THROWS_WITH(call(given.x, ones({3, 4})), sluice::test::contains("add_layer_norm"));
  CHECK_THROWS_AS(call(given.x, given.head.astype(float64)), DTypeError);
  CHECK_THROWS_AS(call(given.x.astype(float16), given.head), DTypeError);
}

TEST_CASE("Layer norm takes along the sum that it reads", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const Graph made = traced(plain);
  CHECK(taken(made) == 1);
  CHECK(of_halves(made) == 1);
  CHECK(made.nodes.size() == 1);
  CHECK(of_halves(traced([](const Arrays& in) {
          const NDArray x = in[1].astype(float32) + in[0];
          return Arrays{layer_norm(x, in[2], in[3])};
        })) == 1);
  const Graph rms = traced([](const Arrays& in) { return Arrays{rms_norm(in[0] + in[1].astype(float32), in[2])}; });
  CHECK(count(rms, "add_rms_norm") == 1);
  const Graph shared = traced([](const Arrays& in) {
    const NDArray wide = in[1].astype(float32);
    return Arrays{layer_norm(in[0] + wide, in[2], in[3]), wide};
  });
  CHECK(taken(shared) == 1);
  CHECK(of_halves(shared) == 0);
  CHECK(taken(traced(plain, {6, 8}, cpu())) == 0);
  CHECK(taken(traced(plain, {2, 8192})) == 1);
  for (const Shape& shape : {Shape{2, 8196}, Shape{3, 6}, Shape{0, 8}, Shape{3, 0}})
    CHECK(taken(traced(plain, shape)) == 0);
}

TEST_CASE("What stands in layer norm's way keeps its sum apart", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const SumOf networks[] = {
      [](const Arrays& in) {
        NDArray x = in[0] + in[1].astype(float32);
        x += 1;  // written in between
        return Arrays{layer_norm(x, in[2], in[3])};
      },
      [](const Arrays& in) {
        const NDArray x = in[0] + in[1].astype(float32), gamma = in[2] * 2.0;  // made behind the sum
        return Arrays{layer_norm(x, gamma, in[3])};
      },
      [](const Arrays& in) { return Arrays{layer_norm(in[0] + in[2], in[2], in[3])}; },
      [](const Arrays& in) {
        return Arrays{layer_norm(in[0] + in[2].expand_dims(0).broadcast_to({6, 8}), in[2], in[3])};
      },
      [](const Arrays& in) { return Arrays{layer_norm(in[0] + exp(in[0]), in[2], in[3])}; },  // one kernel as it is
      [](const Arrays& in) {
        return Arrays{layer_norm((in[0] + in[1].astype(float32)).reshape({8, 6}).reshape({6, 8}), in[2], in[3])};
      }};
  std::size_t i = 0;
  for (const SumOf& network : networks) {
    CAPTURE(i);
    CHECK(taken(traced(network)) == 0);
    ++i;
  }
  const Graph written = traced([](const Arrays& in) {
    const NDArray half = in[1] * 2.0, wide = half.astype(float32);
    half.slice(0, 0, 1).assign(1);  // behind its cast
    return Arrays{layer_norm(in[0] + wide, in[2], in[3]), half};
  });
  CHECK(of_halves(written) == 0);
  CHECK(taken(written) == 1);
}
