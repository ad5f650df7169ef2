// What a predictor asks of CUDA, and what it makes of refusals: on the simulated GPU alone.
#include <map>
#include <string>
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/gluon/support.h"
#include "tests/support/child.h"
#include "tests/support/cuda_sim/sim.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Predictor;

namespace {

struct Asked {
  gluon::nn::Sequential net = sample_network("tf");
  std::vector<float> x = pattern(144), y = std::vector<float>(10), wanted;

  Asked() {
    net.initialize(gluon::init::Xavier(), gpu(0));
    wanted = values(net(array(x, {1, 1, 12, 12}, gpu(0))));
  }
  void ask(const Predictor& predict) {
    std::fill(y.begin(), y.end(), -1.0f);
    predict(x, y);
    check_near(y, wanted, 1e-4);
  }
};

}  // namespace

TEST_CASE("A request makes one call of CUDA: a launch", "[gluon][predictor][gpu]") {
  Asked asked;
  const Predictor predict(asked.net, zeros({1, 1, 12, 12}, {.device = gpu(0)}));
  for (int i = 0; i < 3; ++i)
    asked.ask(predict);
  Engine::current().wait_all();
  constexpr int k_requests = 20;
  sim::clear_calls();
  for (int i = 0; i < k_requests; ++i)
    predict(asked.x, asked.y);
  const std::map<std::string, int> calls = sim::calls();
  CHECK(predict.counts().launched == 3 + k_requests);
  CHECK(calls.at("cudaGraphLaunch") == k_requests);
  for (const auto& [name, count] : calls) {
    CAPTURE(name, count);
    CHECK(
        (name == "cudaGraphLaunch" || name == "cudaGetDevice" || name == "cudaSetDevice" ||
         name == "cudaPeekAtLastError" || name == "cudaStreamSynchronize"));
  }
}

TEST_CASE("What CUDA does not launch is computed by tasks", "[gluon][predictor][gpu]") {
  Asked asked;
  const Predictor predict(asked.net, zeros({1, 1, 12, 12}, {.device = gpu(0)}));
  asked.ask(predict);
  const auto launched = predict.counts().launched;
  sim::fail_nth("cudaGraphLaunch", 1, cudaErrorLaunchOutOfResources);
  asked.ask(predict);
  CHECK(sim::failed_call() == "cudaGraphLaunch");
  CHECK(predict.counts().launched == launched);
  CHECK(predict.counts().pushed == 1);
  asked.ask(predict);
  CHECK(predict.counts().launched == launched + 1);
}

TEST_CASE("A capture that CUDA refuses is tried again later", "[gluon][predictor][gpu]") {
  Asked asked;
  for (const char* call : {"cudaHostAlloc", "cudaStreamCreateWithFlags"}) {
    CAPTURE(call);
    const Predictor predict(asked.net, zeros({1, 1, 12, 12}, {.device = gpu(0)}));
    sim::fail_nth(call, 1, cudaErrorMemoryAllocation);
    for (int i = 0; i < 6; ++i)
      asked.ask(predict);
    CHECK(predict.counts().launched > 0);
    CHECK(predict.counts().pushed > 0);
  }
}

TEST_CASE("Requests to a lost GPU, alone", "[.][gluon_lost]") {
  Asked asked;
  const Predictor predict(asked.net, zeros({1, 1, 12, 12}, {.device = gpu(0)}));
  asked.ask(predict);
  sim::lose_device(0);
  for (int i = 0; i < 3; ++i)
    CHECK_THROWS_AS(predict(asked.x, asked.y), CudaError);
}
TEST_CASE("A request to a lost GPU is told so", "[gluon][predictor][gpu]") {
  CHECK(run_case_alone("[gluon_lost]") == 0);
}
