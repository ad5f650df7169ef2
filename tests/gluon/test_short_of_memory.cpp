// Calls that are short of memory run tasks meanwhile, and one of these may make the same call.
#include <functional>
#include <utility>
#include <vector>

#include <sluice/operator/graph/host_plan.h>
#include <sluice/operator/graph/trace.h>
#include <sluice/storage/storage.h>

#include "tests/gluon/networks.h"
#include "tests/gluon/support.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Predictor;
namespace nn = gluon::nn;

namespace {

/// An engine whose one worker is kept, and a task that waits behind that: who is short of memory runs it. It does what
/// it is told, and then gives back what it holds.
class Short {
 public:
  Short() {
    engine_.push({.name = "keeps the worker"}, [gate = gate_] { gate.wait(); });
    REQUIRE(gate_.reached());
  }

  Engine& engine() noexcept { return engine_; }
  /// From here on there is no more memory than is held.
  void begin(std::function<void()> task) {
    engine_.push({.name = "holds memory"}, [this, task = std::move(task)] {
      try {
        task();
      } catch (const OutOfMemory&) {
        was_short_ = true;
      }
      held_ = NDArray();
    });
    storage_.configure({.host = "direct", .host_limit = storage_.pool(cpu()).stats().reserved + 64});
  }
  bool was_short() const noexcept { return was_short_; }
  void give_back() { held_ = NDArray(); }

 private:
  static Storage& keeping_nothing(Engine& engine) {
    Storage& storage = Storage::of(engine);
    storage.configure({.host = "direct"});
    return storage;
  }

  Engine engine_{{.workers = 1}};
  const EngineScope scope_{engine_};
  Storage& storage_ = keeping_nothing(engine_);
  const AttachScope attached_{engine_};
  NDArray held_ = empty({1 << 20});
  const Gate gate_;
  const OpensAtEnd opens_{gate_};
  bool was_short_ = false;
};

/// Forward makes an array of its own.
struct Shifted final : gluon::Block {
  gluon::Child<nn::Dense> dense = child("dense", ones_of(2, 3, cpu()));
  NDArray forward(const NDArray& x) const override {
    return dense(x) + array<float>(std::vector<float>(1 << 16, 1), {1 << 16}).slice(0, 0, 1);
  }
};

}  // namespace

TEST_CASE("A request that is short of memory runs tasks, and one of these makes the same request", "[predictor]") {
  Short memory;
  constexpr std::int64_t n = 1 << 16;
  graph::Tracer tracer;
  const NDArray x = tracer.input({.shape = {n}, .dtype = float32, .device = cpu()});
  graph::HostPlan plan(tracer.trace([&] { return Arrays{flip(cumsum(flip(x, 0), 0), 0)}; }), {}, memory.engine());
  const std::vector<float> from(n, 1);
  std::vector<float> to(n);
  const graph::HostValues in[] = {{from.data(), float32, n}};
  const graph::HostRoom out[] = {{to.data(), float32, n}};
  memory.begin([&] { plan.run(in, out); });
  plan.run(in, out);
  CHECK(memory.was_short());
  CHECK(to.front() == static_cast<float>(n));
}

TEST_CASE("A predictor that is traced again where memory is short may be asked by a task that runs", "[predictor]") {
  Short memory;
  const bool has_room = GENERATE(false, true);  // the task
  Shifted net;
  const Predictor predict(net, zeros({1, 3}));
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(2), of_task(2);
  net.dense->own_parameter("weight").initialize(gluon::init::Constant(2), cpu(), true);
  net.dense->own_parameter("weight").data().wait_to_read();
  memory.begin([&] {
    if (has_room)
      memory.give_back();
    predict(x, of_task);
  });
  predict(x, y);
  CHECK(memory.was_short() != has_room);
  CHECK(y == std::vector<float>{13, 13});
  CHECK(of_task == (has_room ? y : std::vector<float>{0, 0}));
}

TEST_CASE("A first forward that is short of memory may run a task that is the first one too", "[gluon][parameter]") {
  Short memory;
  const bool has_room = GENERATE(false, true);  // the task
  nn::Dense net(1 << 12);
  net.initialize(gluon::init::One());
  const NDArray x = ones({1, 16});
  NDArray of_task;
  memory.begin([&] {
    if (has_room)
      memory.give_back();
    net(x);
    of_task = net.own_parameter("weight").data();
  });
  const NDArray y = net(x);
  CHECK(memory.was_short() != has_room);
  CHECK(y.slice(1, 0, 1).item<float>() == 16);
  CHECK((!has_room || net.own_parameter("weight").data().same(of_task)));
}
