// What the first call of a network as a graph costs, and one of a batch of another size: traced again, as
// BatchSizes::each does, or made of what was traced. `trace` is one trace alone, of which a first call that looks for
// other sizes takes two. Times are CPU time of the thread that calls, which traces and plans: others may share the
// machine.
#include <algorithm>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include <sluice/sluice.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;

double thread_milliseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
}

double milliseconds(const std::function<void()>& run) {
  const double begun = thread_milliseconds();
  run();
  return thread_milliseconds() - begun;
}

nn::Sequential network(const std::string& name) {
  nn::Sequential net;
  if (name == "mlp") {
    net.add(nn::Dense(256, {.activation = "relu"}), nn::Dense(10));
  } else if (name == "cnn") {
    net.add(nn::Conv2D(32, 3, {.activation = "relu"}), nn::Conv2D(64, 3, {.activation = "relu"}), nn::MaxPool2D(2));
    net.add(nn::Dropout(0.25), nn::Dense(128, {.activation = "relu"}), nn::Dropout(0.5), nn::Dense(10));
  } else {
    for (int i = 0; i < 100; ++i)
      net.add(nn::Dense(16), nn::Activation("tanh"));
  }
  return net;
}

NDArray batch(std::int64_t n, Device device) {
  return random::uniform(0, 1, {n, 1, 12, 12}, {.device = device});
}

double mean_of(const NDArray& array) {
  return mean(array.astype(float64)).item<double>();
}

/// Times of one network, hybridized anew each time, or of a step of its training.
struct Network {
  bench::Report& report;
  const std::string& name;
  const Device device;
  nn::Sequential net = network(name);
  const gluon::loss::SoftmaxCrossEntropyLoss loss{};

  void run() {
    net.initialize(gluon::init::Xavier(), device);
    (void)mean_of(net(batch(2, device)));
    trace();
    for (const bool recorded : {false, true}) {
      for (const auto sizes : {gluon::BatchSizes::each, gluon::BatchSizes::any})
        call(recorded, sizes);
    }
    for (const auto sizes : {gluon::BatchSizes::each, gluon::BatchSizes::any})
      step(sizes);
  }

 private:
  static const char* called(gluon::BatchSizes sizes) { return sizes == gluon::BatchSizes::any ? "any" : "each"; }

  void add(const std::string& variant, const char* metric, const std::function<double()>& measure) const {
    double best = 0;
    for (int i = 0; i < (report.options().smoke ? 1 : report.options().repeats); ++i) {
      const double took = measure();
      best = i == 0 ? took : std::min(best, took);
    }
    report.add(name, variant, metric, best, "ms");
  }

  void trace() const {
    add("predict", "trace", [&] {
      graph::Tracer tracer;
      const NDArray x = tracer.input({.shape = {64, 1, 12, 12}, .device = device});
      return milliseconds([&] { (void)tracer.trace([&] { return Arrays{net(x)}; }); });
    });
  }

  NDArray forward(const NDArray& x, bool recorded) const {
    const autograd::ModeScope mode(recorded, recorded);
    return net(x);
  }

  void call(bool recorded, gluon::BatchSizes sizes) {
    const std::string variant = std::string(recorded ? "record-" : "predict-") + called(sizes);
    if (!report.wants(name, variant))
      return;
    const NDArray many = batch(64, device), few = batch(24, device);
    const double wanted = mean_of(forward(few, false));
    const auto begin = [&] { net.hybridize(true, {.batch_sizes = sizes}); };
    const auto run = [&](const NDArray& x) { return milliseconds([&] { forward(x, recorded).wait_to_read(); }); };
    add(variant, "first", [&] {
      begin();
      return run(many);
    });
    add(variant, "other", [&] {
      begin();
      (void)run(many);
      return run(few);
    });
    if (!recorded)
      report.expect(mean_of(forward(few, false)) == wanted, name + " " + variant + ": another result");
    net.hybridize(false);
  }

  void step(gluon::BatchSizes sizes) {
    const std::string variant = std::string("step-") + called(sizes);
    if (!report.wants(name, variant))
      return;
    const NDArray many = batch(64, device), few = batch(24, device);
    const NDArray labels = zeros({64}, {.dtype = int32, .device = device});
    gluon::Trainer trainer(net.collect_params(), gluon::optimizer::SGD({.learning_rate = 1e-6}));
    std::size_t traced = 0;
    const auto times = [&](bool other) {
      gluon::TrainStep train(net, loss, trainer, {.batch_sizes = sizes});
      const auto run = [&](const NDArray& x) {
        return milliseconds([&] { train(x, labels.slice(0, 0, x.shape()[0])).losses.wait_to_read(); });
      };
      const double first = run(many);
      const double took = other ? run(few) : first;
      traced = train.traced();
      return took;
    };
    add(variant, "first", [&] { return times(false); });
    add(variant, "other", [&] { return times(true); });
    report.expect(traced == (sizes == gluon::BatchSizes::any ? 1 : 2), name + " " + variant + ": other traces");
  }
};

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_batches", "The first call of a graph, and one of a batch of another size");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    for (const std::string name : {"mlp", "cnn", "200-layers"}) {
      if (report.wants(name))
        Network{report, name, report.options().device}.run();
    }
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
