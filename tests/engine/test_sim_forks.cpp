// Branches in batches of GPU tasks: what forks runs side by side, what joins waits, on the simulated CUDA runtime.
#include <atomic>
#include <vector>

#include "tests/engine/sim_run.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Word = std::uint64_t;

/// A program that pushes to one GPU, which does nothing yet, so that batches are as large as they get and may branch.
/// All its tasks have one name and two accesses: no pair of them looks like the end of a batch.
class Behind {
 public:
  explicit Behind(const sim::Options& options) : sim_(options) {
    sim_.keep_batches_open();
    for (int i = 0; i < 4 + 5 + 10 + 20; ++i)
      push(idle_, read(nothing_), [] {});
  }

  Engine& engine() { return engine_; }
  Var var() { return engine_.new_var(); }
  template <class Kernel>
  void push(const Var& to, const Access& other, Kernel kernel) {
    engine_.push(
        {.name = "step", .device = gpu(0), .access = {write(to), other}, .capturable = true},
        [kernel](Queue queue) { sim_launch(queue, kernel); });
  }
  void push(const Var& to) {
    push(to, read(nothing_), [] {});
  }
  void finish() {
    engine_.flush();
    sim::set_manual(false);
    engine_.wait_all();
  }

 private:
  Sim sim_;
  Engine engine_{{.workers = 1}};
  Var idle_ = engine_.new_var(), nothing_ = engine_.new_var();
};

int launches() {
  return sim::calls("cudaGraphLaunch");
}
int new_edges() {
  return sim::calls("cudaStreamUpdateCaptureDependencies");
}

}  // namespace

TEST_CASE("What forks from one task in a batch runs side by side, and what joins comes after all of it", "[sim]") {
  constexpr int k_branches = 4, k_length = 6;
  Behind behind({.devices = 2, .executors = 8, .manual = true});
  Word source = 1, words[k_branches] = {};
  const Meeting meeting(k_branches);
  std::atomic<bool> met{true};
  const Var from = behind.var();
  std::vector<Var> branches;
  for (int i = 0; i < k_branches; ++i)
    branches.push_back(behind.var());
  const int before = launches();
  behind.push(from, read(branches[0]), [&] { source = 5; });
  for (int i = 0; i < k_branches; ++i) {  // one branch after the other: each forks from the middle of what is there
    Word& word = words[i];
    behind.push(branches[static_cast<std::size_t>(i)], read(from), [&] {
      if (!meeting.join())
        met = false;
      word = source;
    });
    for (int k = 1; k < k_length; ++k)
      behind.push(branches[static_cast<std::size_t>(i)], read(from), [&] { word = 3 * word + 1; });
  }
  for (int i = 0; i < k_branches; ++i)
    behind.push(from, read(branches[static_cast<std::size_t>(i)]), [&, i] { source = 7 * source + words[i]; });
  behind.finish();
  CHECK(launches() == before + 1);
  CHECK(met);
  Word branch = 5, joined = 5;
  for (int k = 1; k < k_length; ++k)
    branch = 3 * branch + 1;
  for (Word word : words) {
    CHECK(word == branch);
    joined = 7 * joined + branch;
  }
  CHECK(source == joined);
}

TEST_CASE("A task of a batch does not name what it comes after anyway", "[sim]") {
  Behind behind({.devices = 2, .manual = true});
  const Var p = behind.var(), q = behind.var();
  behind.push(p);
  behind.push(q);
  const int apart = new_edges();
  behind.push(q, read(p), [] {});
  CHECK(new_edges() == apart + 1);
  behind.push(q, read(p), [] {});
  CHECK(new_edges() == apart + 1);
  behind.finish();
}

TEST_CASE("A body that waits for a step of its own batch comes after it, and not after what follows there", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {  // any of them may come in order by luck
    CAPTURE(seed);
    Behind behind({.devices = 2, .seed = seed, .executors = 8, .manual = true});
    const Var p = behind.var(), q = behind.var();
    const Meeting meeting(2);
    std::atomic<bool> met{true};
    Word made = 0, seen = 0;
    PositionSet first;
    const auto task = [](const Var& var) {
      return Task{.name = "step", .device = gpu(0), .access = {write(var), read(var)}, .capturable = true};
    };
    const int before = launches();
    behind.engine().push(task(p), [&](Queue queue) {
      first.add(queue.position());
      sim_launch(queue, [&] { made = 5; });
    });
    behind.push(p, read(p), [&] {
      if (!meeting.join())
        met = false;
    });
    behind.engine().push(task(q), [&](Queue queue) {
      queue.wait_for(first);
      sim_launch(queue, [&] {
        seen = made;
        if (!meeting.join())
          met = false;
      });
    });
    behind.finish();
    CHECK(launches() == before + 1);
    CHECK(seen == 5);
    CHECK(met);
  }
}

