// Who comes after whom where other libraries' streams and the engine's work on one memory: streams of the simulated
// GPU are held, so that what the test sees cannot be luck.
#include <sluice/engine/interop.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/operator/dlpack_producer.h"
#include "tests/support/catch.h"
#include "tests/support/cuda_sim/sim.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// A stream of another library.
struct ForeignStream {
  cudaStream_t handle = nullptr;
  ForeignStream() { REQUIRE(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess); }
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;
  ~ForeignStream() { CHECK(cudaStreamDestroy(handle) == cudaSuccess); }
  DlpackStream named() const { return reinterpret_cast<std::intptr_t>(handle); }
};

/// Nothing of the stream begins while it lives.
struct Held {
  cudaStream_t stream;
  explicit Held(const ForeignStream& of) : stream(of.handle) { sim::hold(stream); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { sim::release(stream); }
};

/// Memory of the simulated GPU that another library has.
struct GpuProducer : PlainProducer {
  NDArray lent;
  explicit GpuProducer(std::int64_t n) : PlainProducer({n}, {1}, 0), lent(ones({n}, {.device = gpu(0)})) {
    lent.wait_to_write();
    described().data = lent.object()->data();
    described().device = {kDLCUDA, 0};
  }
  float* data() const { return reinterpret_cast<float*>(lent.object()->data()); }
};

}  // namespace

TEST_CASE(
    "A consumer's stream comes after what was pushed on the array, and the host waits for no GPU", "[dlpack][gpu]") {
  const ForeignStream before, consumer;
  const NDArray array = ones({4}, {.device = gpu(0)});
  array.wait_to_write();
  auto* const data = reinterpret_cast<float*>(array.object()->data());
  float seen = -1;
  DLManagedTensor* tensor = nullptr;
  {
    const Held held(before);
    REQUIRE(sim::launch(before.handle, [] {}) == cudaSuccess);
    import_stream(array.engine(), gpu(0), before.handle, detail::accesses_to_write(*array.object()));
    array.assign(array + 6.0F);  // waits for the held stream
    tensor = to_dlpack(array, {.stream = consumer.named()});
    REQUIRE(sim::launch(consumer.handle, [&] { seen = data[3]; }) == cudaSuccess);
    CHECK_FALSE(sim::idle());
    CHECK(seen == -1);
  }
  REQUIRE(cudaStreamSynchronize(consumer.handle) == cudaSuccess);
  CHECK(seen == 7);
  tensor->deleter(tensor);
}

TEST_CASE("What lies on a producer's stream comes before tasks on the array", "[dlpack][gpu]") {
  const ForeignStream stream;
  GpuProducer producer(4);
  NDArray doubled;
  {
    const Held held(stream);
    REQUIRE(sim::launch(stream.handle, [&] { producer.data()[3] = 21; }) == cudaSuccess);
    const NDArray array = from_dlpack(&producer.tensor, stream.named());
    doubled = array * 2.0F;
  }
  CHECK(doubled.to_vector<float>() == std::vector<float>{2, 2, 2, 42});
  CHECK(producer.came_back(1));
}

TEST_CASE("GPU memory goes back when the GPU has passed the work on it, though nobody waits", "[dlpack][gpu]") {
  const ForeignStream stream;
  GpuProducer producer(4);
  {
    const Held held(stream);
    REQUIRE(sim::launch(stream.handle, [] {}) == cudaSuccess);
    const int blocking = sim::blocking_calls();
    {
      const NDArray array = from_dlpack(&producer.tensor, stream.named());
      array.assign(array + 4.0F);
    }
    CHECK(sim::blocking_calls() == blocking);
    for (int look = 0; look < 50; ++look)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the poller has looked
    CHECK(producer.returned == 0);
  }
  CHECK(producer.came_back(1));
  CHECK(producer.data()[0] == 5);
}

TEST_CASE("A failing call of CUDA on the way of an import gives the tensor back once", "[dlpack][gpu]") {
  const ForeignStream stream;
  for (int nth = 1; nth <= 3; ++nth) {
    GpuProducer producer(4);
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    zeros({1}, {.device = gpu(0)}).wait_to_write();  // what the first use of a GPU calls is done
    sim::fail_nth(nth, cudaErrorUnknown);
    CHECK_THROWS_AS(from_dlpack(&producer.tensor, stream.named()), CudaError);
    sim::fail_nth(0, cudaSuccess);
    engine.wait_all();
    CHECK(producer.came_back(1));
  }
}
