// T6: the Var protocol, its read gate, the ring, the lock and what goes through the node pool's depot, what is read
// while it is exchanged, and falling asleep with weak memory, by Relacy, which runs each many times and chooses at
// random who goes on and what a load sees. Usage: test_weak [rounds]
//
// No main of Catch here: Relacy watches the heap of the whole program.
#include <cstdlib>

#include "tests/engine/model/weak/commute_suite.h"
#include "tests/engine/model/weak/depot_suite.h"
#include "tests/engine/model/weak/kits.h"
#include "tests/engine/model/weak/published_suite.h"
#include "tests/engine/model/weak/ring_suite.h"
#include "tests/engine/model/weak/scripts.h"
#include "tests/engine/model/weak/wake_suite.h"
#include "tests/engine/model/weakened.h"

namespace {

using namespace sluice::weak;

unsigned rounds = 150'000;
int passed = 0, failed = 0;

void report(bool good, const char* what) {
  ++(good ? passed : failed);
  std::printf("%s: %s\n", good ? "passed" : "FAILED", what);
}

void must_hold(const char* what, bool (*explore)(unsigned, bool)) {
  report(explore(rounds, false), what);
}

void must_be_found(const char* fault, bool (*explore)(unsigned, bool)) {
  bool found = false;
  for (unsigned tried = 1000; !found && tried <= 10 * rounds; tried *= 10)
    found = !explore(tried, true);
  report(found, (std::string("found: ") + fault).c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1)
    rounds = static_cast<unsigned>(std::atoi(argv[1]));
  must_hold("T6: Var, counted readers and writers", explore<VarSuite<AsItIs, k_counted>>);
  must_hold("T6: Var, two readers and a writer", explore<VarSuite<AsItIs, k_readers_and_writer>>);
  must_hold("T6: Var, a reader after a reader", explore<VarSuite<AsItIs, k_reader_after_reader>>);
  must_hold("T6: Var, readers through the gate and a writer", explore<VarSuite<AsItIs, k_gated>>);
  must_hold("T6: Var, two tasks that read each other's output", explore<VarSuite<AsItIs, k_crossing>>);
  must_hold("T6: Var, the last handle goes", explore<VarSuite<AsItIs, k_dropped>>);
  must_hold("T6: Var, the last handle goes behind a gate", explore<VarSuite<AsItIs, k_dropped_gated>>);
  must_hold("T6: commuting, one Var", explore<commuting::Suite<AsItIs, commuting::k_one_var>>);
  must_hold("T6: commuting, runs of one Var", explore<commuting::Suite<AsItIs, commuting::k_runs>>);
  must_hold("T6: commuting, two Vars", explore<commuting::Suite<AsItIs, commuting::k_two_vars>>);
  must_hold("T6: commuting, two Vars, one of them late", explore<commuting::Suite<AsItIs, commuting::k_waiting>>);
  must_hold("T6: commuting, two Vars, without patience", explore<commuting::Suite<AsItIs, commuting::k_keeping>>);
  must_hold("T6: commuting, something behind a run", explore<commuting::Suite<AsItIs, commuting::k_behind>>);
  must_hold("T6: commuting, a run that opens", explore<commuting::Suite<AsItIs, commuting::k_opening>>);
  must_hold("T6: commuting, two Vars, passed on", explore<commuting::Suite<AsItIs, commuting::k_passing>>);
  must_hold("T6: ring", explore<RingSuite<AsItIs>>);
  must_hold("T6: nodes that others give back", explore<DepotSuite<AsItIs, DepotFault::none>>);
  must_hold("T6: exchanged while it is read", explore<PublishedSuite<AsItIs, PublishedFault::none>>);
  must_hold("T6: falling asleep", explore<WakeSuite<WakeFault::none>>);

  SLUICE_FOR_ALL_WEAKENED(must_be_found);
  must_be_found(
      "the depot is taken from without its lock", explore<DepotSuite<AsItIs, DepotFault::takes_without_lock>>);
  must_be_found("the depot is given to without its lock", explore<DepotSuite<AsItIs, DepotFault::gives_without_lock>>);
  must_be_found("a batch keeps the link behind it", explore<DepotSuite<AsItIs, DepotFault::keeps_link>>);
  must_be_found(
      "readers are looked for before the exchange",
      explore<PublishedSuite<AsItIs, PublishedFault::looks_before_exchanging>>);
  must_be_found("no light fence", explore<WakeSuite<WakeFault::no_light_fence>>);
  must_be_found("no heavy fence", explore<WakeSuite<WakeFault::no_heavy_fence>>);
  must_be_found("looking before announcing", explore<WakeSuite<WakeFault::looks_before_announcing>>);
  for (const char* name : std::initializer_list<const char*> SLUICE_UNAPPLIED_WEAKENINGS)
    report(false, (std::string("weaken.py no longer fits: ") + name).c_str());
  std::printf("test cases: %d passed, %d failed, 0 skipped\n", passed, failed);
  return failed > 0 ? 1 : 0;
}
