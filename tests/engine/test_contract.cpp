// The small promises: options, names, devices, closures, positions, random numbers.
#include <initializer_list>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/engine/detail/engine_access.h>

#include "tests/engine/expect.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Every enumerator is read back from what is printed of it, and no other text is read.
template <class Value, class Parse>
void check_names(std::initializer_list<std::pair<Value, const char*>> names, Parse parse) {
  std::string all;
  for (const auto& [value, name] : names) {
    CHECK(to_string(value) == std::string(name));
    CHECK(parse(name) == value);
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  for (const char* wrong : {"magic", "", "Serial", "pool ", "e"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse(wrong), ValueError);
    CHECK_THAT(text_of_error([&] { parse(wrong); }), contains('"' + std::string(wrong) + "\" is not one of " + all));
  }
  CHECK(to_string(static_cast<Value>(names.size())) == std::string("unknown"));
}

}  // namespace

TEST_CASE("Engine options: the names of what can be chosen print and parse") {
  check_names<CpuMode>(
      {{CpuMode::pool, "pool"},
       {CpuMode::serial, "serial"},
       {CpuMode::chaos, "chaos"},
       {CpuMode::chaos_pool, "chaos-pool"}},
      parse_cpu_mode);
  check_names<GpuMode>({{GpuMode::stream, "stream"}, {GpuMode::serial, "serial"}}, parse_gpu_mode);
  check_names<LaunchMode>({{LaunchMode::batch, "batch"}, {LaunchMode::direct, "direct"}}, parse_launch_mode);
  check_names<GpuCheck>({{GpuCheck::end, "end"}, {GpuCheck::each, "each"}}, parse_gpu_check);
  check_names<Denormals>({{Denormals::keep, "keep"}, {Denormals::flush, "flush"}}, parse_denormals);
}

TEST_CASE("Engine options: values that no enumeration has and negative workers are refused by number") {
  const auto error = [](const EngineOptions& options) { return text_of_error([&] { Engine engine(options); }); };
  CHECK_THAT(
      error({.cpu_policy = static_cast<CpuMode>(4)}),
      contains("cpu_policy = CpuMode(4) is not one of pool, serial, chaos, chaos-pool"));
  CHECK_THAT(
      error({.gpu_policy = static_cast<GpuMode>(200)}),
      contains("gpu_policy = GpuMode(200) is not one of stream, serial"));
  CHECK_THAT(error({.launch = static_cast<LaunchMode>(2)}), contains("launch = LaunchMode(2) is not one of"));
  CHECK_THAT(error({.gpu_check = static_cast<GpuCheck>(2)}), contains("gpu_check = GpuCheck(2) is not one of"));
  CHECK_THAT(error({.denormals = static_cast<Denormals>(7)}), contains("denormals = Denormals(7) is not one of"));
  CHECK_THROWS_AS(Engine({.cpu_policy = static_cast<CpuMode>(4)}), ValueError);
  CHECK_THAT(error({.workers = -3}), contains("-3"));
  CHECK(Engine({.workers = 3}).workers() == 3);
  CHECK(Engine().workers() >= 1);
}

TEST_CASE("Devices print and parse, and refuse what is not there") {
  CHECK(to_string(cpu()) == "cpu(0)");
  CHECK(to_string(gpu(1)) == "gpu(1)");
  std::ostringstream text;
  text << gpu(2);
  CHECK(text.str() == "gpu(2)");
  for (const char* name : {"cpu", "cpu:0", "cpu(0)"})
    CHECK(parse_device(name) == cpu());
  for (const char* name :
       {"", "tpu", "cpu:", "gpu:x", "cpu(0", "cpu:-1", "gpu:1 ", "gpu:-0", "cpu:1024", "cpu:99999999999"})
    CHECK_THROWS_AS(parse_device(name), ValueError);
  for (const char* name : {"gpu:77", "gpu(1023)", "gpu(32767)", "gpu(99999999999)"})
    CHECK_THROWS_AS(parse_device(name), DeviceError);
  CHECK(cpu() < gpu());
  CHECK(num_gpus() >= 0);
}

TEST_CASE("A task for a device that is not there is refused by name") {
  Engine engine({.workers = 1});
  const std::string text =
      text_of_error([&] { engine.push({.name = "far away", .device = gpu(num_gpus())}, [](Queue) {}); });
  CHECK_THAT(text, contains("far away"));
  CHECK_THAT(text, contains(to_string(gpu(num_gpus()))));
  CHECK_THROWS_AS(engine.push({.name = "nowhere", .device = gpu(-1)}, [](Queue) {}), DeviceError);
  CHECK_NOTHROW(engine.wait_all());
}

TEST_CASE("A CPU body's queue names its engine and device, and no stream") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  bool good = false;
  engine.push({.name = "look", .access = {write(x)}}, [&](Queue queue) {
    good = &queue.engine() == &engine && queue.device() == cpu() && queue.threads() == 1 && queue.stream() == nullptr &&
           queue.error_word() == nullptr && !queue.position();
  });
  engine.wait(x);
  CHECK(good);
}

