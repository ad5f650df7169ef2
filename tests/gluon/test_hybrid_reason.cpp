// Why a hybridized block or a step runs by hand or in pieces, said to who asks: the operator, its layer, the line.
#include <string>

#include "tests/engine/expect.h"
#include "tests/gluon/told.h"

using namespace sluice;
using namespace sluice::test;
using gluon::TrainStep;

namespace {

/// The line of the call that is the reason, and what was said of it.
struct Reasoned {
  int line = 0;
  std::string text = {};

  /// The reason must name all of these, and the line.
  void check(const std::vector<std::string>& words) const {
    INFO(text);
    for (const std::string& word : words)
      CHECK_THAT(text, contains(word));
    CHECK_THAT(text, contains(message("test_hybrid_reason.cpp:", line)));
  }
};

Reasoned of_block(const std::function<Arrays(std::span<const NDArray>, const NDArray&, int&)>& forward, bool record) {
  Reasoned found;
  Told block([&](auto in, const NDArray& w, const NDArray&) { return forward(in, w, found.line); });
  block.initialize();
  block.hybridize();
  CHECK(block.hybrid_reason() == "");  // nobody called it
  for (int call = 0; call < 2; ++call) {
    const autograd::ModeScope mode(record, false);
    block({three_numbers()});
    const std::string reason = block.hybrid_reason();
    CHECK((call == 0 || reason == found.text));
    found.text = reason;
  }
  CHECK_THAT(found.text, contains("by hand: "));
  return found;
}

Arrays written_input(std::span<const NDArray> in, const NDArray& w, int& line) {
  NDArray first = in[0];
  line = __LINE__ + 1;
  first += 1.0;
  return {first * w};
}

}  // namespace

TEST_CASE("A hybridized block says which call writes its input", "[gluon][graph][hybrid]") {
  for (const bool record : {false, true})
    of_block(written_input, record).check({"writes an array that it is given", "Told"});
}

TEST_CASE("A hybridized block says whose gradients keep it from being a graph", "[gluon][graph][hybrid]") {
  NDArray brought = three_numbers(), state = zeros({3});
  brought.attach_grad();
  const auto reads = [&](auto in, const NDArray& w, int& line) {
    line = __LINE__ + 1;
    return Arrays{in[0] * brought + w};
  };
  of_block(reads, true).check({"neither an input nor a parameter", "mul"});
  const auto records = [&](auto in, const NDArray& w, int& line) {
    line = __LINE__ + 1;
    state += in[0] * w;
    return Arrays{state * 2.0};
  };
  of_block(records, true).check({"is recorded and writes an array that stays"});
  const auto hooked = [](auto in, const NDArray& w, int&) {
    const NDArray product = in[0] * w;
    autograd::add_hook(product, [](const NDArray& gradient) { return gradient * 2.0; });
    return Arrays{product};
  };
  Told block([&](auto in, const NDArray& w, const NDArray&) {
    int unused = 0;
    return hooked(in, w, unused);
  });
  block.initialize();
  block.hybridize();
  {
    const autograd::RecordScope record;
    block({three_numbers()});
  }
  CHECK_THAT(block.hybrid_reason(), contains("by hand: ") && contains("add_hook"));
}

TEST_CASE("A hybridized block says that it waits for shapes, or that hooks look at it", "[gluon][graph][hybrid]") {
  namespace nn = gluon::nn;
  nn::Sequential net;
  net.add(nn::Dense(4), nn::Dense(2));
  net.initialize();
  CHECK(net.hybrid_reason() == "");  // it is no graph, and was not to be one
  net.hybridize();
  const NDArray x = zeros({2, 3});
  net(x);
  CHECK_THAT(net.hybrid_reason(), contains("by hand: a parameter had no values yet"));
  net(x);
  CHECK(net.hybrid_reason() == "");
  {
    const gluon::HookScope scope(net.child_at(0)->register_forward_hook([](auto&, auto, auto) {}));
    net(x);
    CHECK_THAT(net.hybrid_reason(), contains("by hand: hooks"));
  }
  net(x);
  CHECK(net.hybrid_reason() == "");
  CHECK(net.hybrid_traces() == 1);
  net.hybridize(false);
  CHECK(net.hybrid_reason() == "");
}

