// Graphs and memory plans as SVG: what the pictures show is what there is.
#include <algorithm>
#include <cstdint>
#include <regex>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/memory_plan.h>

#include "tests/operator/random_program.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Tracer;
using graph::ValueId;

namespace {

Graph traced(unsigned seed) {
  const RandomProgram program(seed, cpu());
  Tracer tracer;
  Arrays inputs;
  for (const NDArray& input : program.inputs())
    inputs.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  return optimised(tracer.trace([&] { return program.run(inputs); }));
}

graph::MemoryPlan planned(const Graph& graph) {
  return plan_memory(graph, std::vector<bool>(graph.values.size()));
}

/// A rectangle of a picture.
struct Drawn {
  std::int64_t x, y, width, height;
  std::string fill, title;

  bool overlaps(const Drawn& other) const {
    return x < other.x + other.width && other.x < x + width && y < other.y + other.height && other.y < y + height;
  }
};

std::vector<Drawn> rectangles(const std::string& svg) {
  static const std::regex form(
      R"re(<rect x="(-?\d+)" y="(-?\d+)" width="(-?\d+)" height="(-?\d+)" rx="\d+" fill="([^"]*)"[^>]*><title>([^<]*)<)re");
  std::vector<Drawn> all;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), form); at != std::sregex_iterator(); ++at) {
    const std::smatch& m = *at;
    all.push_back({std::stol(m[1]), std::stol(m[2]), std::stol(m[3]), std::stol(m[4]), m[5], m[6]});
  }
  return all;
}

bool any_overlap(const std::vector<Drawn>& drawn) {
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    for (std::size_t j = i + 1; j < drawn.size(); ++j) {
      if (drawn[i].overlaps(drawn[j]))
        return true;
    }
  }
  return false;
}

std::size_t results_with_memory(const Graph& graph) {
  std::size_t count = 0;
  for (const graph::Node& node : graph.nodes) {
    for (const graph::Result& result : node.results)
      count += result.made && !node.is_view() ? 1 : 0;
  }
  return count;
}

// Elements open and close in turn, attributes have quotes, and nothing else needs escaping.
bool is_well_formed(const std::string& svg) {
  static const std::regex tag(R"re(<(/?)(\w+)((?: [\w:-]+="[^"<&]*(?:&\w+;[^"<&]*)*")*)(/?)>)re");
  static const std::regex bare("&(?!\\w+;)");
  std::vector<std::string> open;
  std::size_t end = 0;
  for (auto at = std::sregex_iterator(svg.begin(), svg.end(), tag); at != std::sregex_iterator(); ++at) {
    const std::smatch& m = *at;
    const std::string between = svg.substr(end, static_cast<std::size_t>(m.position()) - end);
    if (between.find_first_of("<>") != std::string::npos || std::regex_search(between, bare))
      return false;
    end = static_cast<std::size_t>(m.position() + m.length());
    if (m[1].length() > 0) {
      if (open.empty() || open.back() != m[2].str())
        return false;
      open.pop_back();
    } else if (m[4].length() == 0) {
      open.push_back(m[2]);
    }
  }
  return open.empty() && svg.find_first_not_of('\n', end) == std::string::npos && svg.starts_with("<svg ");
}

}  // namespace

TEST_CASE("A picture of a graph has a box for each node, and none lies on another", "[graph][svg]") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const Graph graph = traced(seed);
    const std::string svg = to_svg(graph);
    CHECK(is_well_formed(svg));
    const std::vector<Drawn> drawn = rectangles(svg);
    CHECK_FALSE(any_overlap(drawn));
    const auto is_node = [](const Drawn& one) { return one.fill == "#ddf4ff"; };
    CHECK(std::count_if(drawn.begin(), drawn.end(), is_node) == static_cast<std::ptrdiff_t>(graph.nodes.size()));
    CHECK(drawn.size() >= graph.nodes.size() + graph.outputs.size());
    for (const Drawn& one : drawn)
      CHECK((one.x >= 0 && one.y >= 0));
  }
}

TEST_CASE("A picture of a graph escapes what XML would misread, and tells each node's attributes", "[graph][svg]") {
  Tracer tracer;
  const NDArray x = tracer.input({{4, 3}, float32, cpu()});
  const NDArray weight = full({2, 3}, 1.0f);
  const SourceLocation odd{"a<b>&\"c\".cpp", 7};
  const Graph graph = tracer.trace([&] { return Arrays{dense(x, weight, {}, {.flatten = false}), less(x, 2.0, odd)}; });
  const std::string svg = to_svg(graph);
  CHECK(is_well_formed(svg));
  CHECK(svg.find("dense {flatten=false, relu=false}, ") != std::string::npos);
  CHECK(svg.find("test_graph_pictures.cpp") != std::string::npos);
  CHECK(svg.find("a&lt;b&gt;&amp;&quot;c&quot;.cpp:7") != std::string::npos);
  CHECK(svg.find("constant @") != std::string::npos);
  std::string spoilt = svg;  // the check sees faults
  spoilt[svg.find("input %")] = '<';
  CHECK_FALSE(is_well_formed(spoilt));
  spoilt[svg.find("input %")] = '&';
  CHECK_FALSE(is_well_formed(spoilt));
  CHECK_FALSE(is_well_formed(message(svg, "<b>")));
}

