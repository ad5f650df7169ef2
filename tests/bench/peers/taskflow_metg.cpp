// Peer of bench_metg: Taskflow, which knows tasks and edges but no data, so the edges are derived here. Three ways:
// dependent_async, pushed from inside a task; a task graph built and run; a task graph built before, only run.
#include <memory>
#include <taskflow/taskflow.hpp>
#include <vector>

#include "tests/bench/peers/peer.h"

namespace {

using task_grid::Grid;
using task_grid::Point;

/// Who wrote a cell last, and who has read it since.
template <class Handle>
struct Cell {
  Handle writer;
  std::vector<Handle> readers;
};

/// Calls before(handle) for each task that a point waits for.
template <class Handle, class Before>
void each_predecessor(std::vector<Cell<Handle>>& cells, const Grid& grid, const Point& point, Before before) {
  Cell<Handle>& target = cells[static_cast<std::size_t>(point.target)];
  for (Handle& reader : target.readers)
    before(reader);
  if (target.readers.empty() && !target.writer.empty())
    before(target.writer);
  for (int source : grid.sources_of(point)) {
    if (Handle& writer = cells[static_cast<std::size_t>(source)].writer; !writer.empty())
      before(writer);
  }
}

template <class Handle>
void enter(std::vector<Cell<Handle>>& cells, const Grid& grid, const Point& point, const Handle& task) {
  Cell<Handle>& target = cells[static_cast<std::size_t>(point.target)];
  target.writer = task;
  target.readers.clear();
  for (int source : grid.sources_of(point))
    cells[static_cast<std::size_t>(source)].readers.push_back(task);
}

class Async final : public metg::System {
 public:
  explicit Async(int threads) : executor_(static_cast<std::size_t>(threads)) {}

  void run(const Grid& grid, std::uint64_t* cells, std::int64_t turns) override {
    executor_.silent_async([&, cells, turns] { push_all(grid, cells, turns); });
    executor_.wait_for_all();
  }

 private:
  void push_all(const Grid& grid, std::uint64_t* cells, std::int64_t turns) {
    std::vector<Cell<tf::AsyncTask>> state(2 * static_cast<std::size_t>(grid.width));
    std::vector<tf::AsyncTask> before;
    for (const Point& point : grid.points) {
      before.clear();
      each_predecessor(state, grid, point, [&](const tf::AsyncTask& task) { before.push_back(task); });
      const tf::AsyncTask task = executor_.silent_dependent_async(
          [&grid, &point, cells, turns] { run_point(grid, point, cells, turns); }, before.begin(), before.end());
      enter(state, grid, point, task);
    }
  }

  tf::Executor executor_;
};

class Graph final : public metg::System {
 public:
  Graph(int threads, bool reused) : reused_(reused), executor_(static_cast<std::size_t>(threads)) {}

  void prepare(const Grid& grid, std::uint64_t* cells, std::int64_t turns) override {
    flow_ = std::make_unique<tf::Taskflow>();
    std::vector<Cell<tf::Task>> state(2 * static_cast<std::size_t>(grid.width));
    for (const Point& point : grid.points) {
      tf::Task task = flow_->emplace([&grid, &point, cells, turns] { run_point(grid, point, cells, turns); });
      each_predecessor(state, grid, point, [&](tf::Task& before) { before.precede(task); });
      enter(state, grid, point, task);
    }
  }

  void run(const Grid& grid, std::uint64_t* cells, std::int64_t turns) override {
    if (!reused_)
      prepare(grid, cells, turns);
    executor_.run(*flow_).wait();
  }

 private:
  bool reused_;
  tf::Executor executor_;
  std::unique_ptr<tf::Taskflow> flow_;
};

}  // namespace

int main(int argc, char** argv) {
  const peer::Options options = peer::parse(argc, argv);
  const int threads = options.settings.threads;
  int code = 0;
  {
    Async system(threads);
    code |= peer::run(options, "taskflow-async", system);
  }
  {
    Graph system(threads, false);
    code |= peer::run(options, "taskflow-graph", system);
  }
  Graph system(threads, true);
  return code | peer::run(options, "taskflow-reused", system);
}