TEST_CASE("A step says why it is taken by hand", "[gluon][graph][train_step]") {
  int line = 0;
  const auto reason_of = [&](const Told::Program& program) {
    Told block(program);
    block.initialize();
    Trainer trainer(block.collect_params(), Adam());
    const L2Loss loss;
    TrainStep step(block, loss, trainer);
    CHECK(step.hybrid_reason() == "");  // none was taken
    (void)step(pattern_array({2, 3}), ones({2, 3}));
    return Reasoned{line, step.hybrid_reason()};
  };
  const auto writes = [&](auto in, const NDArray& w, const NDArray& b) {
    const autograd::PauseScope pause(true);
    NDArray first = in[0];
    line = __LINE__ + 1;
    first += 1.0;
    const autograd::RecordScope record;
    return Arrays{first * w + b};
  };
  reason_of(writes).check({"by hand: ", "writes an array that it is given"});
  NDArray state = zeros({2, 3});
  const auto records = [&](auto in, const NDArray& w, const NDArray& b) {
    line = __LINE__ + 1;
    state += in[0] * w;
    return Arrays{state * w + b};
  };
  reason_of(records).check({"by hand: ", "is recorded and writes an array that stays"});
  CHECK(reason_of([](auto in, auto& w, auto& b) { return Arrays{in[0] * w + b}; }).text == "");
}

TEST_CASE("A step of a network without shapes says so once", "[gluon][graph][train_step]") {
  gluon::nn::Sequential net;
  net.add(gluon::nn::Dense(4), gluon::nn::Dense(3));
  net.initialize();
  Trainer trainer(net.collect_params(), Adam());
  const L2Loss loss;
  TrainStep step(net, loss, trainer);
  (void)step(pattern_array({2, 5}), ones({2, 3}));
  CHECK_THAT(step.hybrid_reason(), contains("by hand: a parameter had no values yet"));
  (void)step(pattern_array({2, 5}), ones({2, 3}));
  CHECK(step.hybrid_reason() == "");
}

TEST_CASE("On a GPU a block and a step say which call cuts their graph", "[gluon][graph][hybrid][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  int line = 0;
  bool cuts = true;
  const auto program = [&](auto in, const NDArray& w, const NDArray& b) {
    const NDArray product = in[0] * w;
    if (!cuts)
      return Arrays{product + b};
    line = __LINE__ + 1;
    const NDArray there = product.to(cpu());
    return Arrays{there.to(gpu(0)) * 2.0 + b};
  };
  for (const bool cut : {true, false}) {
    cuts = cut;
    Told block(program);
    block.initialize(gluon::init::Uniform(), gpu(0));
    block.hybridize();
    Trainer trainer(block.collect_params(), SGD());
    const L2Loss loss;
    TrainStep step(block, loss, trainer);
    const NDArray x = pattern_array({2, 3}, 1, gpu(0)), y = ones({2, 3}, {.device = gpu(0)});
    for (int i = 0; i < 3; ++i) {
      block({x})[0].wait_to_read();
      step(x, y).losses.wait_to_read();
    }
    const std::string of_block = block.hybrid_reason(), of_step = step.hybrid_reason();
    if (cut) {
      Reasoned{line, of_block}.check({"forward: cut into 3 segments: ", "Told"});
      Reasoned{line, of_step}.check({"cut into ", " segments: ", "Told"});
      const autograd::RecordScope record;
      (void)block({x});
      CHECK_THAT(block.hybrid_reason(), contains("forward: cut into ") && contains("gradients: cut into "));
    } else {
      CHECK(of_block == "");
      CHECK(of_step == "");
    }
  }
}
