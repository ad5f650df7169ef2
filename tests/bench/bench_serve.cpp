// One network served from many threads, a sample at a time: floats of the host in, floats of the host out. By hand
// ("eager"), hybridized, by a gluon::Predictor, and through a gluon::Server, which makes batches: "server" with one
// request of a thread open at once, "server-64" with that many. The peer runs the same network.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <sluice/sluice.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;
namespace nn = gluon::nn;
using Clock = std::chrono::steady_clock;

constexpr std::size_t k_pixels = 28 * 28, k_classes = 10, k_images = 32;

nn::Sequential make_cnn_tf() {
  nn::Sequential net;
  net.add(nn::Conv2D(32, 3, {.activation = "relu"}), nn::MaxPool2D(2), nn::Flatten());
  net.add(nn::Dense(64, {.activation = "relu"}), nn::Dense(10));
  return net;
}

/// Requests and what the network answers to each by hand.
struct Samples {
  std::vector<std::vector<float>> images, answers;

  Samples(const nn::Sequential& net, Device device) {
    for (std::size_t i = 0; i < k_images; ++i) {
      images.push_back(random::normal(0, 1, {1, 1, 28, 28}).to_vector<float>());
      answers.push_back(net(array(images.back(), {1, 1, 28, 28}, device)).to_vector<float>());
    }
  }
  bool is_right(std::size_t image, const float* answer) const {
    bool right = true;
    for (std::size_t i = 0; i < k_classes; ++i)
      right = right && std::abs(answer[i] - answers[image][i]) <= 1e-4f * (1 + std::abs(answers[image][i]));
    return right;
  }
};

std::string workload_of(int threads) {
  return "serve-tf-b1-" + std::to_string(threads) + "t";
}

/// One thread's requests.
struct Client {
  std::vector<float> latencies = {};  // microseconds
  std::size_t wrong = 0;
};

/// Answers the requests that `client` sends until `go_on` says no.
using Serve = std::function<void(const Samples&, Client&, const std::function<bool()>& go_on)>;

void ask(const Samples& samples, Client& client, const std::function<bool()>& go_on, auto&& answer) {
  float out[k_classes];
  for (std::size_t i = 0; go_on(); i = (i + 1) % k_images) {
    const Clock::time_point start = Clock::now();
    answer(samples.images[i], out);
    client.latencies.push_back(std::chrono::duration<float, std::micro>(Clock::now() - start).count());
    client.wrong += samples.is_right(i, out) ? 0 : 1;
  }
}

// Written as anybody would.
Serve by_calls(const nn::Sequential& net, Device device) {
  return [&net, device](const Samples& samples, Client& client, const std::function<bool()>& go_on) {
    ask(samples, client, go_on, [&](const std::vector<float>& image, float* out) {
      net(array(image, {1, 1, 28, 28}, device)).read_out(out, float32, k_classes);
    });
  };
}

// The array on the device stays, as the peer's does.
Serve by_kept_arrays(const nn::Sequential& net, Device device) {
  return [&net, device](const Samples& samples, Client& client, const std::function<bool()>& go_on) {
    const NDArray x = empty({1, 1, 28, 28}, {.device = device});
    ask(samples, client, go_on, [&](const std::vector<float>& image, float* out) {
      x.assign(array(image, {1, 1, 28, 28}));
      net(x).read_out(out, float32, k_classes);
    });
  };
}

Serve by_predictor(const gluon::Predictor& predict) {
  return [&predict](const Samples& samples, Client& client, const std::function<bool()>& go_on) {
    ask(samples, client, go_on, [&](const std::vector<float>& image, float* out) {
      predict(std::span<const float>(image), std::span<float>(out, k_classes));
    });
  };
}

// `window` requests of a thread are open at once.
Serve by_server(gluon::Server& server, std::size_t window) {
  struct Open {
    Clock::time_point start;
    std::size_t image;
    gluon::ServerReply reply;
  };
  return [&server, window](const Samples& samples, Client& client, const std::function<bool()>& go_on) {
    std::deque<Open> open;
    float out[k_classes];
    std::size_t image = 0;
    for (bool more = true; more || !open.empty();) {
      for (; more && open.size() < window && (more = go_on()); image = (image + 1) % k_images) {
        const Clock::time_point start = Clock::now();
        open.push_back({start, image, server.submit(samples.images[image])});
      }
      if (open.empty())
        continue;
      open.front().reply.read(std::span<float>(out));
      client.latencies.push_back(std::chrono::duration<float, std::micro>(Clock::now() - open.front().start).count());
      client.wrong += samples.is_right(open.front().image, out) ? 0 : 1;
      open.pop_front();
    }
  };
}

