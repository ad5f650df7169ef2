// Children forked while threads of the parent are in the middle of networks: they find nothing locked, and nothing
// halfway.
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <sluice/gluon/data/ledger.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/invoke.h>

#include "tests/gluon/networks.h"
#include "tests/support/child.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads

namespace {

/// Where one thread at a time is kept.
struct Barrier {
  std::atomic<bool> closed{false}, arrived{false};

  void pass() {
    if (!closed)
      return;
    arrived = true;
    while (closed)
      std::this_thread::yield();
  }
  void await() const {
    while (!arrived)
      std::this_thread::yield();
  }
};
Barrier barrier;

/// y = x, past the barrier.
std::shared_ptr<Operator> barred() {
  auto op = std::make_shared<Operator>();
  op->name = "barred";
  op->infer = [](const Operator&, std::span<const ArraySpec> inputs, const Attributes&) { return Specs{inputs[0]}; };
  op->kernels = {on_cpu([](const KernelCall& call) {
    barrier.pass();
    for (std::int64_t i = 0; i < call.outputs[0].size; ++i)
      call.outputs[0].as<float>()[i] = call.inputs[0].as<float>()[i];
  })};
  return op;
}

// Forks while another thread runs `ask` and is kept; the child asks too.
void child_asks(const std::function<bool()>& ask) {
  barrier.arrived = false;
  barrier.closed = true;
  std::atomic<bool> right{false};
  std::thread thread([&] { right = ask(); });
  barrier.await();
  const int code = in_child([&] {
    barrier.closed = false;
    for (int i = 0; i < 3; ++i) {
      if (!ask())
        return 1;
    }
    return in_child([&] { return ask() ? 0 : 2; });  // and its child
  });
  CHECK(code == 0);
  barrier.closed = false;
  thread.join();
  CHECK(right);
  CHECK(ask());
}

}  // namespace

TEST_CASE("A forked child calls a hybridized network that a thread of its parent runs", "[gluon][hybrid]") {
  Engine engine({.cpu_policy = CpuMode::serial});
  const EngineScope here(engine);
  const std::shared_ptr<const Operator> op = barred();
  nn::Sequential net;
  net.add(ones_of(2, 3), nn::Lambda([op](const NDArray& x) {
            return invoke(*op, std::span(&x, 1), {}, SourceLocation::current())[0];
          }));
  net.hybridize(true, {.plan = {.most_arenas = 1}});
  const auto ask = [&] {
    const EngineScope inside(engine);
    return values(net(array<float>({1, 2, 3}, {1, 3}))) == std::vector<float>{6, 6};
  };
  CHECK(ask());
  child_asks(ask);
}

TEST_CASE("A forked child has a network traced that a thread of its parent traces", "[gluon][predictor]") {
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  nn::Sequential net;
  net.add(ones_of(2, 3), nn::Lambda([](const NDArray& x) {
            barrier.pass();
            return x * 1.0;
          }));
  const gluon::Predictor predict(net, zeros({1, 3}));
  const auto ask = [&] {
    std::vector<float> y(2);
    predict(std::vector<float>{1, 2, 3}, y);
    return y == std::vector<float>{6, 6};
  };
  CHECK(ask());
  net.replace("0", ones_of(2, 3));  // so that the next one traces again
  engine.wait_all();                // what is under way is the parent's alone
  child_asks(ask);
}

TEST_CASE("Children forked under load ask the networks of their parent", "[gluon][predictor][concurrent]") {
  Engine engine({.workers = 2});
  const EngineScope here(engine);
  nn::Dense net = ones_of(2, 3);
  const gluon::Predictor predict(net, zeros({1, 3}));
  nn::Dense called = ones_of(2, 3);
  called.hybridize();
  const auto ask = [&] {
    const EngineScope inside(engine);
    std::vector<float> y(2);
    predict(std::vector<float>{1, 2, 3}, y);
    return y == std::vector<float>{6, 6} && values(called(array<float>({1, 2, 3}, {1, 3}))) == y;
  };
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      for (; !stop; ++answered)
        wrong += !ask();
    });
  }
  for (int round = 0; round < 30; ++round) {
    for (const int seen = answered; answered < seen + 40;)
      std::this_thread::yield();
    CHECK(in_child([&] { return ask() ? 0 : 1; }) == 0);
  }
  stop = true;
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("Children forked while threads look operators up add some of their own", "[gluon][concurrent]") {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) {
        amp::cast_rule("add");
        find_operator("add");
      }
    });
  }
  for (int round = 0; round < 40; ++round) {
    CHECK(in_child([] {
            auto op = barred();
            op->name = "barred_in_child";
            register_operator(std::move(op));
            register_kernel("barred_in_child", DeviceKind::gpu, [](const KernelCall&) {});
            amp::set_cast_rule("barred_in_child", amp::CastRule::low);
            return amp::cast_rule("barred_in_child") == amp::CastRule::low ? 0 : 1;
          }) == 0);
  }
  stop = true;
  for (std::thread& thread : threads)
    thread.join();
  CHECK(find_operator("barred_in_child") == nullptr);
}

TEST_CASE("Children forked while workers count read a loader's figures", "[gluon][data][concurrent]") {
  gluon::data::detail::Ledger ledger;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop)
        ledger.replace();
    });
  }
  for (int round = 0; round < 100; ++round)
    CHECK(in_child([&] { return ledger.figures().replaced >= 0 ? 0 : 1; }) == 0);
  stop = true;
  for (std::thread& thread : threads)
    thread.join();
}

#endif
