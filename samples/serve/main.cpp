// Serves an exported network (mlp --export PREFIX) over TCP: samples that come together run as one batch. The protocol
// stands in protocol.h. With --bench a client that measures, of another process or of this one.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/system/system_error.hpp>
#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/serve/bench.h"
#include "samples/serve/listener.h"
#include "samples/support/flags.h"
#include "samples/support/run_main.h"
#include "samples/support/terminal.h"

namespace {

namespace asio = boost::asio;
using namespace sluice;
using gluon::SymbolArray;
using gluon::SymbolBlock;

struct Options {
  std::string network;
  gluon::ServerOptions server{.device = num_gpus() > 0 ? gpu(0) : cpu(), .max_queue = 4096};
  samples::BenchOptions bench;
  std::int64_t max_delay = 0;
  int io_threads = 2;
  bool measures = false;
};

// One sample's shape.
Shape sample_of(const SymbolBlock& net, const std::string& file) {
  const std::vector<SymbolArray> inputs = net.inputs();
  const bool fits = inputs.size() == 1 && inputs[0].batch && inputs[0].dtype == float32 && inputs[0].shape.ndim() > 1;
  require(fits, [&] { return message(file, ": does not take one array of float32 with any number of samples"); });
  Shape sample;
  for (int axis = 1; axis < inputs[0].shape.ndim(); ++axis)
    sample.push_back(inputs[0].shape[axis]);
  return sample;
}

void print(const samples::BenchOptions& options, const samples::BenchReport& report) {
  const std::size_t count = report.latencies.size();
  const auto at = [&](std::size_t percent) { return report.latencies[std::min(count - 1, count * percent / 100)]; };
  samples::say(fmt::format(
      "{:>11} {:>7} {:>9} {:>11} {:>9} {:>9} {:>9} {:>9}",
      "connections",
      "window",
      "requests",
      "requests/s",
      "p50 us",
      "p90 us",
      "p99 us",
      "max us"));
  samples::say(fmt::format(
      "{:>11} {:>7} {:>9} {:>11.0f} {:>9.0f} {:>9.0f} {:>9.0f} {:>9.0f}",
      options.connections,
      options.window,
      count,
      static_cast<double>(count) / report.seconds,
      at(50),
      at(90),
      at(99),
      report.latencies.back()));
  samples::say(fmt::format("all answers agree; {} said that the server is busy", report.busy));
}

void print(const gluon::ServerStats& stats) {
  samples::say(fmt::format(
      "{} samples in {} batches, {:.1f} a batch; {:.0f} us in the server at p50, {:.0f} at p99; {} failed, {} refused",
      stats.requests,
      stats.batches,
      stats.mean_batch(),
      stats.latencies.percentile(50),
      stats.latencies.percentile(99),
      stats.failed,
      stats.refused));
}

/// Serves until a signal, or until `meanwhile` has ended on a thread of its own, if that is given. Returns the signal.
int serve(gluon::Server& server, const Options& options, const std::function<void(std::uint16_t port)>& meanwhile) {
  asio::io_context io;
  samples::Listener listener(io, server, options.bench.port);
  listener.start();
  asio::signal_set interrupt(io, SIGINT, SIGTERM);
  int stopped_by = 0;
  interrupt.async_wait([&](boost::system::error_code error, int signal) {
    stopped_by = error ? 0 : signal;
    listener.stop();
  });
  samples::say(fmt::format("serving on 127.0.0.1:{}", listener.port()));
  std::vector<std::thread> threads;
  for (int i = 1; i < options.io_threads; ++i)
    threads.emplace_back([&] { io.run(); });
  std::exception_ptr failure;
  if (meanwhile != nullptr) {
    threads.emplace_back([&] {
      try {
        meanwhile(listener.port());
      } catch (...) {
        failure = std::current_exception();
      }
      asio::post(io, [&] { interrupt.cancel(); });
    });
  }
  io.run();
  for (std::thread& thread : threads)
    thread.join();
  server.stop();                              // what it still answers finds `io`
  if (failure != nullptr && stopped_by == 0)  // whose connections the signal has closed
    std::rethrow_exception(failure);
  return stopped_by;
}

int run(Options options) {
  const auto measure = [&](std::uint16_t port) {
    options.bench.port = port;
    print(options.bench, samples::run_bench(options.bench));
  };
  if (options.network.empty()) {
    measure(options.bench.port);
    return 0;
  }
  const std::filesystem::path file = options.network.ends_with(".json") ? options.network : options.network + ".json";
  SymbolBlock net = SymbolBlock::imports(file, {}, {}, options.server.device);
  options.server.sample = sample_of(net, file.string());
  options.server.max_delay = std::chrono::microseconds(options.max_delay);
  options.server.when_full = gluon::WhenFull::refuse;
  gluon::Server server(net, options.server);
  const int signal = serve(server, options, options.measures ? measure : std::function<void(std::uint16_t)>());
  print(server.stats());
  return signal == 0 || !options.measures ? 0 : 128 + signal;
}

void add_flags(samples::CommandLine& command, Options& options) {
  const auto add = [&](const char* name, auto& value, const char* what, std::int64_t low, std::int64_t high) {
    command.add_option(name, value, what).check(samples::whole_within(low, high)).with_default();
  };
  command.add_device_flag(options.server.device);
  command.add_option("network", options.network, "PREFIX, or PREFIX.json, of the exported network");
  command.add_option("--port", options.bench.port, "Port on 127.0.0.1 (default: any free one)")
      .check(samples::whole_within(1, 65535));
  add("--max-batch", options.server.max_batch, "Samples that run together at most", 1, 65536);
  add("--max-delay", options.max_delay, "Microseconds that the first of them waits for others", 0, 1'000'000);
  add("--threads", options.server.threads, "Batches that run at once", 1, 64);
  add("--max-queue",
      options.server.max_queue,
      "Samples that may wait; others are told that the server is busy",
      1,
      1 << 24);
  add("--io-threads", options.io_threads, "Threads that talk to clients", 1, 256);
  command.add_flag(
      "--bench", options.measures, "Measure: the server at --port, or, with a network, one of this process");
  add("--connections", options.bench.connections, "Of --bench", 1, 1000);
  add("--window", options.bench.window, "Requests of a connection that are open at once", 1, samples::k_most_open);
  add("--requests", options.bench.requests, "Requests of each connection", 1, 10'000'000);
  command.when_parsed([&] {
    if (options.network.empty() && !options.measures)
      samples::CommandLine::refuse("network", "is needed, unless --bench asks a server at --port");
    if (options.network.empty() && options.bench.port == 0)
      samples::CommandLine::refuse("--bench", "needs --port, where the server listens, or a network");
  });
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command("Serves an exported network (mlp --export PREFIX) over TCP, and measures.");
  add_flags(command, options);
  return samples::run_main(command, argc, argv, [&] {
    try {
      return run(options);
    } catch (const boost::system::system_error& error) {  // whose text names the lines of Boost
      throw Error("the network failed: " + error.code().message());
    }
  });
}
