// What a user reads after twelve plausible mistakes: what is wrong, in which layer, on which line of theirs.
#include <string>
#include <thread>

#include <sluice/ndarray/detail/array_object.h>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

template <class Call>
std::string text_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

std::string at(int line) {
  return "test_messages.cpp:" + std::to_string(line);
}

nn::Sequential dense_net() {
  nn::Sequential net;
  net.add(nn::Dense(4, {.activation = "relu", .in_units = 6}), nn::Dense(3, {.in_units = 4}));
  net.initialize(gluon::init::Xavier());
  return net;
}

// A body of its own lines; fails in a task if asked to.
class Own : public gluon::Block {
 public:
  Own() : body_(child("body", nn::Dense(2, {.in_units = 6}))) {}
  static constexpr int k_line = __LINE__ + 3;

 protected:
  NDArray forward(const NDArray& x) const override { return body_(x); }

 private:
  gluon::Child<nn::Dense> body_;
};

// Fails at the wait: its task does.
NDArray broken(const Shape& shape) {
  NDArray x = empty(shape);
  Engine& engine = x.engine();
  engine.push({.name = "reader", .access = {out(x.object()->buffer->var())}}, [] { throw FileError("disk gone"); });
  return x;
}

}  // namespace

TEST_CASE("a wrong width names the layer, both numbers and the user's line", "[gluon][messages]") {
  const nn::Sequential net = dense_net();
  const int line = __LINE__ + 1;
  const std::string text = text_of([&] { net(zeros({2, 5})); });
  CHECK_THAT(text, contains("has 5 features a sample") && contains("takes 6"));
  CHECK_THAT(text, contains("in layer 0 (Dense), called at ") && contains(at(line)));
  CHECK_THAT(text, !contains("dense.cpp") && !contains("inside"));
}

TEST_CASE("a layer inside a block of the user's names its path and both lines", "[gluon][messages]") {
  nn::Sequential net;
  net.add(nn::Flatten(), Own());
  net.initialize();
  const int line = __LINE__ + 1;
  const std::string text = text_of([&] { net(zeros({2, 5})); });
  CHECK_THAT(text, contains("in layer 1.body (Dense), called at ") && contains(at(Own::k_line)));
  CHECK_THAT(text, contains("inside the call at") && contains(at(line)));
}

TEST_CASE("a layer of several outputs where one is wanted is named", "[gluon][messages]") {
  class Twin : public gluon::Block {
   protected:
    Arrays forward_all(std::span<const NDArray> in) const override { return {in[0], in[0]}; }
  };
  nn::Sequential net;
  net.add(nn::Flatten(), Twin());
  const int line = __LINE__ + 1;
  const std::string in_net = text_of([&] { net(zeros({2, 5})); });
  const std::string by_handle = text_of([&] { net[1](zeros({2, 5})); });
  const std::string alone = text_of([&] { Twin()(zeros({2, 5}), zeros({2})); });
  CHECK_THAT(in_net, contains("gives 2 arrays") && contains("in layer 1 (Twin)") && contains(at(line)));
  CHECK_THAT(by_handle, contains("gives 2 arrays") && contains("in layer 1 (Twin)") && contains(at(line + 1)));
  CHECK_THAT(alone, contains("gives 2 arrays") && contains("in Twin, called at") && contains(at(line + 2)));
  CHECK(net[1]({zeros({2})}).size() == 2);
}

TEST_CASE("a place is named by what stands there now, and by the file as well as the line", "[gluon][messages]") {
  nn::Sequential net = dense_net();
  const auto call = [&](const char* file) { return text_of([&] { net(zeros({2, 6}), SourceLocation{file, 7}); }); };
  CHECK(call("a.cpp") == "nothing was thrown");
  net.replace("1", nn::Lambda([](const NDArray&) -> NDArray { throw ValueError("no"); }));
  for (const char* file : {"a.cpp", "b.cpp"}) {
    CHECK_THAT(
        call(file), contains(std::string("in layer 1 (Lambda), called at ") + file + ":7") && !contains("inside"));
  }
}

