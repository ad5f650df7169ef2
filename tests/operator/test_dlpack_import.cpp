// Memory of other libraries as arrays: where it lies, what is refused, and when it goes back: once, and not before its
// last task.
#include <limits>
#include <map>
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

using Shapes = std::vector<std::int64_t>;

/// Runs `spoil` on a good tensor, which is then refused with E, and given back.
template <class E, class Spoil>
void refused(Spoil&& spoil, DlpackStream stream = {}) {
  PlainProducer plain({2, 3}, {3, 1}, 6);
  spoil(plain.described());
  CHECK_THROWS_AS(from_dlpack(&plain.tensor, stream), E);
  CHECK(plain.returned == 1);
  VersionedProducer versioned({2, 3}, {3, 1}, 6);
  spoil(versioned.described());
  CHECK_THROWS_AS(from_dlpack(&versioned.tensor, stream), E);
  CHECK(versioned.returned == 1);
}

}  // namespace

TEST_CASE("An imported array is the producer's memory, with its strides and offset", "[dlpack]") {
  PlainProducer producer({2, 3}, {1, 4}, 16);
  producer.described().byte_offset = 8;
  {
    const NDArray array = producer.import();
    CHECK(array.shape() == Shape{2, 3});
    CHECK(array.strides() == Shape{1, 4});
    CHECK(array.to_vector<float>() == std::vector<float>{2, 6, 10, 3, 7, 11});
    array.assign(array * 2.0F);
    const NDArray sums = sum(array + 1.0F, {1});
    CHECK(sums.to_vector<float>() == std::vector<float>{39, 45});
    array.wait_to_read();
    CHECK(producer.returned == 0);
  }
  CHECK(producer.came_back(1));
  CHECK(producer.memory[2] == 4);
  CHECK(producer.memory[1] == 1);
  CHECK(producer.memory[4] == 4);
  CHECK(producer.memory[11] == 22);
}

TEST_CASE("Without strides, without axes, without elements, with axes of one element", "[dlpack]") {
  PlainProducer packed({2, 3}, {}, 6), scalar({}, {}, 1), none({0, 3}, {9, -4}, 0), ones({1, 2}, {-7, 1}, 2);
  none.described().data = nullptr;
  CHECK(packed.import().to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(scalar.import().item<float>() == 0);
  const NDArray nothing = none.import();
  CHECK(nothing.shape() == Shape{0, 3});
  CHECK(none.returned == 0);
  CHECK((nothing + 1.0F).size() == 0);
  CHECK(ones.import().to_vector<float>() == std::vector<float>{0, 1});
  CHECK(packed.came_back(1));
  CHECK(scalar.came_back(1));
  CHECK(ones.came_back(1));
}

TEST_CASE("Tensors that arrays cannot be are refused by kind, and given back once", "[dlpack]") {
  refused<DTypeError>([](DLTensor& t) { t.dtype.lanes = 4; });
  refused<DTypeError>([](DLTensor& t) { t.dtype.lanes = 0; });
  refused<DTypeError>([](DLTensor& t) { t.dtype = {kDLInt, 4, 1}; });
  refused<DTypeError>([](DLTensor& t) { t.dtype = {kDLComplex, 64, 1}; });
  refused<DTypeError>([](DLTensor& t) { t.dtype = {kDLBool, 1, 1}; });
  refused<DTypeError>([](DLTensor& t) { t.dtype = {200, 8, 1}; });
  refused<DeviceError>([](DLTensor& t) { t.device.device_type = kDLCUDAManaged; });
  refused<DeviceError>([](DLTensor& t) { t.device = {kDLCUDA, 63}; });
  refused<DeviceError>([](DLTensor& t) { t.device = {kDLCUDA, -1}; });
  refused<UnsupportedError>([](DLTensor& t) { t.strides[1] = -1; });
  refused<ShapeError>([](DLTensor& t) { t.ndim = 9; });
  refused<ShapeError>([](DLTensor& t) { t.ndim = -1; });
  refused<ShapeError>([](DLTensor& t) { t.shape[0] = -2; });
  refused<ShapeError>([](DLTensor& t) { t.shape[0] = t.shape[1] = std::numeric_limits<std::int64_t>::max() / 2; });
  refused<ShapeError>([](DLTensor& t) { t.strides[0] = std::numeric_limits<std::int64_t>::max(); });
  refused<ShapeError>([](DLTensor& t) { t.strides[0] = std::numeric_limits<std::int64_t>::max() / 4; });
  refused<ValueError>([](DLTensor& t) { t.shape = nullptr; });
  refused<ValueError>([](DLTensor& t) { t.data = nullptr; });
  refused<ValueError>([](DLTensor& t) { t.byte_offset = 2; });
  refused<ValueError>([](DLTensor&) {}, 1);
  refused<ValueError>([](DLTensor&) {}, 0);
  CHECK_THROWS_AS(from_dlpack(static_cast<DLManagedTensor*>(nullptr)), ValueError);
  CHECK_THROWS_AS(from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr)), ValueError);
}

