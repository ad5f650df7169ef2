// Peer of bench_metg: OpenMP tasks with depend clauses; one thread of the team pushes, then runs tasks like the others.
#include <omp.h>

#include "tests/bench/peers/peer.h"

namespace {

using task_grid::Grid;
using task_grid::Point;

class OpenMp final : public metg::System {
 public:
  explicit OpenMp(int threads) : threads_(threads) {}

  void run(const Grid& grid, std::uint64_t* cells, std::int64_t turns) override {
    const Grid* shared_grid = &grid;
#pragma omp parallel num_threads(threads_)
#pragma omp single
    {
      for (const Point& point : shared_grid->points) {
        const Point* here = &point;
        const int* sources = shared_grid->sources_of(point).data();
        const int count = static_cast<int>(point.sources);
        [[maybe_unused]] std::uint64_t* target = cells + point.target;
        if (count == 0) {
#pragma omp task firstprivate(shared_grid, here, cells, turns) depend(out : target[0])
          run_point(*shared_grid, *here, cells, turns);
        } else {
#pragma omp task firstprivate(shared_grid, here, cells, turns) depend(out                                    \
                                                                      : target[0]) depend(iterator(k = 0     \
                                                                                                   : count), \
                                                                                          in                 \
                                                                                          : cells[sources[k]])
          run_point(*shared_grid, *here, cells, turns);
        }
      }
#pragma omp taskwait
    }
  }

 private:
  int threads_;
};

}  // namespace

int main(int argc, char** argv) {
  const peer::Options options = peer::parse(argc, argv);
  OpenMp system(options.settings.threads);
  return peer::run(options, "openmp", system);
}
