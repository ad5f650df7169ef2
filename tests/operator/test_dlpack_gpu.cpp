// GPU arrays to other libraries and back by DLPack. Who comes after whom on streams: test_dlpack_sim.cpp, and with
// PyTorch dlpack_exchange.py.
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/operator/dlpack_producer.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("A GPU's array goes from one engine to another and back, with its strides", "[dlpack][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DlpackStream stream : {DlpackStream(), DlpackStream(1), DlpackStream(2)}) {
    Engine a({.workers = 1}), b({.workers = 1});
    NDArray in_a, in_b, back;
    {
      const EngineScope scope(a);
      in_a = arange(0, 12, 1, {.device = gpu(0)}).reshape({3, 4}).T();
      in_a.assign(in_a + 1.0F);
    }
    DLManagedTensor* const tensor = to_dlpack(in_a, {.stream = stream});
    CHECK((tensor->dl_tensor.device.device_type == kDLCUDA && tensor->dl_tensor.device.device_id == 0));
    CHECK(tensor->dl_tensor.strides[0] == 1);
    {
      const EngineScope scope(b);
      in_b = from_dlpack(tensor, stream);
      CHECK(in_b.object()->data() == in_a.object()->data());
      in_b.assign(in_b * 2.0F);
    }
    {
      const EngineScope scope(a);
      back = from_dlpack(to_dlpack_versioned(in_b, {.stream = stream}), stream);
    }
    in_a = in_b = NDArray();
    CHECK(back[0].to_vector<float>() == std::vector<float>{2, 10, 18});
    CHECK(back.strides() == Shape{1, 4});
    back = NDArray();
    a.wait_all();
    b.wait_all();
    a.wait_all();
    CHECK(Storage::of(a).pool(gpu(0)).stats().allocated == 0);
  }
}

TEST_CASE("A copy of a GPU's array is the consumer's own, and nobody waits for stream -1", "[dlpack][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray array = ones({5}, {.device = gpu(0)});
  const NDArray apart = from_dlpack(to_dlpack_versioned(array, {.copy = true}));
  array.assign(3.0F);
  CHECK(apart.to_vector<float>() == std::vector<float>(5, 1.0F));
  array.wait_to_write();
  const NDArray same = from_dlpack(to_dlpack(array, {.stream = -1}), -1);
  CHECK(same.to_vector<float>() == std::vector<float>(5, 3.0F));
  CHECK_THROWS_AS(to_dlpack(array, {.stream = 0}), ValueError);
  CHECK_THROWS_AS(from_dlpack(to_dlpack(array), 0), ValueError);
  CHECK_THROWS_AS(from_dlpack(to_dlpack(array), -7), ValueError);
}

TEST_CASE("GPU memory of others goes back once, after the work on it", "[dlpack][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray memory = ones({1 << 16}, {.device = gpu(0)});
  memory.wait_to_write();
  PlainProducer producer({1 << 16}, {1}, 0);
  producer.described().data = memory.object()->data();
  producer.described().device = {kDLCUDA, 0};
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  {
    const NDArray array = producer.import();
    for (int i = 0; i < 20; ++i)
      array.assign(array + 1.0F);
  }
  engine.wait_all();
  CHECK(producer.came_back(1));
  CHECK(sum(memory).item<float>() == 21.0F * (1 << 16));
  CHECK(producer.returned == 1);
  producer.described().device.device_id = num_gpus();
  CHECK_THROWS_AS(producer.import(), DeviceError);
  CHECK(producer.returned == 2);
}