TEST_CASE("A tensor of another major version is given back unread, one of another minor version is taken", "[dlpack]") {
  VersionedProducer next({2}, {1}, 2), minor({2}, {1}, 2);
  next.tensor.version = {2, 0};
  next.described().ndim = 1000;  // means something else there
  next.described().shape = nullptr;
  CHECK_THROWS_AS(from_dlpack(&next.tensor), UnsupportedError);
  CHECK(next.returned == 1);
  minor.tensor.version = {1, 7};
  CHECK(minor.import().to_vector<float>() == std::vector<float>{0, 1});
  CHECK(minor.came_back(1));
}

TEST_CASE("A tensor may come without a deleter", "[dlpack]") {
  PlainProducer producer({2}, {1}, 2);
  Engine engine({.workers = 1});  // which ends before the tensor does
  const EngineScope scope(engine);
  producer.tensor.deleter = nullptr;
  CHECK(producer.import().to_vector<float>() == std::vector<float>{0, 1});
  producer.described().ndim = -1;
  CHECK_THROWS_AS(producer.import(), ShapeError);
  CHECK(producer.returned == 0);
}

TEST_CASE("What is read-only, or of elements that share memory, cannot be written", "[dlpack]") {
  VersionedProducer read_only({4}, {1}, 4), windows({3, 2}, {1, 1}, 4), stretched({3, 2}, {0, 1}, 2);
  VersionedProducer touching({2, 3}, {2, 1}, 5);
  read_only.tensor.flags = detail::k_dlpack_read_only;
  std::map<VersionedProducer*, float> sums{{&read_only, 6}, {&windows, 9}, {&stretched, 3}, {&touching, 12}};
  for (VersionedProducer* producer : {&read_only, &windows, &stretched, &touching}) {
    const NDArray array = producer->import();
    const std::vector<float> before = producer->memory;
    CHECK_THROWS_AS(array.assign(1.0F), ValueError);
    CHECK_THROWS_AS(fill(array, 1.0F), ValueError);
    CHECK(sum(array).item<float>() == sums[producer]);
    CHECK(producer->memory == before);
    CHECK_THROWS_AS(to_dlpack(array), ValueError);
    const Consumed<DLManagedTensorVersioned> again(to_dlpack_versioned(array));
    CHECK(again->flags == detail::k_dlpack_read_only);
    const Consumed<DLManagedTensor> copied(to_dlpack(array, {.copy = true}));
    CHECK(copied.as<float>() != producer->memory.data());
  }
  CHECK(read_only.came_back(1));
  VersionedProducer gaps({2, 2}, {2, 5}, 8), turned({2, 3}, {1, 2}, 6), lone({3, 1}, {1, 0}, 3);
  for (VersionedProducer* producer : {&gaps, &turned, &lone}) {
    const NDArray array = producer->import();
    CHECK_NOTHROW(array.assign(1.0F));
    array.wait_to_read();
    CHECK(producer->memory[0] == 1);
  }
}

TEST_CASE("Memory goes back when the last task on it is done, not with the last array", "[dlpack]") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  PlainProducer producer({3}, {1}, 3);
  const Gate gate;
  const OpensAtEnd opens(gate);
  NDArray result;
  {
    const NDArray array = producer.import(), view = array[{{1, 3}}];
    engine.push({.name = "hold", .access = {write(array.object()->buffer->var())}}, [gate] { gate.wait(); });
    result = view * 2.0F;
  }
  REQUIRE(gate.reached());
  CHECK(producer.returned == 0);
  gate.open();
  CHECK(result.to_vector<float>() == std::vector<float>{2, 4});
  engine.wait_all();
  CHECK(producer.came_back(1));
}

TEST_CASE("Tasks pushed on an imported array come one after the other, and before what reads it", "[dlpack]") {
  Engine engine({.workers = 3});
  const EngineScope scope(engine);
  PlainProducer producer({2}, {1}, 2);
  const NDArray array = producer.import();
  const Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "first", .access = {write(array.object()->buffer->var())}}, [gate, &producer] {
    gate.wait();
    producer.memory[1] = 10;
  });
  const NDArray after = array + 1.0F;
  REQUIRE(gate.reached());
  gate.open();
  CHECK(after.to_vector<float>() == std::vector<float>{1, 11});
}

