// The tape with nodes made by hand: order, sums, requests, release, misuse, depth.
#include <thread>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/array_object.h>

#include "tests/support/catch.h"

using namespace sluice;
using autograd::Entry;
using autograd::Node;
using autograd::NodeRef;

namespace {

/// factor * a for floats on the CPU, unrecorded.
NDArray scaled(const NDArray& a, float factor) {
  const NDArray made = empty(a.shape());
  const detail::ArrayObject& from = *a.object();
  const detail::ArrayObject& to = *made.object();
  a.engine().push(
      {.name = "scale", .access = {read(from.buffer->var()), out(to.buffer->var())}},
      [x = reinterpret_cast<const float*>(from.data()), y = reinterpret_cast<float*>(to.data()), n = to.size, factor] {
        for (std::int64_t i = 0; i < n; ++i)
          y[i] = factor * x[i];
      });
  return made;
}

class ScaleNode final : public Node {
 public:
  ScaleNode(float factor, const NDArray& kept, int* pulls)
      : Node("scale", {}), factor_(factor), kept_(kept), pulls_(pulls) {}
  std::vector<NDArray> pull(std::span<const NDArray> gradients) override {
    kept_.get("scale");
    if (pulls_ != nullptr)
      ++*pulls_;
    return {scaled(gradients[0], factor_)};
  }
  void release_saved() noexcept override { kept_.release(); }

 private:
  float factor_;
  autograd::Saved kept_;
  int* pulls_;
};

NDArray record_scale(const NDArray& x, float factor, int* pulls = nullptr) {
  const NDArray y = scaled(x, factor);
  NodeRef node(new ScaleNode(factor, x, pulls));
  node->inputs.push_back(autograd::entry_of(x));
  node->outputs.push_back({y.shape(), y.dtype(), y.device()});
  autograd::set_entry(y, node, 0);
  return y;
}

/// Two outputs of one node, and an input that gets no gradient.
class SplitNode final : public Node {
 public:
  SplitNode() : Node("split", {}) {}
  std::vector<NDArray> pull(std::span<const NDArray> gradients) override {
    seen = {gradients[0].defined(), gradients[1].defined()};
    return {gradients[0].defined() ? gradients[0] : gradients[1], NDArray()};
  }
  void release_saved() noexcept override {}
  std::vector<bool> seen;
};

NDArray variable(float value, GradReq req = GradReq::write) {
  NDArray x = full({2}, value);
  x.attach_grad(req);
  return x;
}

float first(const NDArray& array) {
  return array.to_vector<float>()[0];
}

}  // namespace

TEST_CASE("Modes are states of the thread and come back when scopes end") {
  REQUIRE_FALSE(autograd::is_recording());
  {
    const autograd::RecordScope record;
    REQUIRE(autograd::is_recording());
    REQUIRE(autograd::is_training());
    {
      const autograd::PauseScope pause;
      REQUIRE_FALSE(autograd::is_recording());
      REQUIRE_FALSE(autograd::is_training());
    }
    {
      const autograd::PredictScope predict;
      REQUIRE(autograd::is_recording());
      REQUIRE_FALSE(autograd::is_training());
    }
    bool elsewhere = true;
    std::thread([&] { elsewhere = autograd::is_recording(); }).join();
    REQUIRE_FALSE(elsewhere);
  }
  REQUIRE_FALSE(autograd::is_recording());
  const autograd::TrainScope train;
  REQUIRE_FALSE(autograd::is_recording());
  REQUIRE(autograd::is_training());
}

TEST_CASE("A variable has a gradient of its shape that begins at zero") {
  NDArray x = variable(1);
  REQUIRE(x.requires_grad());
  REQUIRE(x.grad().to_vector<float>() == std::vector<float>{0, 0});
  REQUIRE_FALSE(x.detach().requires_grad());
  REQUIRE_FALSE(autograd::on_tape(x.detach()));
  NDArray none = variable(1, GradReq::null);
  REQUIRE_FALSE(none.requires_grad());
  REQUIRE_FALSE(none.grad().defined());
  REQUIRE_FALSE(autograd::on_tape(none));
  NDArray counts = zeros({2}, {.dtype = int32});
  REQUIRE_THROWS_AS(counts.attach_grad(), DTypeError);
}

