// Arrays to other libraries by DLPack: what a consumer sees, when, and for how long. The other way: test_dlpack_import.
#include <memory>
#include <thread>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/operator/dlpack_producer.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Plain = Consumed<DLManagedTensor>;
using Versioned = Consumed<DLManagedTensorVersioned>;

NDArray counting(const Shape& shape, DType dtype = float32) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i % 100);
  return from_values(values.data(), float64, shape.size(), shape, {.dtype = dtype});
}

/// A task on the array that waits at `gate`, writes its first element if it is to write, and is done.
void push_behind(const NDArray& array, const Gate& gate, AccessMode mode, std::atomic<bool>& done) {
  auto* const at = reinterpret_cast<float*>(array.object()->data());
  array.engine().push({.name = "gated", .access = {{array.object()->buffer->var().core(), mode}}}, [=, &done] {
    gate.wait();
    if (mode != AccessMode::read)
      *at = 77;
    done = true;
  });
}

}  // namespace

TEST_CASE("An exported array is its own memory, described as DLPack says", "[dlpack]") {
  const NDArray base = counting({4, 6});
  const NDArray view = base.slice(0, 1, 4).slice(1, 1, 6, 2).T();  // (3, 3), strides 2 and 6, from element 7
  const Plain out(to_dlpack(view));
  const DLTensor& seen = out.described();
  REQUIRE(seen.ndim == 2);
  CHECK((seen.shape[0] == 3 && seen.shape[1] == 3 && seen.strides[0] == 2 && seen.strides[1] == 6));
  CHECK((seen.dtype.code == kDLFloat && seen.dtype.bits == 32 && seen.dtype.lanes == 1));
  CHECK((seen.device.device_type == kDLCPU && seen.device.device_id == 0 && seen.byte_offset == 0));
  CHECK(out.as<float>()[2 * 2 + 6] == 17);
  out.as<float>()[0] = -1;
  CHECK(base.to_vector<float>()[7] == -1);
}

TEST_CASE("Every type of arrays has its code in DLPack, and comes back as it was", "[dlpack]") {
  for (const DType dtype :
       {bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64, int16, uint16, uint32, uint64}) {
    const NDArray before = counting({2, 3}, dtype);
    DLManagedTensorVersioned* const tensor = to_dlpack_versioned(before);
    CHECK(tensor->version.major == 1);
    CHECK(tensor->flags == 0);
    CHECK(tensor->dl_tensor.dtype.bits == 8 * size_of(dtype));
    const NDArray after = from_dlpack(tensor);
    CHECK(after.dtype() == dtype);
    CHECK(after.object()->data() == before.object()->data());
    CHECK(after.to_vector<double>() == before.to_vector<double>());
  }
}

TEST_CASE("Arrays without axes and without elements are exported", "[dlpack]") {
  const NDArray scalar = full({}, 3.5F), none = empty({2, 0, 3});
  const Plain one(to_dlpack(scalar)), empty_one(to_dlpack(none));
  CHECK(one.described().ndim == 0);
  CHECK(*one.as<float>() == 3.5F);
  CHECK(empty_one.described().ndim == 3);
  CHECK(empty_one.described().shape[1] == 0);
  CHECK(empty_one.described().data == nullptr);
  const NDArray part = counting({4})[{{2, 2}}];  // within memory, and nothing of it
  const Plain nothing(to_dlpack(part));
  CHECK(nothing.described().data == nullptr);
}

TEST_CASE("The export of an array waits for what writes it, and for what reads it unless it is read-only", "[dlpack]") {
  for (const AccessMode mode : {AccessMode::write, AccessMode::read}) {
    for (const bool read_only : {false, true}) {
      Engine engine({.workers = 2});
      const EngineScope scope(engine);
      const NDArray array = counting({5});
      const Gate gate;
      const OpensAtEnd opens(gate);
      std::atomic<bool> done{false}, done_before{false}, exported{false};
      push_behind(array, gate, mode, done);
      REQUIRE(gate.reached());
      float seen = -1;
      std::thread consumer([&] {
        const Versioned out(to_dlpack_versioned(array, {.read_only = read_only}));
        done_before = done.load();
        exported = true;
        seen = out.as<float>()[0];
        CHECK(out->flags == (read_only ? detail::k_dlpack_read_only : 0));
      });
      const bool waits = mode != AccessMode::read || !read_only;
      if (!waits)
        CHECK(eventually([&] { return exported.load(); }));
      gate.open();
      consumer.join();
      CHECK(done_before == waits);
      CHECK(seen == (mode == AccessMode::write ? 77 : 0));
    }
  }
}