TEST_CASE("images without a batch axis, of other channels, and too small", "[gluon][messages]") {
  nn::Sequential net;
  net.add(nn::Conv2D(4, 3, {.in_channels = 3}), nn::MaxPool2D(2));
  net.initialize();
  const std::string flat = text_of([&] { net(zeros({3, 8, 8})); });
  CHECK_THAT(flat, contains("(N, C, H, W)") && contains("(3, 8, 8)") && contains("expand_dims(0)"));
  CHECK_THAT(flat, contains("layer 0 (Conv2D)"));
  const std::string grey = text_of([&] { net(zeros({2, 1, 8, 8})); });
  CHECK_THAT(grey, contains("(N, C, H, W), has 1 channels") && contains("takes 3") && contains("layer 0 (Conv2D)"));
  CHECK_THAT(text_of([&] { net(zeros({2, 3, 2, 8})); }), contains("3 rows") && contains("into the 2 of x"));
  CHECK_THAT(text_of([&] { net(zeros({2, 3, 3, 8})); }), contains("(N, C, H, W)") && contains("layer 1 (MaxPool2D)"));
}

TEST_CASE("a network that was not initialised names parameter and layer", "[gluon][messages]") {
  nn::Sequential net;
  net.add(nn::Dense(4));
  const int line = __LINE__ + 1;
  const std::string text = text_of([&] { net(zeros({2, 5})); });
  CHECK_THAT(text, contains("'weight' is not initialised; call initialize()"));
  CHECK_THAT(text, contains("in layer 0 (Dense)") && contains(at(line)));
}

TEST_CASE("labels out of range, of another shape, and of another type", "[gluon][messages]") {
  const SoftmaxCrossEntropyLoss loss;
  const NDArray scores = zeros({2, 3});
  const int line = __LINE__ + 1;
  const NDArray losses = loss(scores, array<std::int32_t>({0, 3}));
  const std::string text = text_of([&] { losses.wait_to_read(); });
  CHECK_THAT(text, contains("label 3 of row 1 is outside [0, 3)"));
  CHECK_THAT(text, contains("of SoftmaxCrossEntropyLoss, called at") && contains(at(line)));
  const std::string shape = text_of([&] { loss(scores, zeros({2, 1}, {.dtype = int32})); });
  CHECK_THAT(shape, contains("need labels of shape (2,), not (2, 1)") && contains("in SoftmaxCrossEntropyLoss"));
  CHECK_THAT(text_of([&] { loss(scores, zeros({2})); }), contains("astype(int32)") && contains("sparse_label"));
  const std::string l2 = text_of([&] { L2Loss()(scores, zeros({4})); });
  CHECK_THAT(l2, contains("in L2Loss, called at") && contains(at(line + 7)));
}

TEST_CASE("a forgotten record, and backward twice", "[gluon][messages]") {
  const nn::Sequential net = dense_net();
  const NDArray y = net(zeros({2, 6}));
  const std::string unrecorded = text_of([&] { y.backward(); });
  CHECK_THAT(unrecorded, contains("RecordScope") && contains("backward at") && contains(at(__LINE__ - 1)));
  NDArray z;
  {
    autograd::RecordScope record;
    z = net(zeros({2, 6}));
  }
  const int line = __LINE__ - 2;
  z.backward();
  const std::string text = text_of([&] { z.backward(); });
  CHECK_THAT(text, contains("retain_graph") && contains("layer 1 (Dense)") && contains("backward at"));
  CHECK_THAT(text, contains(at(line)) && contains(at(line + 4)));
}

TEST_CASE("a step without backward, and of no samples", "[gluon][messages]") {
  const nn::Sequential net = dense_net();
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::SGD());
  const int line = __LINE__ + 1;
  const std::string stale = text_of([&] { trainer.step(2); });
  const std::string none = text_of([&] { trainer.step(0); });
  CHECK_THAT(stale, contains("'0.weight'") && contains("backward()"));
  CHECK_THAT(stale, contains("in Trainer::step") && contains(at(line)));
  CHECK_THAT(none, contains("batch_size is 0") && contains(at(line + 1)));
}