// Which fails of it: what comes after that body does not come after what it would have waited for.
TEST_CASE("A body that cannot wait for a step of its own batch is not taken for one that did", "[sim]") {
  Behind behind({.devices = 2, .manual = true});
  const Var p = behind.var(), q = behind.var();
  PositionSet first;
  behind.engine().push(
      {.name = "step", .device = gpu(0), .access = {write(p), read(p)}, .capturable = true}, [&](Queue queue) {
        first.add(queue.position());
        sim_launch(queue, [] {});
      });
  behind.push(q);
  behind.engine().push(
      {.name = "step", .device = gpu(0), .access = {write(q), read(q)}, .capturable = true}, [&](Queue queue) {
        static_cast<void>(queue.stream());
        sim::fail_nth("cudaStreamUpdateCaptureDependencies", 1, cudaErrorUnknown);
        queue.wait_for(first);
      });
  CHECK(sim::failed_call() == "cudaStreamUpdateCaptureDependencies");
  const int edges = new_edges();
  behind.engine().push(
      {.name = "step", .device = gpu(0), .access = {out(q), read(p)}, .capturable = true},
      [](Queue queue) { sim_launch(queue, [] {}); });
  CHECK(new_edges() == edges + 1);
  CHECK_THROWS_AS(behind.finish(), CudaError);
}

TEST_CASE("A large batch ends where its branches join", "[sim]") {
  constexpr int k_branches = 4, k_length = 9;
  Behind behind({.devices = 2, .manual = true});
  const Var from = behind.var();
  std::vector<Var> branches;
  for (int i = 0; i < k_branches; ++i)
    branches.push_back(behind.var());
  for (int round = 0; round < 3; ++round) {
    const int before = launches();
    for (const Var& branch : branches) {
      behind.push(branch, read(from), [] {});
      for (int k = 1; k < k_length; ++k)
        behind.push(branch);
    }
    for (int i = 0; i < k_branches; ++i) {
      CAPTURE(round, i);
      CHECK(launches() == before);
      behind.push(from, read(branches[static_cast<std::size_t>(i)]), [] {});
    }
    CHECK(launches() == before + 1);
  }
  behind.finish();
}

namespace {

/// Pushes to `chains` in an order that is drawn anew for each batch, until that is launched; `halfway` is called
/// before. How many edges it had besides those along its lanes.
template <class Halfway>
int edges_of_batch(Behind& behind, const std::vector<Var>& chains, int batch, Halfway halfway) {
  const int edges = new_edges(), graphs = launches();
  for (int i = 0; launches() == graphs; ++i) {
    if (i == 16)
      halfway();
    behind.push(chains[mix(static_cast<std::uint64_t>(1000 * batch + i)) % chains.size()]);
  }
  return new_edges() - edges;
}

std::vector<Var> five(Behind& behind) {
  std::vector<Var> vars;
  for (int i = 0; i < 5; ++i)
    vars.push_back(behind.var());
  return vars;
}

}  // namespace

TEST_CASE("Branches that are different each time are kept while the GPU is busy all along", "[sim]") {
  Behind behind({.devices = 2, .manual = true});
  const std::vector<Var> chains = five(behind);
  for (int batch = 0; batch < 40; ++batch)
    CHECK(edges_of_batch(behind, chains, batch, [] {}) > 0);
  behind.finish();
}

// Every other batch finds the GPU busy when it begins, and idle when its graph, a new one, has been made.
TEST_CASE("Branches that are different each time are given up if the GPU has to wait for that", "[sim]") {
  Behind behind({.devices = 2, .manual = true});
  const std::vector<Var> chains = five(behind);
  const auto edges_of_pair = [&](int batch) {
    edges_of_batch(behind, chains, batch, [] {});
    return edges_of_batch(behind, chains, batch + 1, [] { sim::run_all(); });
  };
  CHECK(edges_of_pair(0) > 0);
  for (int batch = 2; batch < 60; batch += 2)
    edges_of_pair(batch);
  CHECK(edges_of_pair(60) == 0);
  behind.finish();
}