TEST_CASE("An export passes on the error of the task that was to write the array", "[dlpack]") {
  Engine engine({.workers = 1, .report_failures = false});
  const EngineScope scope(engine);
  const NDArray array = counting({5});
  engine.push({.name = "breaks", .access = {out(array.object()->buffer->var())}}, [] { throw IndexError("planted"); });
  CHECK_THROWS_AS(to_dlpack(array), IndexError);
  CHECK_THROWS_AS(to_dlpack_versioned(array, {.read_only = true}), IndexError);
}

TEST_CASE("A copy is the consumer's own, also of what cannot be shared", "[dlpack]") {
  const NDArray array = counting({2, 3});
  const Versioned out(to_dlpack_versioned(array.slice(1, -1, INT64_MIN, -1), {.copy = true}));
  CHECK(out->flags == detail::k_dlpack_copied);
  CHECK(out.as<float>()[0] == 2);
  CHECK(out.described().strides[1] == 1);
  out.as<float>()[0] = 100;
  CHECK(array.to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  const NDArray wide = full({1}, 2.0F).broadcast_to({3});
  const Plain stretched(to_dlpack(wide)), apart(to_dlpack(wide, {.copy = true}));
  CHECK(stretched.described().strides[0] == 0);
  CHECK(apart.described().strides[0] == 1);
  CHECK(apart.as<float>()[2] == 2);
}

TEST_CASE("What cannot be exported is refused by kind", "[dlpack]") {
  CHECK_THROWS_AS(to_dlpack(NDArray()), ValueError);
  const NDArray array = counting({4});
  CHECK_THROWS_AS(to_dlpack(array.slice(0, -1, INT64_MIN, -1)), UnsupportedError);
  CHECK_THROWS_AS(to_dlpack(array, {.stream = 1}), ValueError);
  CHECK_THROWS_AS(to_dlpack(array, {.stream = 0}), ValueError);
  CHECK_THROWS_AS(to_dlpack(array, {.stream = -2}), ValueError);
  CHECK_NOTHROW(Plain(to_dlpack(array, {.stream = -1})));
  NDArray variable = counting({4});
  variable.attach_grad();
  CHECK_THROWS_AS(to_dlpack(variable), AutogradError);
  const Plain detached(to_dlpack(variable.detach()));
  CHECK(detached.as<float>()[3] == 3);
}

TEST_CASE("A consumer may keep memory longer than its array and its engine", "[dlpack]") {
  auto engine = std::make_unique<Engine>(EngineOptions{.workers = 1});
  DLManagedTensor* tensor = nullptr;
  {
    const EngineScope scope(*engine);
    tensor = to_dlpack(counting({1000}));
  }
  const Storage& storage = Storage::of(*engine);
  CHECK(const_cast<Storage&>(storage).pool(cpu()).stats().allocated == 4000);
  engine.reset();
  CHECK(static_cast<float*>(tensor->dl_tensor.data)[99] == 99);
  std::thread([&] { tensor->deleter(tensor); }).join();
}

TEST_CASE("A deleter gives the memory of an exported array back", "[dlpack]") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  Pool& pool = Storage::of(engine).pool(cpu());
  {
    const Plain first(to_dlpack(counting({1000})));
    CHECK(pool.stats().allocated == 4000);
    const Versioned second(to_dlpack_versioned(counting({500}), {.copy = true}));
    engine.wait_all();
    CHECK(pool.stats().allocated == 6000);
  }
  engine.wait_all();
  CHECK(pool.stats().allocated == 0);
}
