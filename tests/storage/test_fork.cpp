// Pools in a forked child: whichever thread of the parent was in a pool, the child finds its lock free.
#include <atomic>
#include <fstream>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/storage/api.h>

#include "tests/storage/fakes.h"
#include "tests/support/child.h"

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads

using namespace sluice;
using namespace sluice::test;

namespace {

/// A pool asks this under its lock: whoever asks is kept there until the gate opens.
struct Gatekeeper final : detail::Passage {
  bool passed(const PositionSet&) const noexcept override {
    inside = true;
    while (!open)
      std::this_thread::yield();
    return true;
  }
  void wait_passed(const PositionSet&) override {}
  void relieve(Device) override {}
  mutable std::atomic<bool> inside{false};
  std::atomic<bool> open{false};
};

// That thread of this process waits for something, as the system sees it.
bool is_asleep(long thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_ends = line.rfind(')');
  return name_ends != std::string::npos && line.compare(name_ends + 2, 1, "S") == 0;
}

int takes_and_gives(Pool& pool) {
  Chunk chunk = pool.acquire(256);
  const bool there = chunk.data != nullptr;
  pool.release(std::move(chunk));
  return there ? 0 : 1;
}

}  // namespace

TEST_CASE("a child that was forked while another thread held a pool's lock can use the pool", "[storage][fork]") {
  std::atomic<std::size_t> out{0};
  Gatekeeper keeper;
  detail::SplitPool pool(keeper, std::make_unique<BoundedSource>(1 << 24, out), {});
  Chunk used = pool.acquire(256);
  used.pending.add(Position(1, 5));
  pool.release(std::move(used));
  std::thread holder([&] { takes_and_gives(pool); });  // and is asked whether the position has passed
  while (!keeper.inside)
    std::this_thread::yield();
  // The holder goes on when the fork waits for it; where nothing makes it wait, only once there is a child.
  std::atomic<bool> forked{false};
  const long forker = syscall(SYS_gettid);
  std::thread opener([&] {
    while (!forked && !is_asleep(forker))
      std::this_thread::yield();
    keeper.open = true;
  });
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    keeper.open = true;
    _exit(takes_and_gives(pool));
  }
  forked = true;
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  opener.join();
  holder.join();
  CHECK(takes_and_gives(pool) == 0);
}

TEST_CASE("children of a program that allocates all the time allocate too", "[storage][fork]") {
  Engine engine({.workers = 1});
  Pool& pool = Storage::of(engine).pool(cpu());
  std::atomic<bool> enough{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!enough)
        takes_and_gives(pool);
    });
  }
  int failed = 0;
  for (int round = 0; round < 200 && failed == 0; ++round) {
    failed += in_child([&] {
      alarm(10);
      return takes_and_gives(pool);
    });
  }
  CHECK(failed == 0);
  enough = true;
  for (std::thread& thread : threads)
    thread.join();
}

TEST_CASE("what other threads were getting or giving back is not counted in a child", "[storage][fork]") {
  std::atomic<std::size_t> out{0};
  std::atomic<bool> inside{false}, open{false};
  Clock clock;
  const auto on_deallocate = [&] {
    inside = true;
    while (!open)
      std::this_thread::yield();
  };
  detail::SplitPool pool(clock, std::make_unique<BoundedSource>(1 << 24, out, on_deallocate), {});
  takes_and_gives(pool);
  const std::size_t reserved = pool.stats().reserved;
  REQUIRE(reserved > 0);
  std::thread giver([&] { pool.trim(); });
  while (!inside)
    std::this_thread::yield();
  CHECK(pool.stats().reserved == reserved);  // on its way
  CHECK(in_child([&] { return pool.stats().reserved == 0 ? 0 : 1; }) == 0);
  open = true;
  giver.join();
  CHECK(pool.stats().reserved == 0);
}

#endif
