// A server whose requests get no memory: they throw, and nobody else notices.
#include <new>
#include <vector>

#include <sluice/sluice.h>

#include "tests/support/catch.h"
#include "tests/support/scarce.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Server;
namespace nn = gluon::nn;

TEST_CASE("A request that gets no memory throws, and the server goes on", "[gluon][server]") {
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  nn::Dense net(2, {.use_bias = false, .in_units = 3});
  net.initialize(gluon::init::One());
  Server server(net, {.sample = {3}, .max_batch = 2, .threads = 1});
  const std::vector<float> x{1, 2, 3}, wanted{6, 6};
  server.submit(x).wait();
  int thrown = 0;
  for (long nth = 1; nth <= 12; ++nth) {
    CAPTURE(nth);
    gluon::ServerReply reply;
    Scarcity scarcity(nth);
    scarcity.arm();
    try {
      reply = server.submit(x);
      reply.wait();
    } catch (const std::bad_alloc&) {
      ++thrown;
    } catch (const Error&) {  // the batch's, whose task got none
    }
    scarcity.disarm();
    for (int i = 0; i < 3; ++i)
      CHECK(server.submit(x).get<float>() == wanted);
  }
  CHECK(thrown > 0);
}
