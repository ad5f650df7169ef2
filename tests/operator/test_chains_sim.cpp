// Where the results of calls lie that follow each other while the GPU is behind: on the simulated GPU alone, which runs
// when it is told to.
#include <set>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/cuda_sim/sim.h"

using namespace sluice;

TEST_CASE("A chain of calls on large arrays goes to and fro in little memory while the GPU is behind", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine;
  const EngineScope scope(engine);
  Storage::of(engine).configure({.device = "bucket"});  // pieces stay as they are
  constexpr std::size_t k_chains = 3;
  NDArray results[k_chains];
  for (NDArray& x : results)
    x = full({256, 1024}, 1, {.device = gpu()});
  engine.wait_all();
  test::sim::set_manual(true);
  std::set<const void*> places[k_chains];
  for (std::size_t chain = 0; chain < k_chains; ++chain) {
    NDArray& x = results[chain];
    for (int step = 0; step < 20; ++step) {
      x = relu(x + 1);
      places[chain].insert(x.object()->data());
    }
  }
  test::sim::set_manual(false);
  for (std::size_t chain = 0; chain < k_chains; ++chain) {
    CAPTURE(chain);
    CHECK(places[chain].size() <= 16);  // some where the first tasks go, some where each batch does
    CHECK(results[chain].to_vector<float>() == std::vector<float>(256 * 1024, 21));
  }
}