/// All threads at once for `seconds`, after some requests that nobody measures.
void run(
    bench::Report& report,
    const Samples& samples,
    const std::string& variant,
    int threads,
    double seconds,
    const Serve& serve) {
  const std::string workload = workload_of(threads);
  const bool smoke = report.options().smoke;
  std::vector<Client> clients(static_cast<std::size_t>(threads));
  std::vector<std::thread> pool;
  std::atomic<int> ready{0};
  std::atomic<bool> go{false}, stop{smoke};
  for (Client& client : clients) {
    pool.emplace_back([&] {
      Client warm;
      int left = smoke ? 3 : 50;
      serve(samples, warm, [&] { return left-- > 0; });
      client.latencies.reserve(std::size_t{1} << (smoke ? 4 : 20));
      ++ready;
      while (!go)
        std::this_thread::yield();
      left = 3;
      serve(samples, client, [&] { return left-- > 0 || !stop.load(std::memory_order_relaxed); });
      client.wrong += warm.wrong;
    });
  }
  while (ready < threads)
    std::this_thread::yield();
  const Clock::time_point start = Clock::now();
  go = true;
  if (!smoke)
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (std::thread& thread : pool)
    thread.join();
  const double taken = std::chrono::duration<double>(Clock::now() - start).count();
  std::vector<float> all;
  std::size_t wrong = 0;
  for (const Client& client : clients) {
    all.insert(all.end(), client.latencies.begin(), client.latencies.end());
    wrong += client.wrong;
  }
  std::sort(all.begin(), all.end());
  report.expect(wrong == 0, workload + " " + variant + ": " + std::to_string(wrong) + " wrong answers");
  report.add(workload, variant, "rate", static_cast<double>(all.size()) / taken, "req/s");
  report.add(workload, variant, "p50", all[all.size() / 2], "us", all.front());
  report.add(workload, variant, "p99", all[all.size() * 99 / 100], "us", all.front());
}

void run_server(
    bench::Report& report,
    const Samples& samples,
    nn::Sequential& net,
    int threads,
    double seconds,
    int window,
    const gluon::ServerOptions& options) {
  const std::string variant = window == 1 ? "server" : "server-" + std::to_string(window);
  if (!report.wants(workload_of(threads), variant))
    return;
  gluon::Server server(net, options);
  run(report, samples, variant, threads, seconds, by_server(server, static_cast<std::size_t>(window)));
  report.add(workload_of(threads), variant, "batch", server.stats().mean_batch(), "samples");
}

void run_predictor(
    bench::Report& report,
    const Samples& samples,
    const nn::Sequential& net,
    Device device,
    const std::vector<int>& counts,
    double seconds) {
  const char* const variant = "predictor";
  for (const int threads : counts) {
    if (!report.wants(workload_of(threads), variant))
      continue;
    const gluon::Predictor predict(
        net, empty({1, 1, 28, 28}, {.device = device}), {.most_at_once = static_cast<std::size_t>(threads)});
    run(report, samples, variant, threads, seconds, by_predictor(predict));
    const gluon::Predictor::Counts made = predict.counts();
    report.add(
        workload_of(threads),
        variant,
        "launched",
        static_cast<double>(made.launched) / static_cast<double>(made.launched + made.pushed),
        "of_all");
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_serve", "One network called from many threads, batch 1, host to host");
  double seconds = 2;
  std::vector<int> counts{1, 4, 16};
  report.flag("--seconds", seconds, "How long each variant runs").range(0.01, 600.0);
  report.flag("--threads", counts, "Threads that ask").range(1, 1024);
  gluon::ServerOptions server{.sample = {1, 28, 28}, .max_batch = 256, .max_queue = 8192};
  std::int64_t max_delay = 0;
  report.flag("--max-batch", server.max_batch, "Of the server").range(1, 65536);
  report.flag("--server-threads", server.threads, "Batches that run at once").range(1, 64);
  report.flag("--max-delay", max_delay, "Microseconds").range(0, 1000000);
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    const Device device = report.options().device;
    nn::Sequential net = make_cnn_tf();
    net.initialize(gluon::init::Xavier(), device);
    const Samples samples(net, device);
    const auto run_calls = [&](const char* variant, const Serve& serve) {
      for (const int threads : counts) {
        if (report.wants(workload_of(threads), variant))
          run(report, samples, variant, threads, seconds, serve);
      }
    };
    run_calls("eager", by_calls(net, device));
    net.hybridize(true, {.most_plans = 32});
    run_calls("hybrid", by_calls(net, device));
    run_calls("hybrid-kept", by_kept_arrays(net, device));
    run_predictor(report, samples, net, device, counts, seconds);
    server.device = device;
    server.max_delay = std::chrono::microseconds(max_delay);
    for (const int threads : counts) {
      for (const int window : {1, 64})
        run_server(report, samples, net, threads, seconds, window, server);
    }
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
