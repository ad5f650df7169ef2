// Random programs of what passes put together, batch norm and relu, layer norm and casts, a loss and its gradient, with
// writes in place between them: a plan gives what the calls give by hand.
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>

#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;

namespace {

Arrays call(const std::string& name, const Arrays& inputs, const std::string& attributes = "") {
  const Operator& op = *find_operator(name);
  return invoke(op, inputs, parse_attributes(op, attributes), SourceLocation::current());
}

const Shape k_shape{6, 8};

/// What a program reads beside its inputs, and what it moves: those of batch norm.
struct Parameters {
  NDArray gamma, beta, labels, heads, mean, var;

  explicit Parameters(Device device)
      : gamma(random_array({8}, 1, -2, 2).to(device)),
        beta(random_array({8}, 2, -1, 1).to(device)),
        labels(random_array({6}, 3, 0, 7.9).astype(int32).to(device)),
        heads(random_array({6}, 4, -1, 1).to(device)),
        mean(zeros({8}, {.device = device})),
        var(zeros({8}, {.device = device})) {}

  void reset() {
    mean.assign(0.5);
    var.assign(2);
  }
};

/// One run of a program: the same calls whenever it is given the same seed.
class Run {
 public:
  Run(const Parameters& parameters, unsigned seed, const Arrays& inputs) : p_(parameters), draw_(seed) {
    for (const NDArray& input : inputs)
      known_.push_back(input * 1.5);
  }

  Arrays go() {
    for (std::size_t steps = 6 + draw(12); steps > 0; --steps)
      step(draw(9));
    Arrays outputs{known_.back() * 0.5};
    for (const NDArray& each : aside_) {
      if (draw(2) == 0)
        outputs.push_back(each);
    }
    for (const NDArray& each : known_) {
      if (draw(5) == 0)
        outputs.push_back(each);
    }
    return outputs;
  }

 private:
  struct Norm {
    NDArray x;
    Arrays made;
    NDArray y;  // behind the relu
  };

  std::size_t draw(std::size_t many) { return draw_() % many; }
  NDArray pick() {
    return known_[known_.size() - 1 - draw(std::min<std::size_t>(draw(3) == 0 ? known_.size() : 3, known_.size()))];
  }
  // Now and then, one of them or a part of it.
  void write(const std::vector<NDArray>& some) {
    NDArray to = some[draw(some.size())];
    if (draw(2) != 0)
      return;
    if (draw(2) == 0)
      to += 0.125;
    else
      to.slice(0, 2, 4).assign(0.25);
  }

  void step(std::size_t kind) {
    if (kind == 0)
      known_.push_back(pick() + pick());
    else if (kind == 1)
      batch_norm();
    else if ((kind == 2 || kind == 7) && !norms_.empty())
      batch_norm_backward();
    else if (kind == 3)
      layer_norm();
    else if ((kind == 4 || kind == 8) && !layers_.empty())
      layer_norm_backward();
    else if (kind == 5)
      loss();
    else if (kind == 6)
      write({pick()});
  }

  void batch_norm() {
    Norm norm{pick(), {}, {}};
    norm.made = call("batch_norm", {norm.x, p_.gamma, p_.beta, p_.mean, p_.var}, "axis=1");
    NDArray y = norm.made[0];
    NDArray other = pick();
    if (draw(4) == 0)
      other = other * 0.5;
    const std::size_t form = draw(4);
    if (form == 0) {
      write({other, y});
      y = draw(2) == 0 ? other + y : y + other;
    }
    if (form != 1)
      y = relu(y);
    if (draw(4) == 0)
      known_.push_back(norm.made[0]);
    known_.push_back(y);
    if (form == 1)
      return;
    norm.y = y;
    norms_.push_back(norm);
  }

  void batch_norm_backward() {
    const Norm norm = norms_[draw(norms_.size())];
    const NDArray head = draw(2) == 0 ? pick() * 0.5 : pick() + pick();
    if (draw(4) == 0)
      write({norm.x, norm.y});
    const NDArray masked = call("relu_backward", {head, head, norm.y})[0];
    write({head});
    aside_.push_back(head);  // or nobody would want what was written
    const Arrays grads = call("batch_norm_backward", {masked, norm.x, p_.gamma, norm.made[1], norm.made[2]}, "axis=1");
    if (draw(4) == 0)
      known_.push_back(masked);
    known_.push_back(grads[0]);
    aside_.insert(aside_.end(), grads.begin() + 1, grads.end());
  }

  void layer_norm() {
    Norm norm{draw(2) == 0 ? pick() : stream(), {}, {}};
    norm.made = call("layer_norm", {norm.x, p_.gamma, p_.beta}, "axis=1");
    layers_.push_back(norm);
    const NDArray half = norm.made[0].astype(bfloat16);
    write({norm.made[0], half});
    if (draw(3) == 0)
      aside_.push_back(half);
    known_.push_back(half.astype(float32));
  }

