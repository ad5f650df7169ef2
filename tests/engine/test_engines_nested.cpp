// A body of one engine that waits through another: what runs on its stack, and who runs what it waits for.
#include <atomic>
#include <string>

#include <boost/asio/thread_pool.hpp>

#include <sluice/engine/asio.h>

#include "tests/engine/expect.h"
#include "tests/engine/policies.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Calls program(outer, inner): outer with one worker of its own or one thread of an executor, inner of each kind.
template <class Program>
void with_engines(Program program) {
  boost::asio::thread_pool served(1);
  for (const CpuMode mode : k_all) {
    for (const bool executor : {false, true}) {
      INFO(to_string(mode) << (executor ? " in a task on an executor" : " in a task on a worker"));
      Engine outer(executor ? EngineOptions{.executor = run_on(served, 1)} : EngineOptions{.workers = 1});
      Engine inner({.workers = 1, .cpu_policy = mode});
      program(outer, inner);
    }
  }
}

}  // namespace

TEST_CASE("A task that waits through another engine for a task of its own engine goes on, with one worker") {
  with_engines([](Engine& outer, Engine& inner) {
    int ran = 0;
    outer
        .push(
            {.name = "waits through"},
            [&] {
              inner.push({.name = "between"}, [&] { outer.push({.name = "awaited"}, [&] { ++ran; }).wait(); }).wait();
              inner.push({.name = "once more"}, [&] { outer.push({.name = "awaited"}, [&] { ++ran; }).wait(); });
              inner.wait_all();
            })
        .wait();
    outer.push({.name = "later"}, [&] { ++ran; }).wait();
    CHECK(ran == 3);
  });
}

TEST_CASE("A worker that is blocked two engines deep is replaced once") {
  with_engines([](Engine& outer, Engine& inner) {
    Engine third({.workers = 1, .cpu_policy = CpuMode::serial});
    std::atomic<int> ran{0}, at_once{0}, most{0};
    const auto count = [&] {
      most = std::max(most.load(), ++at_once);
      ++ran;
      --at_once;
    };
    outer
        .push(
            {.name = "bottom"},
            [&] {
              inner
                  .push(
                      {.name = "middle"},
                      [&] {
                        third
                            .push(
                                {.name = "top"},
                                [&] {
                                  for (int i = 0; i < 16; ++i)
                                    outer.push({.name = "counted"}, count);
                                  outer.push({.name = "last"}, count).wait();
                                })
                            .wait();
                        outer.push({.name = "after"}, count).wait();
                      })
                  .wait();
            })
        .wait();
    outer.wait_all();
    CHECK(ran == 18);
    CHECK(most == 1);
  });
}

TEST_CASE("A member of a group with one place that waits through another engine for another member gives its place") {
  with_engines([](Engine& outer, Engine& inner) {
    TaskGroup group(outer, {.limit = 1});
    bool ran = false;
    group.push({.name = "first"}, [&] {
      inner.push({.name = "between"}, [&] { group.push({.name = "second"}, [&] { ran = true; }).wait(); }).wait();
    });
    group.wait();
    CHECK(ran);
  });
}

TEST_CASE(
    "Who waits on top of a body for a Var that this holds gets a Deadlock that names both, whatever lies between") {
  for (const CpuMode mode : {CpuMode::serial, CpuMode::chaos}) {
    Engine outer({.workers = 1});
    Engine inner({.cpu_policy = mode});
    const Var held = outer.new_var();
    std::string text;
    outer
        .push(
            {.name = "holds", .access = {write(held)}},
            [&] { inner.push({.name = "between"}, [&] { text = text_of_error([&] { outer.wait(held); }); }).wait(); })
        .wait();
    CHECK_THAT(text, contains("holds"));
    CHECK_THAT(text, contains("between"));
  }
}

TEST_CASE("Serial engines whose bodies wait through one another run what those wait for, on one thread or on two") {
  for (const CpuMode outer_mode : {CpuMode::serial, CpuMode::chaos}) {
    for (const CpuMode inner_mode : k_all) {
      INFO(to_string(outer_mode) << " outside, " << to_string(inner_mode) << " inside");
      Engine outer({.cpu_policy = outer_mode}), inner({.workers = 1, .cpu_policy = inner_mode});
      int ran = 0;
      outer
          .push(
              {.name = "outside"},
              [&] {
                const auto awaited = [&] { outer.push({.name = "awaited"}, [&] { ++ran; }).wait(); };
                inner.push({.name = "between"}, awaited).wait();
                inner.push({.name = "once more"}, awaited);
                inner.wait_all();
                const Var v = inner.new_var();
                inner.push({.name = "by a Var", .access = {write(v)}}, awaited);
                inner.wait(v);
              })
          .wait();
      CHECK(ran == 3);
    }
  }
}

TEST_CASE("A serial engine three engines down runs what others wait for while the one on top waits") {
  Engine bottom({.cpu_policy = CpuMode::serial}), middle({.cpu_policy = CpuMode::chaos}), top({.workers = 1});
  bool ran = false;
  bottom
      .push(
          {.name = "bottom"},
          [&] {
            middle
                .push(
                    {.name = "middle"},
                    [&] {
                      top.push({.name = "top"}, [&] { bottom.push({.name = "awaited"}, [&] { ran = true; }).wait(); })
                          .wait();
                    })
                .wait();
          })
      .wait();
  CHECK(ran);
}

TEST_CASE("A body that runs on top of an engine's body cannot wait for all of that engine") {
  for (const CpuMode mode : {CpuMode::serial, CpuMode::chaos}) {
    Engine outer({.cpu_policy = mode}), inner({.cpu_policy = mode});
    std::string text;
    outer
        .push(
            {.name = "outside"},
            [&] { inner.push({.name = "between"}, [&] { text = text_of_error([&] { outer.wait_all(); }); }).wait(); })
        .wait();
    CHECK_THAT(text, contains("between"));
    CHECK_THAT(text, contains("outside"));
  }
}
