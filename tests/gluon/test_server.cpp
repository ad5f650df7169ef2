// Samples that are handed in one by one, as batches: nothing is lost or mixed up, errors go where they belong.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/gluon/held_server.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Server;
using gluon::ServerReply;
using gluon::WhenFull;
namespace nn = gluon::nn;

TEST_CASE("What waits runs as one batch, filled up to few sizes, in order", "[gluon][server]") {
  Held held;
  Server server(held.net, held.options());
  const std::vector<ServerReply> replies = hand_in(held, server, 9);  // 1; 4; 4 of which 1 + 3 wait
  for (const ServerReply& reply : replies)
    CHECK_FALSE(reply.done());
  CHECK(server.stats().waiting == 8);
  held.gate.open();
  for (int i = 0; i < 9; ++i)
    CHECK(replies[static_cast<std::size_t>(i)].get<float>() == doubled(static_cast<float>(i)));
  REQUIRE(held.batches.size() == 3);
  CHECK(held.batches[0] == sample(0));
  for (int b = 1; b < 3; ++b) {
    for (int row = 0; row < 4; ++row)
      CHECK(held.batches[static_cast<std::size_t>(b)][static_cast<std::size_t>(3 * row)] == 4 * b - 3 + row);
  }
  server.stop();
  const gluon::ServerStats stats = server.stats();
  CHECK((stats.requests == 9 && stats.failed == 0 && stats.batches == 3 && stats.rows == 9 && stats.waiting == 0));
  CHECK(stats.mean_batch() == 3);
  CHECK(stats.latencies.total() == 9);
  CHECK(stats.latencies.percentile(100) == stats.latencies.max_us);
}

TEST_CASE("Three samples are run as four, of which nobody sees the last", "[gluon][server]") {
  Held held;
  Server server(held.net, held.options());
  const std::vector<ServerReply> replies = hand_in(held, server, 4);
  held.gate.open();
  for (int i = 0; i < 4; ++i)
    CHECK(replies[static_cast<std::size_t>(i)].get<float>() == doubled(static_cast<float>(i)));
  REQUIRE(held.batches.size() == 2);
  CHECK(held.batches[1].size() == 12);
  CHECK(server.stats().rows == 5);
}

TEST_CASE("With a delay a batch waits until it is full", "[gluon][server]") {
  Held held;
  gluon::ServerOptions options = held.options();
  options.max_delay = std::chrono::hours(1);
  Server server(held.net, options);
  held.gate.open();
  held.holds = true;
  std::vector<ServerReply> replies;
  for (int i = 0; i < 6; ++i)
    replies.push_back(server.submit(sample(static_cast<float>(i))));
  replies[0].wait();
  CHECK(replies[3].done());
  CHECK_FALSE(replies[4].done());
  server.stop();  // which waits for no delay
  CHECK(replies[5].get<float>() == doubled(5));
  REQUIRE(held.batches.size() == 2);
  CHECK((held.batches[0].size() == 12 && held.batches[1].size() == 6));
}

TEST_CASE("A delay that is over ends the wait for others", "[gluon][server]") {
  Held held;
  gluon::ServerOptions options = held.options();
  options.max_delay = std::chrono::milliseconds(1);
  Server server(held.net, options);
  held.gate.open();
  CHECK(server.submit(sample(3)).get<float>() == doubled(3));
}

TEST_CASE("A full queue refuses, or has those who hand in wait", "[gluon][server]") {
  Held held;
  gluon::ServerOptions options = held.options();
  options.max_queue = 5;
  SECTION("refuses") {
    options.when_full = WhenFull::refuse;
    Server server(held.net, options);
    const std::vector<ServerReply> replies = hand_in(held, server, 6);
    CHECK_THROWS_AS(server.submit(sample(9)), gluon::ServerBusy);
    CHECK((server.stats().refused == 1 && server.stats().waiting == 5));
    held.gate.open();
    for (const ServerReply& reply : replies)
      reply.wait();
    CHECK(server.submit(sample(9)).get<float>() == doubled(9));
  }
  SECTION("waits") {
    Server server(held.net, options);
    std::atomic<int> wrong{0};
    const std::vector<ServerReply> first = hand_in(held, server, 6);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        std::vector<ServerReply> replies;
        for (int i = 0; i < 20; ++i)
          replies.push_back(server.submit(sample(static_cast<float>(t + i))));
        for (int i = 0; i < 20; ++i)
          wrong += replies[static_cast<std::size_t>(i)].get<float>() != doubled(static_cast<float>(t + i));
      });
    }
    CHECK(server.stats().waiting == 5);
    held.gate.open();
    for (std::thread& thread : threads)
      thread.join();
    CHECK(wrong == 0);
    CHECK(server.stats().requests == 66);
  }
}

