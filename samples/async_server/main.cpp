// A TCP server whose connections await the engine's tasks: no thread is blocked, however many requests are open. With
// a client in the same program that checks every answer and measures.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/system/system_error.hpp>
#include <fmt/format.h>

#include <sluice/engine/asio.h>

#include "samples/async_server/load.h"
#include "samples/async_server/server.h"
#include "samples/support/flags.h"
#include "samples/support/run_main.h"

namespace {

namespace asio = boost::asio;
using namespace sluice;

struct Options {
  samples::LoadOptions load;
  int threads = 1, workers = 0;
  bool shared = false, serve = false, client = false;
};

void print(const samples::LoadOptions& options, const samples::LoadReport& report) {
  auto percentile = [&](std::size_t percent) {
    const std::size_t count = report.latencies.size();
    return 1e6 * report.latencies[std::min(count - 1, count * percent / 100)];
  };
  const std::size_t count = report.latencies.size();
  fmt::print(
      "{:>11} {:>8} {:>10} {:>8} {:>8} {:>8}\n", "connections", "requests", "requests/s", "p50 us", "p90 us", "p99 us");
  fmt::print(
      "{:>11} {:>8} {:>10.0f} {:>8.0f} {:>8.0f} {:>8.0f}\n",
      options.connections,
      count,
      static_cast<double>(count) / report.seconds,
      percentile(50),
      percentile(90),
      percentile(99));
  fmt::print("all answers right: {} scores, {} updates, {} refusals\n", report.scores, report.updates, report.refusals);
}

/// Serves on `threads` threads, of which this is one. Ctrl-C ends it, and so does `meanwhile`, which runs on a thread
/// of its own and returns true for that. Returns the signal, or 0.
int serve(const Options& options, const std::function<bool(std::uint16_t port)>& meanwhile) {
  asio::io_context io;
  EngineOptions engine_options{.workers = options.workers};
  if (options.shared)
    engine_options = {.executor = run_on(io, options.threads)};
  Engine engine(engine_options);
  samples::Server server(io, engine, options.load.features, options.load.port);
  server.start();
  asio::signal_set interrupt(io, SIGINT, SIGTERM);
  int stopped_by = 0;
  interrupt.async_wait([&](boost::system::error_code error, int signal) {
    stopped_by = error ? 0 : signal;
    server.stop();
  });
  std::vector<std::thread> threads;
  for (int i = 1; i < options.threads; ++i)
    threads.emplace_back([&] { io.run(); });
  std::exception_ptr failure;
  threads.emplace_back([&] {
    bool over = true;
    try {
      over = meanwhile(server.port());
    } catch (...) {
      failure = std::current_exception();
    }
    if (over)
      asio::post(io, [&] { interrupt.cancel(); });
  });
  io.run();
  for (std::thread& thread : threads)
    thread.join();
  if (failure != nullptr && stopped_by == 0)  // whose connections the signal has closed
    std::rethrow_exception(failure);
  return stopped_by;
}

int run(Options options) {
  if (options.client) {
    print(options.load, samples::run_load(options.load));
    return 0;
  }
  const int signal = serve(options, [&](std::uint16_t port) {
    fmt::print("serving on 127.0.0.1:{}\n", port);
    std::fflush(stdout);
    if (options.serve)
      return false;
    options.load.port = port;
    print(options.load, samples::run_load(options.load));
    return true;
  });
  return signal == 0 || options.serve ? 0 : 128 + signal;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command(
      "A TCP server whose answers are the engine's tasks, and a client that checks and measures it.");
  command.add_flag("--serve", options.serve, "Only serve, until Ctrl-C");
  command.add_flag("--client", options.client, "Only send requests, to a server at --port").excludes("--serve");
  command.add_option("--port", options.load.port, "Port on 127.0.0.1 (default: any free one)")
      .check(samples::whole_within(1, 65535));
  command.add_option("--threads", options.threads, "Threads that serve")
      .check(samples::whole_within(1, 256))
      .with_default();
  command.add_option("--workers", options.workers, "Workers of the engine (default: all cores)")
      .check(samples::whole_within(1, 1024));
  command.add_flag("--shared", options.shared, "The engine has no workers: tasks run on the threads that serve")
      .excludes("--workers");
  command.add_option("--connections", options.load.connections, "Connections of the client")
      .check(samples::whole_within(1, 10000))
      .with_default();
  command.add_option("--requests", options.load.requests, "Requests of each connection")
      .check(samples::whole_within(1, 10'000'000))
      .with_default();
  command.add_option("--features", options.load.features, "Numbers in a request")
      .check(samples::whole_within(1, 20000))
      .with_default();
  command.when_parsed([&] {
    if (options.client && options.load.port == 0)
      samples::CommandLine::refuse("--client", "needs --port: where the server listens");
  });
  return samples::run_main(command, argc, argv, [&] {
    try {
      return run(options);
    } catch (const boost::system::system_error& error) {  // whose text names the lines of Boost
      throw Error("the network failed: " + error.code().message());
    }
  });
}