TEST_CASE("A body may be move-only, small or large, and is destroyed once") {
  struct Counted {
    explicit Counted(int& alive) : alive(&alive) { ++alive; }
    Counted(Counted&& other) noexcept : alive(other.alive) { ++*alive; }
    ~Counted() { --*alive; }
    int* alive;
  };
  struct Large : Counted {
    using Counted::Counted;
    char bytes[500] = {};
  };
  int alive = 0, calls = 0;
  {
    Closure small([held = Counted(alive), &calls] { ++calls; });
    Closure large([held = Large(alive), &calls](Queue) { ++calls; });
    CHECK(alive == 2);
    Closure moved(std::move(small));
    small = std::move(large);
    CHECK(alive == 2);
    CHECK_FALSE(static_cast<bool>(large));
    Engine engine({.workers = 1});
    const Queue queue(engine, cpu(), 1, nullptr);
    small(queue);
    moved(queue);
    CHECK(calls == 2);
    moved.reset();
    CHECK(alive == 1);
  }
  CHECK(alive == 0);
  Engine engine({.workers = 1});
  int value = 0;
  engine.push({.name = "move-only"}, [held = std::make_unique<int>(6), &value] { value = *held; });
  engine.wait_all();
  CHECK(value == 6);
}

TEST_CASE("A task's name may be a string that is gone by the time it fails") {
  Engine engine({.workers = 1});
  Var x = engine.new_var();
  {
    std::string name = "made at run time, ";
    name += std::to_string(123);
    engine.push({.name = name, .access = {write(x)}}, [] { throw ValueError("bad"); });
  }
  CHECK_THAT(text_of_error([&] { engine.wait(x); }), contains("made at run time, 123"));
}

TEST_CASE("A position set keeps the latest position of each stream") {
  PositionSet set;
  CHECK(set.empty());
  set.add(Position());
  CHECK(set.empty());
  set.add(Position(3, 10));
  set.add(Position(1, 7));
  set.add(Position(3, 4));
  set.add(Position(3, 12));
  CHECK(set.size() == 2);
  PositionSet other;
  other.add(Position(1, 9));
  other.add(Position(60000, (std::uint64_t{1} << 48) - 1));
  set.add(other);
  CHECK(set.size() == 3);
  std::uint64_t sum = 0;
  for (Position position : set)
    sum += position.stream() == 1 ? position.sequence() : position.stream() == 3 ? 100 * position.sequence() : 0;
  CHECK(sum == 1209);
  CHECK(Position(60000, 5).stream() == 60000);
  CHECK(Position(60000, 5).sequence() == 5);
  CHECK_FALSE(static_cast<bool>(Position()));
}

TEST_CASE("Random numbers depend on the seed and on the order of taking alone") {
  auto take = [](Engine& engine) {
    std::vector<std::uint64_t> taken;
    for (std::uint64_t counters : {3, 1, 100, 7}) {
      const RandomBlock block = engine.take_random(counters);
      taken.push_back(block.seed);
      taken.push_back(block.offset);
    }
    return taken;
  };
  Engine one({.workers = 1, .seed = 5}), four({.workers = 4, .cpu_policy = CpuMode::serial, .seed = 5}),
      other({.seed = 6});
  const auto first = take(one);
  CHECK(first == take(four));
  CHECK(first != take(other));
  CHECK(first != take(one));
  one.seed(5);
  CHECK(first == take(one));
  one.seed(5);
  const std::uint64_t begin = one.take_random(3).offset;
  CHECK(one.take_random(1).offset == begin + 3);
  CHECK(one.take_random(1).offset == begin + 4);
}

TEST_CASE("Random numbers go on from where another engine's stood") {
  Engine one({.workers = 1, .seed = 5}), other({.workers = 1, .seed = 6});
  one.take_random(7);
  const RandomBlock state = one.random_state();
  CHECK(state.seed == 5);
  CHECK(one.random_state().offset == state.offset);  // asking takes none
  other.take_random(3);
  other.set_random_state(state);
  for (std::uint64_t counters : {1, 4, 2}) {
    const RandomBlock first = one.take_random(counters), second = other.take_random(counters);
    CHECK(first.seed == second.seed);
    CHECK(first.offset == second.offset);
  }
}

TEST_CASE("Blocks of random numbers taken by several threads never overlap") {
  Engine engine({.workers = 1});
  std::vector<std::vector<std::uint64_t>> offsets(4);
  std::vector<std::thread> threads;
  for (auto& mine : offsets) {
    threads.emplace_back([&engine, &mine] {
      for (int i = 0; i < 1000; ++i)
        mine.push_back(engine.take_random(10).offset);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  std::vector<bool> used(4000, false);
  int wrong = 0;
  for (const auto& mine : offsets) {
    for (std::uint64_t offset : mine) {
      const bool fits = offset % 10 == 0 && offset / 10 < used.size() && !used[offset / 10];
      wrong += fits ? 0 : 1;
      if (fits)
        used[offset / 10] = true;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Relieving memory calls everyone who registered, with the device") {
  Engine engine({.workers = 1});
  std::vector<Device> called;
  detail::EngineAccess::on_memory_pressure(engine, [&](Device device) { called.push_back(device); });
  detail::EngineAccess::on_memory_pressure(engine, [&](Device device) { called.push_back(device); });
  detail::EngineAccess::relieve_memory(engine, gpu(3));
  CHECK(called == std::vector<Device>{gpu(3), gpu(3)});
}

TEST_CASE("Counters tell what was pushed, retired, skipped and failed") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  engine.push({.name = "fine", .access = {write(x)}}, [] {});
  engine.push({.name = "fails", .access = {write(x)}}, [] { throw ValueError("bad"); });
  engine.push({.name = "skipped", .access = {read(x)}}, [] {});
  CHECK_THROWS_AS(engine.wait_all(), ValueError);
  const EngineCounters counters = engine.counters();
  CHECK(counters.pushed == 3);
  CHECK(counters.retired == 3);
  CHECK(counters.skipped == 1);
  CHECK(counters.failed == 1);
  CHECK(counters.stream_waits == 0);
}
