// A server where threads, processes and callbacks do what is seldom done.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tests/gluon/held_server.h"
#include "tests/gluon/networks.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Server;
using gluon::ServerReply;
namespace nn = gluon::nn;

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads
TEST_CASE("In a forked child a server is the parent's", "[gluon][server]") {
  Held held;
  auto server = std::make_unique<Server>(held.net, held.options());
  const ServerReply done = server->submit(sample(7));
  done.wait();
  const std::vector<ServerReply> replies = hand_in(held, *server, 3);  // under way
  Engine::current().wait_all();
  const auto throws_forked = [](auto&& call) {
    try {
      call();
      return false;
    } catch (const Forked&) {
      return true;
    }
  };
  const int code = in_child([&] {
    if (!throws_forked([&] { server->submit(sample(1)); }) || !throws_forked([&] { server->submit(ones({3})); }))
      return 1;
    if (!throws_forked([&] { (void)server->stats(); }))
      return 2;
    if (!throws_forked([&] { replies[2].wait(); }) || !throws_forked([&] { (void)replies[0].get<float>(); }))
      return 3;
    if (!throws_forked([&] { replies[1].then([] {}); }) || replies[1].done())
      return 4;
    int told = 0;
    done.then([&] { ++told; });
    if (told != 1 || done.get<float>() != doubled(7))
      return 5;
    if (server->options().max_batch != 4)
      return 6;
    server->stop();
    server.reset();
    held.holds = false;
    Server own(held.net, held.options());  // its own serves
    return own.submit(sample(2)).get<float>() == doubled(2) ? 0 : 7;
  });
  CHECK(code == 0);
  held.gate.open();
  for (int i = 0; i < 3; ++i)
    CHECK(replies[static_cast<std::size_t>(i)].get<float>() == doubled(static_cast<float>(i)));
  CHECK(server->submit(sample(9)).get<float>() == doubled(9));
}
#endif

TEST_CASE("Tasks of an engine with one worker make and stop servers", "[gluon][server]") {
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  nn::Dense net = ones_of(2, 200000);  // tasks: too large for what runs at once
  const gluon::ServerOptions options{.sample = {200000}, .max_batch = 2, .threads = 1};
  const std::vector<float> ones(200000, 1.0f), wanted(2, 200000.0f);
  std::vector<float> first, second;
  engine.push({.name = "makes"}, [&] {
    Server server(net, options);
    first = server.submit(ones).get<float>();
  });
  engine.wait_all();
  CHECK(first == wanted);
  Server server(net, options);
  engine.push({.name = "stops"}, [&] {
    const ServerReply reply = server.submit(ones);
    server.stop();
    second = reply.get<float>();
  });
  engine.wait_all();
  CHECK(second == wanted);
}

TEST_CASE("Calls of then() hand in what there is room for, and never rest", "[gluon][server]") {
  Held held;
  gluon::ServerOptions options = held.options();
  options.max_batch = 1;
  options.max_queue = 2;
  Server server(held.net, options);
  held.holds = true;
  const ServerReply first = server.submit(sample(0));
  held.await(1);
  std::vector<ServerReply> more;
  std::atomic<int> busy{0}, told{0};
  first.then([&] {
    for (int i = 1; i <= 4; ++i) {
      try {
        more.push_back(server.submit(sample(static_cast<float>(i))));
      } catch (const gluon::ServerBusy&) {
        ++busy;
      }
    }
    told = 1;
    told.notify_all();
  });
  held.gate.open();
  told.wait(0);
  CHECK(busy == 2);
  REQUIRE(more.size() == 2);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(more[i].get<float>() == doubled(static_cast<float>(i + 1)));
  CHECK(server.stats().refused == 2);
  for (int i = 0; i < 6; ++i)  // others rest as before
    CHECK(server.submit(sample(3)).get<float>() == doubled(3));
}

// The rest is answered first, and afterwards nobody asks the network.
TEST_CASE("A server may end in a call of then()", "[gluon][server]") {
  const int threads = GENERATE(1, 3);
  std::vector<ServerReply> replies;
  std::atomic<bool> ended{false};
  {
    auto held = std::make_unique<Held>();
    gluon::ServerOptions options = held->options();
    options.threads = threads;
    auto server = std::make_unique<Server>(held->net, options);
    held->holds = true;
    for (int i = 0; i < threads; ++i) {
      replies.push_back(server->submit(sample(static_cast<float>(i))));
      held->await(i + 1);
    }
    for (int i = threads; i < threads + 10; ++i)
      replies.push_back(server->submit(sample(static_cast<float>(i))));
    replies[0].then([&] {
      server.reset();
      held.reset();
      ended = true;
      ended.notify_all();
    });
    const Gate gate = held->gate;  // which may go before open() has returned
    gate.open();
    ended.wait(false);
  }
  for (std::size_t i = 0; i < replies.size(); ++i)
    CHECK(replies[i].get<float>() == doubled(static_cast<float>(i)));
}

TEST_CASE("The last one to know a server may be a call of then()", "[gluon][server]") {
  Held held;
  auto server = std::make_shared<Server>(held.net, held.options());
  const std::vector<ServerReply> replies = hand_in(held, *server, 6);
  std::weak_ptr<Server> watched = server;
  replies[0].then([kept = std::move(server)] { (void)kept; });
  held.gate.open();
  for (std::size_t i = 0; i < replies.size(); ++i)
    CHECK(replies[i].get<float>() == doubled(static_cast<float>(i)));
  while (!watched.expired())
    std::this_thread::yield();
}

TEST_CASE("Requests trace no program where the network was hybridized before", "[gluon][server]") {
  nn::Sequential net;
  net.add(ones_of(2, 3));
  const bool whole = GENERATE(true, false);  // or its layer alone
  if (whole)
    net.hybridize(true, {.most_plans = 3});
  else
    net.child_at(0)->hybridize(true, {.most_plans = 3});
  const auto traces = [&] { return net.hybrid_traces() + net.child_at(0)->hybrid_traces(); };
  net(ones({5, 3}));
  Server server(net, {.sample = {3}, .max_batch = 1024, .threads = 1, .hybridize = false});
  const std::size_t before = traces();
  for (int round = 0; round < 3; ++round) {
    for (int size = 1; size <= 1024; size *= 2) {
      std::vector<ServerReply> replies;
      for (int i = 0; i < size; ++i)
        replies.push_back(server.submit(sample(1)));
      for (const ServerReply& reply : replies)
        CHECK(reply.get<float>() == std::vector<float>{3.75f, 3.75f});
    }
  }
  CHECK(traces() == before);
}

TEST_CASE("Nobody waits for a batch that fills while a trace records", "[gluon][server][trace]") {
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  Held held;
  gluon::ServerOptions options = held.options();
  options.max_delay = std::chrono::hours(1);
  std::optional<Server> server;
  server.emplace(held.net, options);
  engine.start_trace();
  const ServerReply reply = server->submit(sample(1));
  engine.wait_all();
  CHECK_FALSE(reply.done());
  const Trace open = engine.stop_trace();
  CHECK(std::count_if(open.events().begin(), open.events().end(), [](const TraceEvent& event) {
          return event.name == "server queue" && event.outcome == TaskOutcome::unfinished && event.ended < 0;
        }) == 1);
  engine.start_trace();
  server.reset();
  CHECK(reply.get<float>() == doubled(1));
  engine.wait_all();
  const Trace later = engine.stop_trace();
  CHECK(std::count_if(later.events().begin(), later.events().end(), [](const TraceEvent& event) {
          return event.name == "server batch of 1 (1)" && event.outcome == TaskOutcome::ok;
        }) == 1);
}