TEST_CASE("Arrays made beside a foreign one are memory of the engine's own", "[dlpack]") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  Pool& pool = Storage::of(engine).pool(cpu());
  PlainProducer producer({4}, {1}, 4);
  NDArray made;
  {
    const NDArray array = producer.import();
    CHECK(pool.stats().allocated == 0);
    made = array + 1.0F;
    engine.wait_all();
    CHECK(pool.stats().allocated == 16);
    CHECK(made.object()->buffer->chunk().pool == &pool);
  }
  CHECK(producer.came_back(1));
  CHECK(made.to_vector<float>() == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("An array goes from one engine to another and back", "[dlpack]") {
  Engine a({.workers = 1}), b({.workers = 1});
  NDArray in_a, in_b, back;
  {
    const EngineScope scope(a);
    in_a = full({3}, 1.0F);
  }
  DLManagedTensor* const tensor = to_dlpack(in_a);
  {
    const EngineScope scope(b);
    in_b = from_dlpack(tensor);
    in_b.assign(in_b + 1.0F);
  }
  CHECK(&in_b.engine() == &b);
  {
    const EngineScope scope(a);
    back = from_dlpack(to_dlpack_versioned(in_b));  // waits for b
  }
  in_a = NDArray();
  in_b = NDArray();
  b.wait_all();
  CHECK(back.to_vector<float>() == std::vector<float>{2, 2, 2});
  back.assign(5.0F);
  back = NDArray();  // the end of all of it, through both engines
  a.wait_all();
  b.wait_all();
  CHECK(Storage::of(a).pool(cpu()).stats().allocated == 0);
}

TEST_CASE("Foreign arrays outlive their engine, and go back then", "[dlpack]") {
  PlainProducer producer({3}, {1}, 3);
  NDArray array;
  {
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    array = producer.import();
    array.assign(array + 1.0F);
  }
  CHECK(producer.returned == 0);
  CHECK(producer.memory[2] == 3);
  array = NDArray();
  CHECK(producer.returned == 1);
}

TEST_CASE("An engine that ends gives back what its last tasks used, though other arrays of it live on", "[dlpack]") {
  PlainProducer producer({3}, {1}, 3);
  const Gate gate;
  NDArray survivor;
  std::thread opener;
  {
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    survivor = zeros({3});
    {
      const NDArray array = producer.import();
      engine.push({.name = "hold", .access = {write(array.object()->buffer->var())}}, [gate] { gate.wait(); });
      survivor.assign(array);
    }
    REQUIRE(gate.reached());
    opener = std::thread([gate, &engine] {
      for (bool stops = false; !stops;) {
        try {
          engine.push({.name = "asks"}, [] {});
          std::this_thread::yield();
        } catch (const EngineStopped&) {
          stops = true;
        }
      }
      gate.open();
    });
    engine.stop();
    opener.join();
  }
  CHECK(producer.returned == 1);
  CHECK(survivor.shape() == Shape{3});
}

TEST_CASE("A stopped engine gives foreign memory back as well", "[dlpack]") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  PlainProducer producer({3}, {1}, 3);
  NDArray array = producer.import();
  engine.stop();
  array = NDArray();
  CHECK(producer.returned == 1);
}

TEST_CASE("A tensor whose deleter makes and drops arrays of its own comes back in every policy", "[dlpack]") {
  for (const CpuMode mode : {CpuMode::pool, CpuMode::serial, CpuMode::chaos}) {
    Engine engine({.workers = 2, .cpu_policy = mode});
    const EngineScope scope(engine);
    auto held = std::make_unique<PlainProducer>(Shapes{3}, Shapes{1}, 3);
    {
      const NDArray array = held->import();
      NDArray wrapped = array;
      for (int turn = 0; turn < 5; ++turn)
        wrapped = from_dlpack(to_dlpack(wrapped));  // a chain of deleters
      wrapped.assign(wrapped * 2.0F);
    }
    engine.wait_all();
    CHECK(held->came_back(1));
    CHECK(held->memory[2] == 4);
  }
}

TEST_CASE("A write that read-only memory refuses has not happened for gradients either", "[dlpack][autograd]") {
  const std::int64_t n = GENERATE(4, 100000);
  VersionedProducer producer({n}, {1}, static_cast<std::size_t>(n));
  producer.tensor.flags = detail::k_dlpack_read_only;
  const NDArray a = producer.import();
  NDArray w = ones({n}), y;
  w.attach_grad();
  {
    const autograd::RecordScope record;
    y = sum(w * a);
  }
  NDArray target = a;
  CHECK_THROWS_AS(target += 1, ValueError);
  CHECK_THROWS_AS(a.assign(1.0), ValueError);
  CHECK_THROWS_AS(a.assign(w.detach()), ValueError);

  y.backward();
  CHECK(w.grad().to_vector<float>() == a.to_vector<float>());
}