TEST_CASE("A failing batch fails its requests and no others", "[gluon][server]") {
  Held held;
  Server server(held.net, held.options());
  std::vector<ServerReply> replies = hand_in(held, server, 3);  // 0; 1, 2 and what follows
  replies.push_back(server.submit(sample(-1)));
  replies.push_back(server.submit(sample(4)));
  replies.push_back(server.submit(sample(5)));  // in the next one
  std::atomic<int> told{0};
  for (const ServerReply& reply : replies)
    reply.then([&] { ++told; });
  held.gate.open();
  CHECK(replies[0].get<float>() == doubled(0));
  for (int i = 1; i < 5; ++i)
    CHECK_THROWS_AS(replies[static_cast<std::size_t>(i)].get<float>(), ValueError);
  CHECK(replies[5].get<float>() == doubled(5));
  CHECK(server.submit(sample(6)).get<float>() == doubled(6));
  server.stop();
  CHECK(server.stats().failed == 4);
  CHECK(told == 6);
  replies[1].then([&] { ++told; });  // at once
  CHECK(told == 7);
}

TEST_CASE("An error that a task finds reaches the batch's requests", "[gluon][server]") {
  const NDArray rows = ones({5, 2});
  nn::Lambda net([&](const NDArray& x) { return take(rows, x, 0); });
  Server server(net, {.sample = {1}, .dtype = int32, .max_batch = 2});
  const std::vector<std::int32_t> good{4}, bad{7};
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_AS(server.submit(bad).get<float>(), IndexError);
    CHECK(server.submit(good).get<float>() == std::vector<float>{1, 1});
  }
}

TEST_CASE("What is no sample is refused when it is handed in", "[gluon][server]") {
  Held held;
  Server server(held.net, held.options());
  CHECK_THROWS_AS(server.submit(std::vector<float>(4)), ShapeError);
  CHECK_THROWS_AS(server.submit(std::vector<double>(3)), DTypeError);
  CHECK_THROWS_AS(server.submit(zeros({1, 3})), ShapeError);
  CHECK_THROWS_AS(server.submit(zeros({3}, {.dtype = int32})), DTypeError);
  CHECK_THROWS_AS(server.submit(NDArray()), ValueError);
  CHECK_THROWS_AS(ServerReply().wait(), ValueError);
  const ServerReply reply = server.submit(array<float>({1, 2, 3, 4, 5, 6}, {3, 2}).slice(1, 1, 2).reshape({3}));
  CHECK(reply.get<float>() == std::vector<float>{4, 8, 12});
  CHECK(reply.array().shape() == Shape{3});
  CHECK(reply.outputs() == 1);
  std::vector<float> room(3);
  reply.read(std::span<float>(room));
  CHECK(room == std::vector<float>{4, 8, 12});
  room.resize(2);
  CHECK_THROWS_AS(reply.read(std::span<float>(room)), ShapeError);
  CHECK_THROWS_AS(reply.get<int>(), DTypeError);
  CHECK_THROWS_AS(reply.get<float>(1), IndexError);
}

TEST_CASE("A server refuses options and networks that make no sense", "[gluon][server]") {
  Held held;
  const auto with = [&](auto&& change) {
    gluon::ServerOptions options = held.options();
    change(options);
    Server server(held.net, options);
  };
  CHECK_THROWS_AS(with([](auto& o) { o.max_batch = 0; }), ValueError);
  CHECK_THROWS_AS(with([](auto& o) { o.threads = 0; }), ValueError);
  CHECK_THROWS_AS(with([](auto& o) { o.max_queue = 0; }), ValueError);
  CHECK_THROWS_AS(with([](auto& o) { o.max_delay = std::chrono::microseconds(-1); }), ValueError);
  CHECK_THROWS_AS(with([](auto& o) { o.sample = {3, 0}; }), ShapeError);
  nn::Lambda sums([](const NDArray& x) { return sum(x); });
  CHECK_THROWS_AS(Server(sums, {.sample = {3}}), ValueError);
  nn::Dense dense(3);  // whose parameters have no values
  CHECK_THROWS_AS(Server(dense, {.sample = {3}}), ValueError);
}

TEST_CASE("A server that stops answers what was handed in, and takes no more", "[gluon][server]") {
  Held held;
  Server server(held.net, held.options());
  const std::vector<ServerReply> replies = hand_in(held, server, 7);
  std::thread stopper([&] { server.stop(); });
  try {
    for (;;)
      server.submit(sample(1));  // until it stops
  } catch (const gluon::ServerStopped&) {
  }
  CHECK_FALSE(replies[6].done());
  held.gate.open();
  stopper.join();
  for (int i = 0; i < 7; ++i)
    CHECK(replies[static_cast<std::size_t>(i)].get<float>() == doubled(static_cast<float>(i)));
  CHECK_THROWS_AS(server.submit(sample(1)), gluon::ServerStopped);
}

TEST_CASE("A server cannot be stopped by a thread of its own", "[gluon][server]") {
  Held held;
  Server server(held.net, held.options());
  const std::vector<ServerReply> replies = hand_in(held, server, 1);
  std::atomic<int> refused{0};
  replies[0].then([&] {
    try {
      server.stop();
    } catch (const Deadlock&) {
      refused = 1;
    }
  });
  held.gate.open();
  replies[0].wait();
  server.stop();
  CHECK(refused == 1);
}
