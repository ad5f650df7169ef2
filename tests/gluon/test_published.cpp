// What threads read without a lock while others exchange it, and hybridized blocks, which find their programs so.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <sluice/engine/detail/published.h>

#include "tests/gluon/support.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using sluice::detail::Published;

namespace {

/// Counts those that live, and knows when it is dead.
struct Counted {
  static inline std::atomic<int> alive{0};
  int a, b;
  explicit Counted(int value) : a(value), b(-value) { ++alive; }
  ~Counted() {
    a = b = 1;
    --alive;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
};
using Reading = Published<Counted>::Reading;

}  // namespace

TEST_CASE("What was exchanged stays for who reads it, and goes after", "[gluon][published]") {
  {
    Published<Counted> shared;
    CHECK_FALSE(Reading(shared));
    CHECK(shared.publish(std::make_unique<Counted>(1)).empty());
    std::optional<Reading> first(std::in_place, shared), again(std::in_place, shared);
    CHECK(shared.publish(std::make_unique<Counted>(2)).empty());
    CHECK((*first)->a == 1);
    CHECK(Reading(shared)->a == 2);
    first.reset();
    CHECK(shared.publish(std::make_unique<Counted>(3)).size() == 1);  // 2; somebody reads 1 still
    CHECK((*again)->a == 1);
    again.reset();
    CHECK(shared.publish(std::make_unique<Counted>(4)).size() == 2);
    CHECK(Counted::alive == 1);
  }
  CHECK(Counted::alive == 0);
}

TEST_CASE("Threads that read see nothing that has gone", "[gluon][published][concurrent]") {
  {
    Published<Counted> shared;
    CHECK(shared.publish(std::make_unique<Counted>(0)).empty());
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0}, begun{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 3; ++t) {
      readers.emplace_back([&] {
        int before = 0;
        ++begun;
        while (!stop) {
          const Reading outer(shared);
          const Reading inner(shared);
          wrong += outer->a != -outer->b || inner->a < outer->a || outer->a < before;
          before = inner->a;
        }
      });
    }
    while (begun < 3)
      std::this_thread::yield();
    for (int i = 1; i <= 3000; ++i)
      shared.publish(std::make_unique<Counted>(i)).clear();
    stop = true;
    for (std::thread& reader : readers)
      reader.join();
    CHECK(wrong == 0);
    CHECK(shared.publish(std::make_unique<Counted>(9)).size() >= 1);
    CHECK(Counted::alive == 1);
  }
  CHECK(Counted::alive == 0);
}

namespace {

namespace nn = gluon::nn;

NDArray rows(int n) {
  return full({n, 5}, 0.1f * static_cast<float>(n));
}

}  // namespace

TEST_CASE("Programs used longest ago go, while others are run by many threads", "[gluon][hybrid][concurrent]") {
  nn::Sequential net;
  net.add(nn::Dense(8, {.activation = "relu"}), nn::Dense(4));
  net.initialize(gluon::init::Xavier());
  std::vector<std::vector<float>> wanted;
  for (int n = 1; n <= 4; ++n)
    wanted.push_back(values(net(rows(n))));
  net.hybridize(true, {.most_plans = 2, .batch_sizes = gluon::BatchSizes::each});
  for (const int n : {1, 2, 1, 3, 1})  // 3 takes the place of 2
    CHECK(values(net(rows(n))) == wanted[static_cast<std::size_t>(n - 1)]);
  CHECK(net.hybrid_traces() == 3);
  net(rows(2));
  CHECK(net.hybrid_traces() == 4);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        const int n = 1 + (t + i / 3) % 4;
        wrong += values(net(rows(n))) != wanted[static_cast<std::size_t>(n - 1)];
        if (i % 6 == 5)
          nn::Dense other(3);  // networks that change elsewhere have the parameters listed anew
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("Memory of results that another thread has read serves again", "[gluon][hybrid][concurrent]") {
  nn::Sequential net;
  net.add(nn::Dense(16));
  net.initialize(gluon::init::Xavier());
  const NDArray x = rows(2);
  const std::vector<float> wanted = values(net(x));
  net.hybridize();
  net(x);
  std::mutex mutex;
  std::optional<NDArray> handed;
  std::atomic<int> wrong{0}, read{0};
  std::thread reader([&] {
    while (read < 200) {
      std::optional<NDArray> mine;
      {
        const std::lock_guard hold(mutex);
        mine.swap(handed);
      }
      if (!mine)
        continue;
      wrong += values(*mine) != wanted;
      mine.reset();
      ++read;
    }
  });
  for (int made = 0; made < 200;) {
    NDArray result = net(x);
    const std::lock_guard hold(mutex);
    if (!handed) {
      handed = std::move(result);
      ++made;
    }
  }
  reader.join();
  CHECK(wrong == 0);
}