TEST_CASE("a checkpoint of another network", "[gluon][messages]") {
  TemporaryFolder folder;
  const nn::Sequential net = dense_net();
  net.save_parameters(folder / "net.npz");
  nn::Sequential wider;
  wider.add(nn::Dense(5, {.in_units = 6}), nn::Dense(3, {.in_units = 5}));
  const std::string text = text_of([&] { wider.load_parameters(folder / "net.npz"); });
  CHECK_THAT(text, contains("net.npz") && contains("'0.weight'") && contains("(4, 6)") && contains("(5, 6)"));
}

TEST_CASE("an unknown activation, and values of another type", "[gluon][messages]") {
  CHECK_THAT(text_of([&] { nn::Dense(2, {.activation = "rellu"}); }), contains("'rellu'") && contains("relu, sigmoid"));
  const nn::Sequential net = dense_net();
  const std::string text = text_of([&] { net(zeros({2, 6}, {.dtype = float64})); });
  CHECK_THAT(text, contains("x is float64, weight is float32") && contains("x.astype(float32)"));
  CHECK_THAT(text, contains("layer 0 (Dense)"));
}

TEST_CASE("an initialiser that does not fit names the parameter", "[gluon][messages]") {
  nn::Sequential net;
  net.add(nn::Dense(4, {.bias_initializer = gluon::init::Xavier(), .in_units = 2}));
  const int line = __LINE__ + 1;
  const std::string text = text_of([&] { net.initialize(); });
  CHECK_THAT(text, contains("Xavier") && contains("parameter 0.bias") && contains(at(line)));
  nn::Sequential deferred;
  deferred.add(nn::Dense(2, {.weight_initializer = [](const NDArray&) { throw ValueError("no values"); }}));
  deferred.initialize();
  const std::string later = text_of([&] { deferred(zeros({1, 3})); });
  CHECK_THAT(later, contains("no values") && contains("parameter weight of layer 0 (Dense)"));
  CHECK_THAT(later, contains(at(line + 5)));
}

TEST_CASE("a parameter is named under a scope of any text", "[gluon][messages]") {
  const OriginScope scope(&Origin::of("parameter sweep 3", SourceLocation::current()));
  const gluon::Parameter alone("weight", {.shape = {2}});
  const auto failing = [](const NDArray&) { throw ValueError("no values"); };
  CHECK_THAT(
      text_of([&] { alone.initialize(failing, cpu()); }), contains("of parameter weight of parameter sweep 3, called"));
  nn::Sequential net;
  net.add(nn::Dense(2, {.in_units = 2}));
  CHECK_THAT(text_of([&] { net.initialize(failing); }), contains("of parameter 0.weight, called at"));
}

TEST_CASE("an initialiser that fails in its task names the parameter", "[gluon][messages]") {
  const auto out_of_range = [](const NDArray& array) {
    copy_into(take(array, full({2}, 9, {.dtype = int32}), 0), array);
  };
  nn::Sequential net;
  net.add(nn::Dense(2, {.use_bias = false, .weight_initializer = out_of_range, .in_units = 2}));
  net.initialize();
  const int line = __LINE__ - 1;
  CHECK_THAT(
      text_of([&] { net.collect_params()["0.weight"].data().wait_to_read(); }),
      contains("of parameter 0.weight, called at") && contains(at(line)));
}

TEST_CASE("failures found at a wait name the layer in forward and in backward", "[gluon][messages]") {
  // What a layer's kernel throws: labels out of range, one layer deeper.
  nn::Sequential net;
  net.add(nn::Dense(3, {.in_units = 2}), nn::Lambda([](const NDArray& x) {
            return take(x, full({2}, 9, {.dtype = int32}), 0);
          }));
  net.initialize();
  const NDArray y = net(ones({4, 2}));
  const int line = __LINE__ - 1;
  CHECK_THAT(
      text_of([&] { y.wait_to_read(); }),
      contains("of layer 1 (Lambda), called at") && contains("inside the call at") && contains(at(line)));

  // Backward's tasks keep forward's layer and line.
  nn::Sequential second = dense_net();
  NDArray x = ones({4, 6}), z;
  {
    autograd::RecordScope record;
    z = second(x);
  }
  const int called = __LINE__ - 2;
  Engine& engine = Engine::current();
  engine.wait_all();
  engine.start_trace();
  z.backward();
  engine.wait_all();
  const Trace trace = engine.stop_trace();
  int of_first = 0, of_second = 0;
  for (const TraceEvent& event : trace.events()) {
    const Origin* const origin = Origin::of(event.site);
    if (origin == nullptr)
      continue;
    CHECK(event.site.line == called);
    of_first += origin->what() == "layer 0 (Dense)";
    of_second += origin->what() == "layer 1 (Dense)";
  }
  CHECK(of_first > 0);
  CHECK(of_second > 0);
}

