#include <deque>
#include <string>
#include <vector>

#include "tests/bench/gpu_tasks/gpu_tasks_cuda.h"
#include "tests/bench/support/gpu_kernels.h"
#include "tests/bench/support/rounds.h"
#include "tests/bench/support/stf_patterns.h"

namespace gpu_tasks {

using namespace sluice;
using bench::Contender;

namespace {

/// An engine and the Vars of a graph.
struct Board {
  std::string variant;
  Engine engine;
  std::vector<Var> vars;
  std::uint64_t rounds = 0;

  Board(LaunchMode launch, int items, Device device)
      : variant(message("engine-", to_string(launch))), engine(bench::launched(launch)) {
    for (int i = 0; i < items; ++i)
      vars.push_back(engine.new_var({.home = device}));
  }
};

void push_empty(Board& board, const stf_patterns::Graph& graph, Device device, int turns) {
  ++board.rounds;
  for (int turn = 0; turn < turns; ++turn) {
    for (const stf_patterns::Task& each : graph.tasks) {
      Task task{.name = "empty", .device = device, .access = {write(board.vars[each.target])}, .capturable = true};
      for (int source : each.sources)
        task.access.push_back(read(board.vars[source]));
      board.engine.push(task, [](Queue) {});
    }
  }
}

/// A Var counts its writers: every task must have come through, once a turn.
void check_versions(bench::Report& report, const Board& board, const stf_patterns::Graph& graph, int turns) {
  std::vector<std::uint64_t> expected(board.vars.size(), 0);
  for (const stf_patterns::Task& task : graph.tasks)
    expected[static_cast<std::size_t>(task.target)] += board.rounds * static_cast<std::uint64_t>(turns);
  for (std::size_t i = 0; i < expected.size(); ++i)
    report.expect(board.vars[i].version() == expected[i], message("empty-", graph.name, " ", board.variant));
}

}  // namespace

void empty_tasks(bench::Report& report, const bench::GpuBench& bench, const Settings& settings) {
  for (const char* name : stf_patterns::k_names) {
    const std::string workload = std::string("empty-") + name;
    const stf_patterns::Graph graph = stf_patterns::make_graph(name, settings.width, settings.steps);
    std::deque<Board> boards;
    std::vector<Contender> contenders;
    for (const LaunchMode launch : bench.launches()) {
      Board& board = boards.emplace_back(launch, graph.items, bench.device());
      contenders.push_back(
          {board.variant,
           [&] { push_empty(board, graph, bench.device(), settings.turns); },
           [&board] { board.engine.wait_all(); }});
    }
    bench::compare(report, workload, static_cast<double>(graph.tasks.size()) * settings.turns, "task", contenders);
    for (const Board& board : boards)
      check_versions(report, board, graph, settings.turns);
  }
}

namespace {

constexpr int k_doubles = 16;

/// Two arrays that kernels exchange.
struct Pair {
  bench::GpuArray<double> x{std::vector<double>(k_doubles, 1.0)};
  bench::GpuArray<double> y{std::vector<double>(k_doubles, 2.0)};

  /// After an odd number of exchanges.
  bool exchanged() const {
    return x.values() == std::vector<double>(k_doubles, 2.0) && y.values() == std::vector<double>(k_doubles, 1.0);
  }
};

void push_exchange(Board& board, const Pair& pair, Device device) {
  double *x = pair.x.data(), *y = pair.y.data();
  board.engine.push(
      {.name = "exchange",
       .device = device,
       .access = {write(board.vars[0]), write(board.vars[1])},
       .capturable = true},
      [x, y](Queue queue) { bench::launch_swap(queue.stream(), x, y, k_doubles); });
}

}  // namespace

void kernel_chain(bench::Report& report, const bench::GpuBench& bench, const Settings& settings) {
  const int kernels = 2 * settings.tasks;
  const bench::StreamOwner stream = bench::new_stream();
  const Pair by_hand;
  std::vector<Contender> contenders{
      {"raw-1-stream",
       [&] {
         for (int i = 0; i < kernels; ++i)
           bench::launch_swap(stream.get(), by_hand.x.data(), by_hand.y.data(), k_doubles);
       },
       [&] { bench::wait_for(stream.get()); }}};
  std::deque<Pair> pairs;
  std::deque<Board> boards;
  for (const LaunchMode launch : bench.launches()) {
    Board& board = boards.emplace_back(launch, 2, bench.device());
    const Pair& pair = pairs.emplace_back();
    contenders.push_back(
        {board.variant,
         [&] {
           for (int i = 0; i < kernels; ++i)
             push_exchange(board, pair, bench.device());
         },
         [&board] { board.engine.wait_all(); }});
  }
  bench::compare(report, "stf-kernel-chain", kernels, "kernel", contenders);
  for (std::size_t i = 0; i < boards.size(); ++i) {
    push_exchange(boards[i], pairs[i], bench.device());  // an even number before
    boards[i].engine.wait_all();
    report.expect(pairs[i].exchanged(), "stf-kernel-chain " + boards[i].variant);
  }
}

}  // namespace gpu_tasks
