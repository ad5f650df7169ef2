// The pass that lets reductions take in what elementwise calls give: which it joins, which it must not.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <sluice/operator/graph/flops.h>
#include <sluice/operator/graph/svg.h>

#include "tests/operator/reduction_graphs.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Tracer;

TEST_CASE("A reduction takes in the chain, or the one call, that it alone reads", "[fusion][reduction]") {
  CHECK(nodes_after({spec({40, 300}), spec({300}), spec({40, 1})}, [](const auto& in) {
          return Arrays{sum(relu((in[0] * 2.0 + in[1]) * in[2]), {1}, true)};
        }) == Names{"reduced(multiply, add, multiply, relu, sum)"});
  CHECK(nodes_after({spec({40, 30})}, [](const auto& in) {
          return Arrays{mean(square(in[0]))};
        }) == Names{"reduced(square, mean)"});
  CHECK(nodes_after({spec({90, 30}, float16)}, [](const auto& in) {
          return Arrays{variance(in[0].astype(float32), {0}, false, 1)};
        }) == Names{"reduced(astype, variance)"});
  CHECK(nodes_after({spec({700}), spec({700})}, [](const auto& in) {
          return Arrays{all(abs(in[0] - in[1]) < 0.5)};
        }) == Names{"reduced(subtract, abs, less, all)"});
  // Integers are cast for a mean square distance, which is one call more.
  CHECK(nodes_after({spec({90, 70}, int32)}, [](const auto& in) {
          return Arrays{variance(in[0] * 3)};
        }) == Names{"reduced(multiply, astype, variance)"});
}

TEST_CASE("Of a node of several results each reduction takes its own calls", "[fusion][reduction]") {
  CHECK(nodes_after({spec({700}), spec({700})}, [](const auto& in) {
          return Arrays{all(abs(in[0] - in[1]) < 0.5), any(isnan(in[0])), count_nonzero(in[0] > 1)};
        }) == Names{"reduced(subtract, abs, less, all)", "reduced(isnan, any)", "reduced(greater, count_nonzero)"});
  CHECK(nodes_after({spec({40, 70}), spec({40, 70})}, [](const auto& in) {
          return Arrays{exp(in[0] * in[1]), sum(square(in[0]), {0})};
        }) == Names{"fused(multiply, exp)", "reduced(square, sum)"});
  // Not what two results have in common, nor what would read more again than it saves.
  CHECK(nodes_after({spec({40, 70})}, [](const auto& in) {
          const NDArray common = exp(in[0]);
          return Arrays{sum(common * 2.0), common + 1.0};
        }) == Names{"fused(exp, multiply, add)", "sum"});
  CHECK(nodes_after({spec({40, 70}), spec({40, 70}), spec({40, 70})}, [](const auto& in) {
          return Arrays{in[0] * in[1] + in[2], sum(in[0] - in[1] * in[2])};
        }) == Names{"fused(multiply, add, multiply, subtract)", "sum"});
}

TEST_CASE("Of no elements too, with rows of all sizes", "[fusion][reduction]") {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{0}, Shape{0, 64}, Shape{64, 0}, Shape{3, 64}, Shape{3, 9000}}) {
    for (const Shape& axes : sets_of_axes(shape.ndim())) {
      CHECK(
          has_reduced(nodes_after({spec(shape)}, [&](const auto& in) { return Arrays{sum(exp(in[0]) * 0.5, axes)}; })));
    }
  }
}