TEST_CASE("What an update alone reads is one oval, and gradients come from their nodes", "[graph][svg]") {
  std::vector<NDArray> weights, gradients;
  for (int i = 0; i < 9; ++i) {
    weights.push_back(zeros({2}));
    gradients.push_back(zeros({2}));
  }
  Tracer tracer;
  const NDArray x = tracer.input({{2}, float32, cpu()});
  const Graph graph = tracer.trace([&] {
    for (const NDArray& gradient : gradients)
      copy_into(x * 2.0, gradient);
    sgd_update(weights, gradients, {}, {});
    return Arrays{};
  });
  const std::string svg = to_svg(with_direct_writes(graph));
  CHECK(svg.find(">9 constants<") != std::string::npos);
  CHECK(svg.find(">constant @") == std::string::npos);
}

TEST_CASE("A picture of a memory plan shows each result once, and no two at one time in one place", "[graph][svg]") {
  std::size_t shared = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    const Graph graph = traced(seed);
    const graph::MemoryPlan plan = planned(graph);
    const std::string svg = memory_to_svg(graph, plan);
    CHECK(is_well_formed(svg));
    const std::vector<Drawn> drawn = rectangles(svg);
    CHECK(drawn.size() == results_with_memory(graph));
    CHECK_FALSE(any_overlap(drawn));
    shared += drawn.size() - plan.slots.size();
  }
  CHECK(shared > 100);
}

TEST_CASE("A plan in which values that live together share memory shows", "[graph][svg]") {
  Tracer tracer;
  const NDArray x = tracer.input({{100}, float32, cpu()});
  const Graph graph = tracer.trace([&] {
    const NDArray a = sin(x), b = cos(x);
    return Arrays{a + b};
  });
  graph::MemoryPlan plan = planned(graph);
  CHECK_FALSE(any_overlap(rectangles(memory_to_svg(graph, plan))));
  for (auto& slot : plan.slot_of) {
    if (slot)
      slot = 0;
  }
  CHECK(any_overlap(rectangles(memory_to_svg(graph, plan))));
}

TEST_CASE("A memory plan's picture is as high as there are bytes, and says how long results are kept", "[graph][svg]") {
  Tracer tracer;
  const NDArray x = tracer.input({{300}, float32, cpu()});
  const Graph graph = tracer.trace([&] { return Arrays{softmax(concat({x, x, x})), log_softmax(x)}; });
  std::vector<bool> apart(graph.values.size());
  apart[graph.nodes[1].results[0].value] = true;
  const std::vector<Drawn> drawn = rectangles(memory_to_svg(graph, plan_memory(graph, apart)));
  REQUIRE(drawn.size() == 3);
  const auto of = [&](const char* op) {
    return *std::find_if(drawn.begin(), drawn.end(), [&](const Drawn& one) {
      return one.title.find(message('(', op, ')')) != std::string::npos;
    });
  };
  CHECK(of("softmax").height == of("concat").height);
  CHECK(std::abs(of("softmax").height - 3 * of("log_softmax").height) <= 3);
  CHECK(of("softmax").fill != of("concat").fill);  // it has memory of its own
  CHECK(
      of("concat").title.find("3.5 KiB on cpu(0): made by node 0 (concat), used last by node 1") != std::string::npos);
  CHECK(of("softmax").title.ends_with("kept"));
}

TEST_CASE("A fused node says in pictures what it calls, and its kernel has a source", "[graph][svg]") {
  Tracer tracer;
  Arrays x;
  for (int i = 0; i < 6; ++i)
    x.push_back(tracer.input({{4, 3}, float32, cpu()}));
  const Graph graph = with_fused_pointwise(tracer.trace([&] {
    return Arrays{tanh(x[0] * 2.0 + x[1]), tanh(x[2] * 3.0 + x[3]), exp(x[4] - x[5])};
  }));
  const std::string svg = to_svg(graph);
  CHECK(is_well_formed(svg));
  CHECK(svg.find(">fused: multiply, add, tanh<") != std::string::npos);
  CHECK(svg.find("= tanh(") != std::string::npos);
  const std::vector<graph::FusedKernel> kernels = fused_kernels(graph);
  REQUIRE(kernels.size() == 2);  // those that differ in a number share one
  CHECK(kernels[0].calls == "multiply, add, tanh");
  CHECK(kernels[0].nodes.size() == 2);
  CHECK(kernels[0].problem.empty());
  CHECK(kernels[0].source.find("Unary::tanh") != std::string::npos);
  CHECK(kernels[1].calls == "subtract, exp");
  CHECK(fused_kernels(Graph()).empty());
}

TEST_CASE("An empty graph has pictures too", "[graph][svg]") {
  CHECK(is_well_formed(to_svg(Graph())));
  CHECK(is_well_formed(memory_to_svg(Graph(), planned(Graph()))));
}