TEST_CASE("Gradients multiply along a chain and add up over its branches") {
  NDArray x = variable(1);
  const NDArray y = record_scale(x, 2), a = record_scale(y, 3), b = record_scale(y, 5);
  const NDArray heads[] = {a, b};
  autograd::backward(heads);
  REQUIRE(x.grad().to_vector<float>() == std::vector<float>{16, 16});
}

TEST_CASE("Head gradients weigh the heads and are checked") {
  NDArray x = variable(1);
  const BackwardOptions keep{.retain_graph = true};
  const NDArray y = record_scale(x, 2);
  y.backward(array<float>({10, 20}), keep);
  REQUIRE(x.grad().to_vector<float>() == std::vector<float>{20, 40});
  REQUIRE_THROWS_AS(y.backward(zeros({3}), keep), ShapeError);
  REQUIRE_THROWS_AS(y.backward(zeros({2}, {.dtype = float64}), keep), DTypeError);
  REQUIRE_THROWS_AS(autograd::backward({}), ValueError);
  REQUIRE_THROWS_AS(zeros({2}).backward(), AutogradError);
}

TEST_CASE("Requests decide whether a gradient is written over or added to") {
  NDArray w = variable(1, GradReq::write), a = variable(1, GradReq::add);
  for (int round = 0; round < 3; ++round) {
    const NDArray heads[] = {record_scale(w, 2), record_scale(a, 2)};
    autograd::backward(heads);
  }
  REQUIRE(first(w.grad()) == 2);
  REQUIRE(first(a.grad()) == 6);
  a.zero_grad();
  REQUIRE(first(a.grad()) == 0);
}

TEST_CASE("The handle of a gradient stays good over many backward passes") {
  NDArray x = variable(1);
  const NDArray handle = x.grad();
  for (int round = 1; round <= 3; ++round) {
    record_scale(x, static_cast<float>(round)).backward();
    REQUIRE(first(handle) == static_cast<float>(round));
  }
  // A head gradient of the user's must not become the gradient's memory.
  const NDArray mine = array<float>({7, 7});
  x.backward(mine);
  fill(mine, 0);
  REQUIRE(first(x.grad()) == 7);
}

TEST_CASE("Views and detached copies of a gradient show what each backward pass left, as its handle does") {
  NDArray x = variable(1);
  const NDArray detached = x.grad().detach();
  const NDArray view = detail::make_view(x.grad(), {1}, {1}, x.grad().object()->offset);
  for (int round = 1; round <= 3; ++round) {
    record_scale(x, static_cast<float>(round)).backward();
    CHECK(first(x.grad()) == static_cast<float>(round));
    CHECK(first(detached) == static_cast<float>(round));
    CHECK(first(view) == static_cast<float>(round));
  }
}

TEST_CASE("A gradient that nothing else looks at takes the new one's memory, without a copy") {
  NDArray x = variable(1);
  const NDArray handle = x.grad();
  const detail::Buffer* before = handle.object()->buffer;
  record_scale(x, 2).backward();
  CHECK(handle.object()->buffer != before);
  CHECK(first(handle) == 2);
}

TEST_CASE("A second backward needs retain_graph in the first") {
  NDArray x = variable(1);
  int pulls = 0;
  const NDArray y = record_scale(record_scale(x, 2, &pulls), 3, &pulls);
  y.backward(ones({2}), {.retain_graph = true});
  y.backward();
  REQUIRE(pulls == 4);
  REQUIRE(first(x.grad()) == 6);
  REQUIRE_THROWS_WITH(y.backward(), sluice::test::contains("retain_graph"));
  REQUIRE(pulls == 4);
}

TEST_CASE("A value written between forward and backward is noticed") {
  NDArray x = variable(1);
  const NDArray y = record_scale(x, 2);
  fill(x, 5);
  REQUIRE_THROWS_WITH(y.backward(), sluice::test::contains("scale: an array of shape (2,)"));
}

