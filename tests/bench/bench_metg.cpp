// How short CPU tasks may be: the task graphs of Task Bench with bodies of 0 to 100 us, and METG(50 %), the time per
// task (threads x wall / tasks) at which half of the peak work rate is kept. Peak is what as many plain threads do.
// The graph is pushed from inside a task, so that the pushing thread is one of the workers; --outside pushes from the
// main thread, with one worker less.
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/api.h>

#include "tests/bench/support/bench.h"
#include "tests/bench/support/metg.h"

namespace {

using namespace sluice;
using task_grid::Grid;
using task_grid::Point;

class PoolSystem final : public metg::System {
 public:
  PoolSystem(int threads, int width, bool outside)
      : outside_(outside), engine_({.workers = outside ? std::max(1, threads - 1) : threads}) {
    for (int i = 0; i < 2 * width; ++i)
      vars_.push_back(engine_.new_var());
  }

  void run(const Grid& grid, std::uint64_t* cells, std::int64_t turns) override {
    if (outside_)
      push_all(grid, cells, turns);
    else
      engine_.push({.name = "pusher"}, [&, cells, turns] { push_all(grid, cells, turns); }).wait();
    engine_.wait_all();
  }

 private:
  void push_all(const Grid& grid, std::uint64_t* cells, std::int64_t turns) {
    for (const Point& point : grid.points) {
      Task task{.name = "point", .access = {out(vars_[static_cast<std::size_t>(point.target)])}};
      for (int source : grid.sources_of(point))
        task.access.push_back(read(vars_[static_cast<std::size_t>(source)]));
      engine_.push(task, [&grid, &point, cells, turns] { run_point(grid, point, cells, turns); });
    }
  }

  bool outside_;
  Engine engine_;
  std::vector<Var> vars_;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_metg", "How short CPU tasks may be: METG(50 %) on the task graphs of Task Bench");
  metg::Settings settings;
  bool outside = false;
  report.flag("--threads", settings.threads, "Threads in all, the pushing one included; 0 = all cores");
  report.flag("--width", settings.width, "Points in a row, a power of two; 0 = 16, or more on many threads");
  report.flag("--outside", outside, "Push from the main thread, not from inside a task");
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (settings.threads <= 0)
    settings.threads = Engine().workers();
  settings.width = metg::usable_width(settings.width, settings.threads);
  settings.repeats = report.options().repeats;
  settings.smoke = report.options().smoke;

  const std::string variant = "pool-" + std::to_string(settings.threads) + "t" + (outside ? "-outside" : "");
  report.add("setting", variant, "width", settings.width, "points");
  PoolSystem pool(settings.threads, settings.width, outside);
  for (const char* name : task_grid::k_names) {
    if (!report.wants(name, variant))
      continue;
    const bool good = metg::sweep(
        settings,
        name,
        pool,
        [&](const std::string& workload, const std::string& metric, double value, const std::string& unit) {
          report.add(workload, variant, metric, value, unit);
        });
    report.expect(good, "metg " + variant + " " + name);
  }
  return report.finish();
}
