// Indexing in graphs: what is traced gives what it gives by hand, gradients too, and serves batches of other sizes.
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/indexing_cases.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<DifferentiableCase> cases() {
  std::vector<DifferentiableCase> made;
  sluice::test::case_parts::add_index_arrays(made);
  sluice::test::case_parts::add_subscripts(made);
  sluice::test::case_parts::add_mixed_subscripts(made);
  sluice::test::case_parts::add_sequences(made);
  return made;
}

/// The result and its gradients.
Arrays step(const DifferentiableCase& c, const Arrays& given) {
  std::vector<NDArray> inputs;
  for (const NDArray& each : given) {
    inputs.push_back((-(-each)).detach());
    inputs.back().attach_grad();
  }
  NDArray y;
  {
    const autograd::RecordScope record;
    y = c.f(inputs);
  }
  Arrays made{y};
  for (const NDArray& gradient : autograd::grad({&y, 1}, inputs, {}))
    made.push_back(gradient);
  return made;
}

void check_traced(const DifferentiableCase& c, DType dtype, Device device) {
  CAPTURE(c.name, dtype);
  Arrays inputs, given;
  graph::Tracer tracer;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    inputs.push_back(random_array(c.shapes[i], 7 + i, c.low, c.high, dtype).to(device));
    given.push_back(tracer.input({c.shapes[i], dtype, device}));
  }
  const Arrays by_hand = step(c, inputs);
  const graph::Graph traced = tracer.trace([&] { return step(c, given); });
  for (const bool optimise : {false, true}) {
    graph::Plan plan(traced, {.optimise = optimise});
    for (int run = 0; run < 2; ++run)
      CHECK((all_bytes(plan.run(inputs), true) == all_bytes(by_hand, true)));
  }
}

}  // namespace

TEST_CASE("Indexing as a graph gives what it gives by hand, to the last bit", "[indexing][graph]") {
  for (const DifferentiableCase& c : cases()) {
    for (const DType dtype : {float32, float16})
      check_traced(c, dtype, cpu());
  }
}

TEST_CASE("Indexing as a graph on a GPU gives what it gives by hand", "[indexing][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DifferentiableCase& c : cases())
    check_traced(c, float32, gpu());
}

TEST_CASE("Nothing is named in graphs as by hand", "[indexing][graph]") {
  using Program = std::function<NDArray(const NDArray&)>;
  const NDArray none = zeros({0}, {.dtype = int32}), row = random_array({1, 3}, 2);
  const std::vector<std::pair<std::string, Program>> programs = {
      {"taken of a row", [=](const NDArray& x) { return take_along_axis(row, x.slice(1, 0, 0).astype(int32), 1); }},
      {"taken along",
       [=](const NDArray& x) {
         return take_along_axis(x, none.reshape({1, 0}), 1);
       }},
      {"put", [=](const NDArray& x) { return index_update(x, {none}, full({}, 1), 1); }},
      {"put into nothing", [=](const NDArray& x) { return index_update(x.slice(1, 0, 0), {none}, full({}, 1), 1); }},
      {"put into nothing by two",
       [=](const NDArray& x) {
         return index_update(x.slice(1, 0, 0).expand_dims(2), {none, none}, full({}, 1), 1);
       }},
  };
  const Arrays inputs{random_array({4, 3}, 1)};
  for (const auto& [name, f] : programs) {
    CAPTURE(name);
    graph::Tracer tracer;
    const NDArray x = tracer.input({{4, 3}, float32, cpu()});
    graph::Plan plan(tracer.trace([&] { return Arrays{f(x)}; }));
    const Arrays made = plan.run(inputs), by_hand{f(inputs[0])};
    CHECK(made[0].shape() == by_hand[0].shape());
    CHECK((all_bytes(made, true) == all_bytes(by_hand, true)));
  }
}

TEST_CASE("Values that do not fit are refused in graphs by the name of what was called", "[indexing][graph]") {
  const NDArray some = array<int>({2, 0}), few = random_array({5}, 1);
  for (const bool masked : {false, true}) {
    graph::Tracer tracer;
    const NDArray x = tracer.input({{4, 3}, float32, cpu()});
    const std::string said = masked ? "masked_fill: an array of shape (5,)" : "index_update: an array of shape (5,)";
    const auto refused = [&] {
      return Arrays{masked ? masked_fill(x, x > 1.0, few) : index_update(x, {some}, few, 1)};
    };
    CHECK_THROWS_WITH(tracer.trace(refused), sluice::test::contains(said));
  }
}

TEST_CASE("Calls of indexing keep no extent of the batch", "[indexing][graph]") {
  using Program = std::function<NDArray(const NDArray&)>;
  const NDArray columns = array<int>({2, 0, 2}), other = array<int>({1, 4, 1});
  const std::vector<std::pair<std::string, Program>> programs = {
      {"take",
       [=](const NDArray& x) {
         return take(x, {columns, other}, 1);
       }},
      {"index_add", [=](const NDArray& x) { return index_add(x, {columns}, x * 2, 1); }},
      {"index_update",
       [=](const NDArray& x) {
         return index_update(x, {columns, other}, x.slice(2, 0, 1).reshape({-1, 3}), 1);
       }},
      {"mixed",
       [=](const NDArray& x) {
         const NDArray y = index_update(x, {{}, columns, {1, 3}}, x.slice(2, 0, 2));
         return index_add(y, {{}, columns, k_new_axis, other}, y[{{}, columns, k_new_axis, other}]);
       }},
      {"along", [](const NDArray& x) { return take_along_axis(x, argsort(x.detach(), 1), 1); }},
      {"put along", [](const NDArray& x) { return put_along_axis(x, argsort(x.detach(), 0), x * 2, 0); }},
      {"view",
       [](const NDArray& x) {
         return x[{{}, 1, {{}, {}, -2}}];
       }},
      {"sequence",
       [](const NDArray& x) {
         return sequence_mask(x, argmax(x.detach()[{k_rest, 0}], 1), 0, 1);
       }},
  };
  for (const auto& [name, f] : programs) {
    CAPTURE(name);
    std::string texts[2];
    for (const std::int64_t batch : {4, 6}) {
      graph::Tracer tracer;
      const NDArray x = tracer.input({{batch, 3, 5}, float32, cpu()});
      const graph::Graph traced = tracer.trace([&] {
        NDArray variable = x.detach();
        variable.attach_grad();
        const autograd::RecordScope record;
        const NDArray y = f(variable);
        return Arrays{y, autograd::grad({&y, 1}, {&variable, 1}, {})[0]};
      });
      for (const graph::Node& node : traced.nodes) {
        for (const NamedValue& value : node.attributes.values())
          texts[batch == 4 ? 0 : 1] += message(node.op->name, ' ', value.name, '=', to_string(value.value), '\n');
      }
    }
    CHECK(texts[0] == texts[1]);
    CHECK(texts[0] != "");
  }
}