  NDArray stream() {
    const NDArray other = pick(), half = (pick() * 0.5).astype(bfloat16);
    write({half});
    aside_.push_back(half);
    const NDArray wide = draw(3) == 0 ? pick() : half.astype(float32);
    write({other, half, wide});
    const NDArray sum = draw(2) == 0 ? wide + other : other + wide;
    write({sum, half});
    known_.push_back(sum);
    return sum;
  }

  void layer_norm_backward() {
    const Norm norm = layers_[draw(layers_.size())];
    const NDArray half = (pick() * 0.5).astype(bfloat16);
    const NDArray head = draw(3) == 0 ? half.reshape({48}).reshape(k_shape).astype(float32) : half.astype(float32);
    write({half});
    aside_.push_back(half);
    const Arrays grads = call("layer_norm_backward", {head, norm.x, p_.gamma, norm.made[1], norm.made[2]}, "axis=1");
    known_.push_back(draw(2) == 0 ? grads[0] : added_to(grads[0]));
    aside_.push_back(grads[1]);
  }

  NDArray added_to(const NDArray& dx) {
    const NDArray other = pick();
    write({other, dx});
    const NDArray sum = draw(2) == 0 ? dx + other : other + dx;
    write({sum, other});
    aside_.push_back(sum.astype(bfloat16));
    return sum;
  }

  void loss() {
    const NDArray logits = draw(2) == 0 ? pick() : pick() * 2.0;
    const Arrays made = call("softmax_cross_entropy", {logits, p_.labels}, "axis=1");
    write({logits, pick()});
    if (draw(2) == 0)
      known_.push_back(tanh(pick() + made[0].expand_dims(1)));
    const NDArray heads = draw(2) == 0 ? p_.heads : p_.heads * made[0];
    known_.push_back(call("softmax_cross_entropy_backward", {logits, p_.labels, made[1], heads}, "axis=1")[0]);
    aside_.push_back(made[0]);
    if (draw(4) == 0)
      known_.push_back(logits + 1.0);
  }

  const Parameters& p_;
  std::mt19937 draw_;
  std::vector<NDArray> known_;  // of k_shape, float32
  std::vector<NDArray> aside_;
  std::vector<Norm> norms_, layers_;
};

/// How often a plan makes each call.
using Counts = std::map<std::string, int>;

void check_program(unsigned seed, Device device, Counts& counts) {
  CAPTURE(seed);
  Parameters parameters(device);
  const Arrays inputs{
      random_array(k_shape, seed + 1, -2, 2).to(device), random_array(k_shape, seed + 2, -2, 2).to(device)};
  const auto bytes = [&](const auto& run) {
    parameters.reset();
    Arrays all = run();
    all.insert(all.end(), {parameters.mean, parameters.var});
    return all_bytes(all, true);
  };
  const auto wanted = bytes([&] { return Run(parameters, seed, inputs).go(); });
  graph::Tracer tracer;
  const Arrays given{tracer.input({k_shape, float32, device}), tracer.input({k_shape, float32, device})};
  const Graph graph = without_dead_code(tracer.trace([&] { return Run(parameters, seed, given).go(); }));
  for (const graph::PlanOptions& options : {graph::PlanOptions{}, {.share_in_order = true}, {.memory_budget = 1}}) {
    CAPTURE(options.share_in_order, options.memory_budget);
    Plan plan(graph, options);
    for (int run = 0; run < 2; ++run)
      CHECK((bytes([&] { return plan.run(inputs); }) == wanted));
    for (const graph::Node& node : plan.graph().nodes) {
      ++counts[node.op->name];
      if (contains("result=bfloat16").match(to_string(node.attributes)))
        ++counts[std::string(node.op->name) + " to halves"];
    }
  }
}

}  // namespace

TEST_CASE("Random programs of norms, losses and writes in place are the same in plans", "[graph]") {
  Counts counts;
  for (unsigned seed = 0; seed < 40; ++seed)
    check_program(seed, cpu(), counts);
  CHECK(counts["softmax_cross_entropy_both"] > 20);
}

TEST_CASE("Random programs of norms, losses and writes in place are the same in plans on a GPU", "[graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Counts counts;
  for (unsigned seed = 0; seed < 120; ++seed)
    check_program(seed, gpu(), counts);
  for (const char* const made :
       {"batch_norm_relu",
        "batch_norm_relu_backward",
        "batch_norm_add_relu_backward",
        "softmax_cross_entropy_both",
        "layer_norm to halves",
        "add_layer_norm",
        "add_layer_norm_backward to halves"}) {
    CAPTURE(made);
    CHECK(counts[made] > 20);
  }
}
