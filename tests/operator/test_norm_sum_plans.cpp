// The pass that adds up a residual stream's gradients beside layer norm's: what it takes along, and that bits stay.
#include <vector>

#include "tests/operator/norm_sums.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Tracer;

namespace {

using Stream = std::function<NDArray(const Arrays&)>;

/// x of `units`, gamma, beta, a weight in bfloat16 for products.
Arrays draw_stream(std::int64_t units, std::int64_t rows, Device device) {
  return {
      random_array({rows, units}, 1, -2, 2).to(device),
      random_array({units}, 2, -1, 2).to(device),
      random_array({units}, 3, -1, 1).to(device),
      random_array({units, units}, 4, -0.2, 0.2).astype(bfloat16).to(device)};
}

NDArray layer(const Arrays& in, const NDArray& x, bool centred, bool low = true) {
  const NDArray y = centred ? layer_norm(x, in[1], in[2]) : rms_norm(x, in[1]);
  const NDArray product = low ? matmul(y.astype(bfloat16), in[3]).astype(float32) : matmul(y, in[3].astype(float32));
  return x + product;
}
Stream layers(int count, bool centred, bool low = true) {
  return [=](const Arrays& in) {
    NDArray x = in[0] * 2.0;
    for (int i = 0; i < count; ++i)
      x = layer(in, x, centred, low);
    return centred ? layer_norm(x, in[1], in[2]) : rms_norm(x, in[1]);
  };
}

/// The result and the gradients of all inputs.
Arrays step_of(const Arrays& given, const Stream& stream) {
  Arrays in = given;
  for (NDArray& each : in) {
    each = each.detach();
    each.attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = stream(in);
  }
  Arrays made{y};
  for (NDArray& gradient : autograd::grad({&y, 1}, in, {}))
    made.push_back(gradient);
  return made;
}

Graph traced_step(const Arrays& like, const Stream& stream, Device device) {
  Tracer tracer;
  const Arrays in = abstract_inputs(tracer, like, device);
  return without_dead_code(without_repetitions(tracer.trace([&] { return step_of(in, stream); })));
}

Graph with_sums(const Arrays& like, const Stream& stream, Device device = gpu(0)) {
  const Graph made = with_norm_sums(with_norm_casts(traced_step(like, stream, device)));
  verify(made);
  return made;
}

std::int64_t adding(const Graph& graph) {
  return count(graph, "add_layer_norm_backward") + count(graph, "add_rms_norm_backward");
}
std::int64_t rounding(const Graph& graph) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node& node) {
    return node.op == &detail::add_layer_norm_backward_op && node.attributes.as<LayerAttributes>().result == bfloat16 &&
           node.results.size() == 4;
  });
}

}  // namespace

TEST_CASE("The gradients of a residual stream are added up beside layer norm's", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const Arrays in = draw_stream(8, 6, cpu());
  const Graph centred = with_sums(in, layers(3, true));
  CHECK(count(centred, "add_layer_norm_backward") == 3);
  CHECK(count(centred, "layer_norm_backward") == 1);  // the last one, to which nothing is added
  CHECK(rounding(centred) == 2);                      // the first one's goes to an input
  CHECK(count(with_sums(in, layers(3, false)), "add_rms_norm_backward") == 3);
  const Graph wide = with_sums(in, layers(3, true, false));
  CHECK(adding(wide) == 3);
  CHECK(rounding(wide) == 0);
  CHECK(adding(with_sums(in, layers(3, true), cpu())) == 0);
}

TEST_CASE("A sum whose norm has it as a parameter, too, stays apart", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const Arrays in{random_array({8}, 1, -2, 2), random_array({8}, 2, -2, 2)};
  const auto taken = [&](bool itself) {
    Tracer tracer;
    const Arrays given = abstract_inputs(tracer, in, gpu(0));
    const Graph made = with_norm_sums(without_dead_code(tracer.trace([&] {
      const NDArray sum = given[0] + given[1];
      return Arrays{layer_norm(sum, itself ? sum : given[0], given[1]), sum};
    })));
    verify(made);
    return count(made, "add_layer_norm");
  };
  CHECK(taken(false) == 1);
  CHECK(taken(true) == 0);
}

TEST_CASE("A sum is not written over an addend that is the norm's gamma, too", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const Arrays in{random_array({8}, 1, -2, 2), random_array({8}, 2, -2, 2)};
  const auto writes_over = [&](bool itself) {
    Tracer tracer;
    const Arrays given = abstract_inputs(tracer, in, gpu(0));
    const Graph made = with_norm_sums(without_dead_code(tracer.trace([&] {
      const NDArray parts = softmax(given[0]), sum = parts + given[1];
      return Arrays{layer_norm(sum, itself ? parts : given[0], given[1]), sum * 3};
    })));
    const auto norm = std::find_if(made.nodes.begin(), made.nodes.end(), [](const graph::Node& node) {
      return node.op == &detail::add_layer_norm_op;
    });
    REQUIRE(norm != made.nodes.end());
    const graph::MemoryPlan memory = graph::plan_memory(made, graph::values_apart(made), graph::Sharing::in_order);
    return memory.slot_of[norm->inputs[0]] == memory.slot_of[norm->results.back().value];
  };
  CHECK(writes_over(false));
  CHECK(!writes_over(true));
}