TEST_CASE("Nodes with several outputs get undefined gradients for unused ones") {
  NDArray x = variable(1);
  auto* split = new SplitNode;
  NodeRef node(split);
  node->inputs.push_back(autograd::entry_of(x));
  node->inputs.push_back({});
  const NDArray a = ones({2}), b = ones({2});
  for (const NDArray& out : {a, b})
    node->outputs.push_back({out.shape(), out.dtype(), out.device()});
  autograd::set_entry(a, node, 0);
  autograd::set_entry(b, node, 1);
  record_scale(b, 4).backward();
  REQUIRE(split->seen == std::vector<bool>{false, true});
  REQUIRE(first(x.grad()) == 4);
}

TEST_CASE("grad() returns gradients, of results too, and leaves variables alone") {
  NDArray x = variable(1), other = variable(1);
  int pulls = 0;
  const NDArray y = record_scale(x, 2, &pulls), z = record_scale(y, 3, &pulls);
  const NDArray wanted[] = {y, other};
  const auto found = autograd::grad({&z, 1}, wanted, {}, {.retain_graph = true});
  REQUIRE(first(found[0]) == 3);
  REQUIRE(first(found[1]) == 0);
  REQUIRE(pulls == 1);  // nothing behind y was asked for
  REQUIRE(first(x.grad()) == 0);
  const NDArray both[] = {x, y};
  const auto more = autograd::grad({&z, 1}, both);
  REQUIRE(first(more[0]) == 6);
  REQUIRE(first(more[1]) == 3);
  const NDArray off_tape = zeros({2});
  REQUIRE_THROWS_AS(autograd::grad({&z, 1}, {&off_tape, 1}), AutogradError);
}

TEST_CASE("A tape of a hundred thousand nodes is walked and dropped without recursion") {
  for (const bool walk : {true, false}) {
    NDArray x = variable(1);
    NDArray y = x;
    for (int i = 0; i < 100'000; ++i)
      y = record_scale(y, 1);
    if (walk) {
      y.backward();
      REQUIRE(first(x.grad()) == 1);
    }
  }
}

TEST_CASE("What forward kept is given back during backward, and gradients as soon as used") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  constexpr std::int64_t n = 1000;
  NDArray x = ones({n});
  x.attach_grad();
  NDArray y = x;
  for (int i = 0; i < 50; ++i)
    y = record_scale(y, 1);
  const auto before = memory_stats(cpu()).allocated;
  REQUIRE(before >= 52 * n * 4);  // 50 results, x and its gradient
  Storage::of(engine).pool(cpu()).reset_peaks();
  y.backward();
  y = NDArray();
  engine.wait_all();
  REQUIRE(memory_stats(cpu()).peak_allocated <= before + 3 * n * 4);
  REQUIRE(memory_stats(cpu()).allocated == 2 * n * 4);
  REQUIRE(first(x.grad()) == 1);
}

TEST_CASE("A gradient that nobody else sees changes owner instead of being copied") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope scope(engine);
  NDArray x = ones({8});
  x.attach_grad();
  const NDArray y = record_scale(x, 2);
  const auto pushed = engine.counters().pushed;
  y.backward();
  REQUIRE(engine.counters().pushed == pushed + 2);  // ones for the head, one pull, no copy
  REQUIRE(first(x.grad()) == 2);
}

TEST_CASE("A wrong number or shape of gradients is blamed on the node") {
  class BadNode final : public Node {
   public:
    explicit BadNode(bool shape) : Node("bad", {}), shape_(shape) {}
    std::vector<NDArray> pull(std::span<const NDArray>) override {
      return shape_ ? std::vector<NDArray>{zeros({5})} : std::vector<NDArray>{};
    }
    void release_saved() noexcept override {}

   private:
    bool shape_;
  };
  for (const bool shape : {true, false}) {
    NDArray x = variable(1);
    NodeRef node(new BadNode(shape));
    node->inputs.push_back(autograd::entry_of(x));
    const NDArray y = ones({2});
    node->outputs.push_back({y.shape(), y.dtype(), y.device()});
    autograd::set_entry(y, node, 0);
    REQUIRE_THROWS_WITH(y.backward(), sluice::test::contains("bad gave"));
  }
}

TEST_CASE("A gradient outlives its variable, and a tape its variables") {
  NDArray grad, y;
  {
    NDArray x = variable(1);
    grad = x.grad();
    y = record_scale(x, 3);
  }
  y.backward();
  REQUIRE(first(grad) == 3);
}