TEST_CASE("tasks of a step name the step's line", "[gluon][messages]") {
  const nn::Sequential net = dense_net();
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::Adam());
  NDArray y;
  {
    autograd::RecordScope record;
    y = net(ones({2, 6}));
  }
  y.backward();
  Engine& engine = Engine::current();
  engine.wait_all();
  engine.start_trace();
  trainer.step(2);
  const int line = __LINE__ - 1;
  engine.wait_all();
  const Trace trace = engine.stop_trace();
  int updates = 0;
  for (const TraceEvent& event : trace.events()) {
    REQUIRE(Origin::of(event.site) != nullptr);
    CHECK(Origin::of(event.site)->what() == "Trainer::step");
    CHECK(event.site.line == line);
    updates += event.name == "adam_update";
  }
  CHECK(updates == 1);
}

TEST_CASE("an input whose task failed is that task's failure, not the layer's", "[gluon][messages]") {
  const nn::Sequential net = dense_net();
  const NDArray y = net(broken({2, 6}));
  const std::string text = text_of([&] { y.wait_to_read(); });
  CHECK_THAT(text, contains("disk gone") && contains("\"reader\"") && !contains("layer"));
}

TEST_CASE("operators outside layers keep their own lines", "[gluon][messages]") {
  const nn::Sequential net = dense_net();
  text_of([&] { net(zeros({2, 5})); });  // an exception leaves no scope behind
  const NDArray y = take(zeros({2}), full({1}, 5, {.dtype = int32}), 0);
  const std::string text = text_of([&] { y.wait_to_read(); });
  CHECK_THAT(text, contains("pushed at") && contains(at(__LINE__ - 2)) && !contains("layer"));
}

TEST_CASE("a task that runs inside a layer's call is none of its", "[gluon][messages]") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    INFO(to_string(policy));
    Engine engine({.workers = 1, .cpu_policy = policy});
    const EngineScope scope(engine);
    nn::Sequential other, net;
    other.add(nn::Dense(3, {.in_units = 4}));
    other.initialize();
    Var done = engine.new_var();
    std::string text;
    int line = 0;
    net.add(nn::Lambda([&](const NDArray& x) {
      engine.push({.name = "bystander", .access = {write(done)}}, [&](Queue) {
        const EngineScope inside(engine);
        line = __LINE__ + 1;
        text = text_of([&] { other(zeros({2, 5})); });
      });
      engine.wait(done);
      return x;
    }));
    net(ones({1, 2}));
    CHECK_THAT(text, contains("in layer 0 (Dense), called at ") && contains(at(line)) && !contains("inside"));
  }
}

TEST_CASE("two threads in one network each name their own line", "[gluon][messages]") {
  const nn::Sequential net = dense_net();
  std::string first, second;
  std::thread one([&] {
    for (int i = 0; i < 50; ++i)
      first = text_of([&] { net(zeros({2, 5})); });
  });
  const int line = __LINE__ - 2;
  std::thread two([&] {
    for (int i = 0; i < 50; ++i)
      second = text_of([&] { net[1](zeros({2, 5})); });
  });
  one.join();
  two.join();
  CHECK_THAT(first, contains("layer 0 (Dense)") && contains(at(line)));
  CHECK_THAT(second, contains("layer 1 (Dense)") && contains(at(line + 5)));
}

TEST_CASE("parameters on two devices are named", "[gluon][messages][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const nn::Sequential net = dense_net();
  net[1]->to(gpu(0));
  CHECK_THAT(
      text_of([&] {
        net(zeros({2, 6}));
      }),
      contains("on cpu(0)") && contains("on gpu(0)") && contains("to(device)") && contains("layer 1 (Dense)"));
}