TEST_CASE("Rows that no registers hold keep their sums apart", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  const auto taken = [](std::int64_t units, std::int64_t rows) {
    return adding(with_sums(draw_stream(units, rows, cpu()), layers(2, true)));
  };
  CHECK(taken(4096, 1) == 2);
  CHECK(taken(4100, 1) == 0);
  CHECK(taken(6, 3) == 0);
  CHECK(taken(8, 0) == 0);
}

namespace {

/// What else may happen to dx, the other gradient and their sum.
enum class Case {
  plain,
  turned_round,
  written_before,
  written_between,
  sum_written,
  returned,
  read,
  twice,
  broadcast,
  spread,
  turned,
  reshaped,
  later,
  fails,
  halves,
  wide,
  cast_to_both,
  sum_returned,
  along_columns
};

NDArray other_of(Case which, const NDArray& given, const NDArray& row, const NDArray& places) {
  switch (which) {
    case Case::broadcast:
      return row * 2.0;
    case Case::spread:
      return (row * 2.0).reshape({1, 8}).broadcast_to({8, 8});
    case Case::turned:
      return (given * 2.0).transpose({1, 0});
    case Case::reshaped:
      return (given * 2.0).reshape({64}).reshape({8, 8});
    case Case::fails:
      return take(given, places, 0);
    default:
      return given * 2.0;
  }
}

Graph traced_case(Case which) {
  const DType dtype = which == Case::halves ? bfloat16 : which == Case::wide ? float64 : float32;
  const DType parameters = which == Case::wide ? float64 : float32;
  Tracer tracer;
  const ArraySpec rows{{8, 8}, dtype, gpu(0)}, row{{8}, parameters, gpu(0)};
  const NDArray x = tracer.input(rows), head = tracer.input(rows), given = tracer.input(rows);
  const NDArray gamma = tracer.input(row), mean = tracer.input(row), inv_std = tracer.input(row);
  const NDArray places = tracer.input({{8}, int32, gpu(0)});
  const Attributes how = Attributes::of(LayerAttributes{which == Case::along_columns ? 0 : 1, 1e-5});
  return with_norm_sums(tracer.trace([&] {
    NDArray other = other_of(which, given, gamma, places);
    if (which == Case::written_before)
      other += 1;
    const Arrays norm = invoke(detail::layer_norm_backward_op, Arrays{head, x, gamma, mean, inv_std}, how, {});
    if (which == Case::written_between)
      other.slice(0, 0, 1).assign(1);
    if (which == Case::later)
      other = exp(given);
    if (which == Case::twice)
      other = norm[0];
    NDArray sum = which == Case::turned_round ? other + norm[0] : norm[0] + other;
    if (which == Case::sum_written)
      sum += 1;
    Arrays results{norm[1], norm[2], exp(sum.astype(which == Case::halves ? float16 : bfloat16))};
    if (which == Case::cast_to_both)
      results.push_back(sum.astype(float16));
    if (which == Case::returned)
      results.push_back(norm[0]);
    if (which == Case::read)
      results.push_back(exp(norm[0]));
    results.push_back(which == Case::sum_returned ? sum : sum * 2.0);
    return results;
  }));
}

}  // namespace

TEST_CASE("What a residual stream's gradient cannot take along stays apart", "[graph][norm]") {
  SLUICE_NEEDS_GPU_KERNELS();
  struct Expected {
    Case which;
    std::int64_t sums, rounded;
  };
  const Expected all[] = {
      {Case::plain, 1, 1},
      {Case::turned_round, 1, 1},
      {Case::written_before, 1, 1},
      {Case::written_between, 0, 0},
      {Case::sum_written, 1, 0},
      {Case::returned, 0, 0},
      {Case::read, 0, 0},
      {Case::twice, 0, 0},
      {Case::broadcast, 0, 0},
      {Case::spread, 0, 0},
      {Case::turned, 0, 0},
      {Case::reshaped, 1, 1},
      {Case::later, 0, 0},
      {Case::fails, 0, 0},
      {Case::halves, 0, 0},
      {Case::wide, 0, 0},
      {Case::cast_to_both, 1, 1},
      {Case::sum_returned, 1, 1},
      {Case::along_columns, 0, 0}};
  for (const auto& [which, sums, rounded] : all) {
    CAPTURE(static_cast<int>(which));
    const Graph made = without_dead_code(traced_case(which));
    verify(made);
    CHECK(adding(made) == sums);
    CHECK(rounding(made) == rounded);
    CHECK(count(made, "layer_norm_backward") == 1 - sums);
  }
}

TEST_CASE("A residual stream on a GPU gives as a plan what it gives by hand", "[graph][norm][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const auto& [units, rows] : {std::pair{8, 6}, std::pair{200, 5}, std::pair{768, 3}, std::pair{6, 4}}) {
    for (const bool centred : {true, false}) {
      for (const bool low : {true, false}) {
        CAPTURE(units, rows, centred, low);
        const Arrays in = draw_stream(units, rows, gpu());
        const Stream stream = layers(3, centred, low);
        const auto want = all_bytes(step_of(in, stream));
        for (const bool in_order : {false, true}) {
          graph::Plan plan(traced_step(in, stream, gpu()), {.share_in_order = in_order});
          CHECK(adding(plan.graph()) == (units == 6 ? 0 : 3));
          for (int run = 0; run < 2; ++run)
            CHECK((all_bytes(plan.run(in)) == want));
        }
      }
    }
  }
}