TEST_CASE("What others read or get stays an array", "[fusion][reduction]") {
  CHECK_FALSE(has_reduced(nodes_after({spec({40, 70})}, [](const auto& in) {
    const NDArray made = exp(in[0]) * 0.5;
    return Arrays{sum(made), made};
  })));
  CHECK_FALSE(has_reduced(nodes_after({spec({40, 70})}, [](const auto& in) {
    const NDArray made = exp(in[0]) * 0.5;
    return Arrays{sum(made, {0}), max(made, {1})};
  })));
  CHECK_FALSE(has_reduced(nodes_after({spec({40, 70})}, [](const auto& in) {
    const NDArray made = exp(in[0]) * 0.5;
    return Arrays{softmax(made), mean(made)};
  })));
  // A view of it, and one of several results.
  CHECK_FALSE(has_reduced(
      nodes_after({spec({40, 70})}, [](const auto& in) { return Arrays{sum((exp(in[0]) * 0.5).slice(0, 1, 30))}; })));
  CHECK(nodes_after({spec({40, 70})}, [](const auto& in) {
          const NDArray first = exp(in[0]), second = first * 0.5;
          return Arrays{sum(second), first};
        }) == Names{"fused(exp, multiply)", "sum"});
  // Of whom only the shape is looked at may go.
  CHECK(nodes_after({spec({40, 70}), spec({70})}, [](const auto& in) {
          const NDArray made = exp(in[0]) * 0.5;
          return Arrays{
              sum(made),
              invoke(*find_operator("broadcast_like"), Arrays{in[1], made}, {}, SourceLocation::current())[0] + 0.0};
        }).front() == "reduced(exp, multiply, sum)");
}

TEST_CASE("Places, and results that lie between in short runs, stay apart", "[fusion][reduction]") {
  CHECK_FALSE(
      has_reduced(nodes_after({spec({40, 70})}, [](const auto& in) { return Arrays{argmax(in[0] * 2.0, 1)}; })));
  const auto reduces = [](const Shape& shape, const Shape& axes) {
    return has_reduced(nodes_after({spec(shape)}, [&](const auto& in) { return Arrays{sum(exp(in[0]), axes)}; }));
  };
  CHECK(reduces({9, 5, 64}, {0, 2}));
  CHECK_FALSE(reduces({9, 5, 63}, {0, 2}));
  CHECK(reduces({9, 16, 4}, {1}));
  CHECK_FALSE(reduces({9, 21, 3}, {1}));
  CHECK(reduces({1, 21, 3}, {1}));
  CHECK(reduces({21, 3}, {0}));
  CHECK(reduces({9, 3}, {1}));
  CHECK(reduces({9, 3, 2}, {1, 2}));
  CHECK(reduces({2, 3, 2, 70}, {0, 2}));
  CHECK_FALSE(reduces({2, 3, 2, 7}, {0, 2}));
}

TEST_CASE("What is written in between, or by the reduction itself, is not read too late", "[fusion][reduction]") {
  // The chain reads before, the reduction stands behind the write.
  nodes_after({spec({8, 70}), spec({8, 70})}, [](const auto& in) {
    NDArray target = softmax(in[0]);
    const NDArray before = exp(target) * 2.0;
    target += in[1];
    return Arrays{sum(before), target};
  });
  // What the sum is written to is a factor of its terms.
  const NDArray kept = random_array({70}, 3), wanted = kept.copy();
  const Graph graph = traced({spec({80, 70})}, [&](const auto& in) {
    const NDArray sums = sum(in[0] * kept, {0});
    copy_into(sums, kept);
    return Arrays{};
  });
  const NDArray given = random_array({80, 70}, 4);
  CHECK_FALSE(has_reduced(nodes_of(optimised(graph))));
  Plan plan(graph);
  for (int run = 0; run < 2; ++run) {
    plan.run({&given, 1});
    copy_into(sum(given * wanted, {0}), wanted);
  }
  CHECK(bits_of(kept) == bits_of(wanted));
}

TEST_CASE("A gradient that is a sum goes straight to where it is kept", "[fusion][reduction]") {
  const NDArray kept = zeros({70});
  const Graph graph = traced({spec({90, 70})}, [&](const auto& in) {
    copy_into(sum(relu(in[0]) * 0.5, {0}), kept);
    return Arrays{};
  });
  CHECK(nodes_of(optimised(graph)) == Names{"reduced(relu, multiply, sum)"});
  const NDArray given = random_array({90, 70}, 1);
  Plan plan(graph);
  plan.run({&given, 1});
  plan.run({&given, 1});
  CHECK(bits_of(kept) == bits_of(sum(relu(given) * 0.5, {0})));
}

