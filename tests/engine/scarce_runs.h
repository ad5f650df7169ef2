#pragma once

// Runs a program again and again: its first allocation fails, then its second, and so on to the last.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <sluice/engine/detail/block_pool.h>
#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/detail/task_node.h>

#include "tests/engine/expect.h"
#include "tests/engine/scarce_ledger.h"
#include "tests/support/scarce.h"

namespace sluice::test {

/// Calls take() until the heap had to be asked for one, and for all that came with it.
template <class Take>
void take_all(Take take) {
  for (bool asked = false; !asked;) {
    const long before = allocations_here();
    take();
    asked = allocations_here() != before;
  }
  for (int i = 1; i < 64; ++i)
    take();
}

/// Takes all recycled objects, so that whoever needs one has to ask the heap. They are not given back, or each of
/// thousands of runs would take again what all before it took; their memory stays the pools'.
inline void empty_pools() {
  take_all([] { detail::NodePool<detail::TaskNode, &detail::TaskNode::next>::take(); });
  take_all([] { detail::NodePool<detail::VarCore, &detail::VarCore::next_free>::take(); });
  for (const std::size_t bytes : {128, 256, 512})
    take_all([bytes] { detail::take_block(bytes); });
}

struct ScarceRun {
  std::optional<Engine>& engine;
  Ledger& ledger;
};
using ScarceProgram = std::function<void(ScarceRun)>;

/// Each wait_all tells of one failure, once.
inline bool all_reported(Engine& engine) {
  for (int i = 0; i < 100; ++i) {
    try {
      engine.wait_all();
      return true;
    } catch (const Error&) {
    }
  }
  return false;
}

/// One run, in which the n-th allocation fails. What is wrong afterwards; empty if nothing is.
inline std::string run_scarce(
    const EngineOptions& options, const ScarceProgram& program, Scarcity& scarcity, Ledger::Launch launch) {
  empty_pools();
  std::optional<Engine> engine(options);
  auto ledger = std::make_unique<Ledger>(*engine, 8, launch);
  scarcity.arm();
  program({engine, *ledger});
  scarcity.disarm();
  if (!engine.has_value())
    return "";
  std::string wrong = ledger->differs();
  if (wrong.empty() && !all_reported(*engine))
    wrong = "wait_all throws on and on";
  ledger.reset();
  Ledger second(*engine, 4, launch);  // all is well again
  for (int i = 0; i < 32; ++i)
    second.push(
        {{i % 4, Touch::write}, {(i + 1) % 4, Touch::read}},
        i % 3 == 0 ? Ledger::Body::large : Ledger::Body::small,
        {.device = launch != nullptr && i % 2 == 0 ? gpu(0) : cpu()});
  const std::string then_wrong = second.differs();  // which waits for them
  if (wrong.empty() && !then_wrong.empty())
    wrong = "later, " + then_wrong;
  return wrong.empty() && !second.all_ran() ? "later tasks did not run" : wrong;
}

/// Fails each allocation of `program` once, until three runs have had none to fail.
inline void fail_each_allocation(EngineOptions options, const ScarceProgram& program, Ledger::Launch launch = nullptr) {
  options.report_failures = false;
  int failed = 0;
  long n = 1;
  for (int quiet = 0; quiet < 3; ++n) {
    Scarcity scarcity(n);
    const std::string wrong = run_scarce(options, program, scarcity, launch);
    INFO("allocation " << n << " failed: " << scarcity.where());
    REQUIRE(wrong == "");
    failed += scarcity.struck() ? 1 : 0;
    quiet = scarcity.struck() ? 0 : quiet + 1;
  }
  CHECK(failed > 0);
}

}  // namespace sluice::test
