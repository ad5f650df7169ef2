// Memory that runs out while a task is made: see test_scarce.cpp.
#include <array>
#include <optional>
#include <vector>

#include "tests/engine/scarce_runs.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("T48: a push that finds no memory for its task gives the room for its accesses back") {
  Engine engine({.workers = 1, .cpu_policy = CpuMode::serial});
  std::array<Var, 6> vars;
  AccessList access;
  for (Var& var : vars) {
    var = engine.new_var();
    access.push_back(write(var));
  }
  empty_pools();
  constexpr std::size_t k_bytes = 6 * sizeof(detail::AccessNode);
  detail::give_block(detail::take_block(k_bytes), k_bytes);  // a slab of which all is free
  Scarcity scarcity(1);
  scarcity.arm();
  const bool lacked = lacks_memory([&] { engine.push({.name = "many", .access = access}, [] {}); });
  scarcity.disarm();
  REQUIRE(lacked);
  std::vector<void*> blocks(64);
  const long before = allocations_here();
  for (void*& block : blocks)
    block = detail::take_block(k_bytes);
  CHECK(allocations_here() == before);
  for (void* block : blocks)
    detail::give_block(block, k_bytes);
}

TEST_CASE("T48: no push fails because a trace finds no memory for a task's estimates") {
  for (long n = 1, quiet = 0; quiet < 3; ++n) {
    Engine engine({.workers = 1, .cpu_policy = CpuMode::serial});
    engine.push({.name = "first"}, [] {});
    engine.start_trace();
    empty_pools();
    std::optional<detail::TaskNode*> node = detail::NodePool<detail::TaskNode, &detail::TaskNode::next>::take();
    detail::NodePool<detail::TaskNode, &detail::TaskNode::next>::give(*node);  // a task is to be had
    Scarcity scarcity(n);
    bool ran = false;
    scarcity.arm();
    const bool lacked =
        lacks_memory([&] { engine.push({.name = "estimated", .bytes = 1, .work = 1}, [&] { ran = true; }); });
    scarcity.disarm();
    INFO("allocation " << n << " failed: " << scarcity.where());
    CHECK(!lacked);
    CHECK(ran);
    quiet = scarcity.struck() ? 0 : quiet + 1;
    engine.stop_trace();
  }
}