TEST_CASE("What never changes is worked out once, as before", "[fusion][reduction]") {
  const NDArray constant = random_array({40, 70}, 1);
  const auto body = [&](const auto& in) { return Arrays{in[0] * mean(exp(constant), {0})}; };
  const Graph graph = traced({spec({70})}, body);
  CHECK(has_reduced(nodes_of(optimised(graph))));
  const NDArray given = random_array({70}, 2);
  Plan plan(graph);
  for (int run = 0; run < 3; ++run) {
    CHECK(bits_of_all(plan.run({&given, 1})) == bits_of_all(Arrays{given * mean(exp(constant), {0})}));
    copy_into(constant * 0.5, constant);
  }
  // Kept between runs by itself, while its sum is the caller's each time.
  const Graph given_out = traced({}, [&](const auto&) { return Arrays{sum(exp(constant))}; });
  CHECK_FALSE(has_reduced(nodes_of(optimised(given_out))));
}

TEST_CASE("Where the parts treat denormals in different ways they stay apart", "[fusion][reduction]") {
  const auto of_float32 = [](const Body& body) { return has_reduced(nodes_after({spec({300})}, body)); };
  const auto of_float64 = [](const Body& body) { return has_reduced(nodes_after({spec({300}, float64)}, body)); };
  CHECK_FALSE(of_float32([](const auto& in) { return Arrays{count_nonzero(in[0].astype(float64))}; }));
  CHECK_FALSE(of_float64([](const auto& in) { return Arrays{sum(in[0].astype(float32))}; }));
  CHECK_FALSE(of_float64([](const auto& in) { return Arrays{any(in[0] > 1e-310)}; }));
  CHECK(of_float64([](const auto& in) { return Arrays{sum(in[0] * 1e-310)}; }));
  CHECK(of_float64([](const auto& in) { return Arrays{any(in[0] * 1e-310)}; }));
  CHECK(of_float32([](const auto& in) { return Arrays{sum(in[0] * 1e-38)}; }));
  CHECK(of_float32([](const auto& in) { return Arrays{any(in[0] * 1e-38)}; }));
}

TEST_CASE("Texts and pictures show what is computed, and the count stays", "[fusion][reduction]") {
  const Graph graph = traced(
      {spec({4, 100}), spec({4, 100})}, [](const auto& in) { return Arrays{l2_norm(clip(in[0] * in[1], 0, 6), {1})}; });
  const Graph fused = optimised(graph);
  REQUIRE(nodes_of(fused) == Names{"reduced(multiply, clip, l2_norm)"});
  const std::string text = to_text(fused), dot = to_dot(fused), svg = to_svg(fused);
  CAPTURE(text, dot, svg);
  CHECK(
      text.find("= fused_reduction(%0, %1) {t0 = multiply(%0, %1); t1 = clip(t0) {low=0, high=6}; "
                "%4 = l2_norm(t1) {axes=(1,), keepdims=false}}") != std::string::npos);
  CHECK(text.find("test_fused_reductions_pass.cpp:") != std::string::npos);
  CHECK(dot.find("fused: multiply, clip, l2_norm") != std::string::npos);
  CHECK(svg.find("fused: multiply, clip, l2_norm") != std::string::npos);
  CHECK(flops(graph) == 4 * 400);
  CHECK(flops(fused) == flops(graph));
  const Graph moments =
      traced({spec({30}), spec({7, 30})}, [](const auto& in) { return Arrays{variance(in[0] + in[1], {0})}; });
  CHECK(flops(optimised(moments)) == flops(moments));
}

TEST_CASE("Random programs with reductions give as plans what they give by hand", "[fusion][reduction]") {
  int reduced = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    const RandomProgram program(31000 + seed, cpu());
    const Body body = [&](const std::vector<NDArray>& in) {
      const Arrays made = program.run({in.begin(), in.end()});
      Arrays ends;
      const auto rows = reduction_cases();
      for (std::size_t i = 0; i < made.size(); ++i) {
        const ReductionCase& row = rows[(seed + 5 * i) % rows.size()];
        const Shape axes = sets_of_axes(2)[(seed + i) % 3];
        const NDArray x = made[i] * 0.5 + in[0];
        ends.push_back(x.size() == 0 && !row.takes_nothing ? x : row.run(x, axes, seed % 2 == 0));
      }
      return ends;
    };
    CAPTURE(seed);
    const Names names = nodes_of(graph_of_runs(program, body));
    reduced += static_cast<int>(
        std::count_if(names.begin(), names.end(), [](const std::string& name) { return name.starts_with("reduced"); }));
  }
  CHECK(reduced > 150);
}
