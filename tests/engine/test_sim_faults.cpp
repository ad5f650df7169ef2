// Every CUDA call fails once, in turn; devices are lost. Each time: a defined error, no hang, and the rest goes on.
#include <algorithm>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "tests/engine/sim_run.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Word = std::uint64_t;
using Words = std::shared_ptr<std::vector<Word>>;  // should the engine fail to wait, kernels outlive it

/// Forks, joins, copies and CPU tasks over a few words. Returns what `sum` must hold.
Word push_work(Engine& engine, const std::vector<Var>& vars, const Words& held) {
  auto on_gpu = [&](const TaskName& name, AccessList access, StreamKind kind, std::function<void()> body) {
    engine.push({.name = name, .device = gpu(0), .access = std::move(access), .stream = kind}, [body](Queue queue) {
      sim_launch(queue, body);
    });
  };
  on_gpu("in", {out(vars[0])}, StreamKind::copy_in, [held] { (*held)[0] = 4; });
  on_gpu("left", {read(vars[0]), out(vars[1])}, StreamKind::compute, [held] { (*held)[1] = (*held)[0] + 1; });
  on_gpu("right", {read(vars[0]), out(vars[2])}, StreamKind::compute, [held] { (*held)[2] = (*held)[0] * 3; });
  engine.push({.name = "CPU", .access = {read(vars[1]), out(vars[3])}}, [held] { (*held)[3] = (*held)[1] * 7; });
  on_gpu("join", {read(vars[2]), read(vars[3]), out(vars[4])}, StreamKind::compute, [held] {
    (*held)[4] = 100 * (*held)[2] + (*held)[3];
  });
  on_gpu("out", {read(vars[4]), out(vars[5])}, StreamKind::copy_out, [held] { (*held)[5] = (*held)[4]; });
  return 100 * 12 + 35;
}

struct Attempt {
  std::vector<Var> vars;
  Words words = std::make_shared<std::vector<Word>>(6, 0);
  Word expected = 0;

  explicit Attempt(Engine& engine) {
    for (int i = 0; i < 6; ++i)
      vars.push_back(engine.new_var());
  }
  Word result() const { return (*words)[5]; }
};

/// "" if `act` returns or throws an Error; otherwise what it threw. `failed` tells which.
template <class Act>
std::string undefined_error(bool& failed, Act&& act) {
  try {
    act();
  } catch (const Error&) {
    failed = true;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something unknown";
  }
  return "";
}

/// One program with the n-th call failing with `code`. Returns the name of that call, "" if there were not as many.
std::string run_with_failure(int n, cudaError_t code) {
  Sim sim;
  bool failed = false, failed_later = false;
  std::string name, trouble;
  const std::string around = undefined_error(failed, [&] {
    sim::fail_nth(n, code);
    Engine engine({.workers = 1});
    Attempt first(engine);
    trouble = undefined_error(failed, [&] {
      first.expected = push_work(engine, first.vars, first.words);
      engine.wait_all();
    });
    CHECK(trouble == "");
    name = sim::failed_call();
    CAPTURE(n, name, code);
    if (!failed)
      CHECK(first.result() == first.expected);  // an error that nobody is told of must not have done harm
    Attempt second(engine);
    trouble = undefined_error(failed_later, [&] {
      second.expected = push_work(engine, second.vars, second.words);
      engine.wait_all();
    });
    CHECK(trouble == "");
    const bool fails_later = name != sim::failed_call();  // at this attempt, not at the first
    CHECK((!failed_later || fails_later || code == cudaErrorLaunchFailure));
    if (!failed_later)
      CHECK(second.result() == second.expected);
  });
  CHECK(around == "");
  name = sim::failed_call();
  if (name.find("Destroy") != std::string::npos || name.find("Free") != std::string::npos)
    sim.tolerate_leftovers();
  return name;
}

}  // namespace

TEST_CASE("T49: each CUDA call fails once, in turn: one defined error, no hang, and the engine goes on", "[sim]") {
  // One of each class: unknown, no memory, a bad argument, and one after which the GPU is lost.
  const cudaError_t code =
      GENERATE(cudaErrorUnknown, cudaErrorMemoryAllocation, cudaErrorInvalidValue, cudaErrorLaunchFailure);
  std::map<std::string, int> failures;
  const int stride = scaled(k_thread_sanitizer ? 61 : 1);
  for (int n = 1;; n += stride) {
    const std::string name = run_with_failure(n, code);
    if (name.empty())
      break;
    ++failures[name];
  }
  CAPTURE(failures);
  CHECK(failures.size() >= (k_thread_sanitizer ? 5u : 8u));
  CHECK(failures["cudaEventRecord"] > 0);
}

TEST_CASE("T49: each kind of call fails once at its busiest: in the middle of a random graph", "[sim]") {
  const cudaError_t code = GENERATE(cudaErrorUnknown, cudaErrorMemoryAllocation, cudaErrorInvalidValue);
  for (const char* name :
       {"cudaEventRecord",
        "cudaStreamWaitEvent",
        "cudaEventQuery",
        "cudaLaunchKernel",
        "cudaSetDevice",
        "cudaGetDevice",
        "cudaEventSynchronize",
        "cudaEventCreateWithFlags",
        "cudaStreamSynchronize"}) {
    for (int nth : {1, 7, 40}) {
      CAPTURE(name, nth, code);
      const Program program = random_program(static_cast<std::uint64_t>(nth), 300, 8, 1);
      Sim sim(seeded(static_cast<std::uint64_t>(nth)));
      sim::fail_nth(name, nth, code);
      bool failed = false;
      History history(program);
      CHECK(undefined_error(failed, [&] { history = run_on_sim(program, {.where = Where::everywhere}); }) == "");
      if (!failed)
        CHECK(judge(program, history) == "");
    }
  }
}

TEST_CASE("T50: a kernel's illegal address takes its GPU; CPU tasks and the other GPU go on", "[sim]") {
  Sim sim;
  sim.tolerate_leftovers();
  int on_cpu = 0, on_other = 0, after = 0;
  {
    Engine engine({.workers = 1});
    Var x = engine.new_var(), y = engine.new_var(), z = engine.new_var();
    engine.push({.name = "bad", .device = gpu(0), .access = {write(x)}}, [](Queue queue) {
      sim_launch(queue, [] { sim::illegal_address(); });
    });
    expect_error<CudaError>(
        [&] { engine.wait(x); }, [](const CudaError& error) { CHECK(error.code() == cudaErrorIllegalAddress); });
    engine.push({.name = "CPU", .access = {write(y)}}, [&] { ++on_cpu; });
    CHECK_NOTHROW(engine.wait(y));
    engine.push({.name = "other GPU", .device = gpu(1), .access = {write(z)}}, [&](Queue queue) {
      sim_launch(queue, [&] { ++on_other; });
    });
    CHECK_NOTHROW(engine.wait(z));
    Var fresh = engine.new_var();
    engine.push({.name = "after", .device = gpu(0), .access = {write(fresh)}}, [&](Queue queue) {
      sim_launch(queue, [&] { ++after; });
    });
    CHECK_THROWS_AS(engine.wait(fresh), CudaError);
  }
  CHECK(on_cpu == 1);
  CHECK(on_other == 1);
  CHECK(after == 0);
}

TEST_CASE("T51: a body that throws because a CUDA call failed is blamed alone", "[sim]") {
  Sim sim;
  Engine engine({.workers = 1});
  Var bad = engine.new_var(), good = engine.new_var();
  int ran = 0;
  engine.push({.name = "asks for too much", .device = gpu(0), .access = {write(bad)}}, [](Queue) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, std::size_t{1} << 40) != cudaSuccess)
      throw OutOfMemory("too much", std::size_t{1} << 40);
  });
  engine.push({.name = "next", .device = gpu(0), .access = {write(good)}}, [&](Queue queue) {
    sim_launch(queue, [&] { ++ran; });
  });
  CHECK_THROWS_AS(engine.wait(bad), OutOfMemory);
  CHECK_NOTHROW(engine.wait(good));
  CHECK(ran == 1);
}

TEST_CASE("T50: a GPU that is lost at any time ends a random graph with an error, or not at all", "[sim]") {
  for (int round = 1; round <= scaled(20); ++round) {
    const Program program = random_program(static_cast<std::uint64_t>(round), 200, 8, 1);
    Sim sim(seeded(static_cast<std::uint64_t>(round)));
    sim.tolerate_leftovers();
    History history(program);
    bool failed = false;
    CAPTURE(round);
    CHECK(undefined_error(failed, [&] {
            Engine engine({.workers = 2});
            std::vector<Var> vars(program.cells);
            for (Var& var : vars)
              var = engine.new_var();
            for (std::size_t i = 0; i < program.steps.size(); ++i) {
              if (i == static_cast<std::size_t>(10 * round))
                sim::lose_device(0, cudaErrorECCUncorrectable);
              const Device device = device_of(Where::everywhere, i);
              engine.push(
                  {.name = "step", .device = device, .access = access_of(program.steps[i], vars)},
                  [device](Queue queue) {
                    if (device.is_gpu())
                      sim_launch(queue, [] {});
                  });
            }
            engine.wait_all();
          }) == "");
    CHECK(failed == (10 * round < static_cast<int>(program.steps.size())));
  }
}

namespace {

/// A GPU on which nothing runs yet, and a Var that a copy is going to read. Tasks note their numbers when they run.
class ReadLater {
 public:
  ReadLater() { push({.name = "reads", .device = gpu(0), .access = {read(x)}, .stream = StreamKind::copy_in}, 1); }
  void push(const Task& task, int number) {
    engine.push(task, [this, number](Queue queue) {
      const auto stream = static_cast<cudaStream_t>(queue.stream());
      if (number == 1)
        copies = stream;
      if (number == 3) {
        cudaStreamQuery(stream);  // not allowed under capture
        cudaGetLastError();
      }
      sim_launch(queue, [this, number] { log.add(number); });
    });
  }
  void push_write() { push({.name = "writes", .device = gpu(0), .access = {out(x)}}, 4); }

  Sim sim{{.devices = 2, .manual = true}};
  Log log;
  Engine engine{{.workers = 1}};
  Var x = engine.new_var();
  cudaStream_t copies = nullptr;
};

}  // namespace

TEST_CASE(
    "T49: a task whose stream cannot be made to wait fails; what comes next waits for what it would have", "[sim]") {
  ReadLater gpu_later;
  sim::hold(gpu_later.copies);
  sim::fail_nth("cudaStreamWaitEvent", 1, cudaErrorUnknown);
  gpu_later.push({.name = "fails", .device = gpu(0), .access = {write(gpu_later.x)}}, 2);
  gpu_later.push_write();
  sim::run_all();
  CHECK(gpu_later.log.numbers().empty());
  sim::release(gpu_later.copies);
  sim::set_manual(false);
  CHECK_THROWS_AS(gpu_later.engine.wait_all(), CudaError);
  CHECK(gpu_later.log.numbers() == std::vector{1, 4});
}

// The Vars name their places by then: the host has to see to it that those come after what the tasks need.
TEST_CASE("T49: where the streams of a spoilt batch cannot be made to wait, the host waits", "[sim]") {
  ReadLater gpu_later;
  gpu_later.sim.keep_batches_open();
  Engine& engine = gpu_later.engine;
  const Var y = engine.new_var();
  const auto capturable = [](const Var& var) {
    return Task{.name = "step", .device = gpu(0), .access = {write(var)}, .capturable = true};
  };
  for (int i = 0; i < 4; ++i)
    gpu_later.push(capturable(y), 5);
  const int waits = sim::blocking_calls();
  std::thread pusher([&] {
    gpu_later.push(capturable(gpu_later.x), 2);
    sim::fail_nth("cudaStreamWaitEvent", 1, cudaErrorUnknown);
    gpu_later.push(capturable(y), 3);
    gpu_later.push_write();
  });
  CHECK(eventually([&] { return sim::blocking_calls() > waits; }));
  sim::set_manual(false);
  pusher.join();
  CHECK_NOTHROW(engine.wait_all());
  CHECK(sim::failed_call() == "cudaStreamWaitEvent");
  const std::vector<int> came = gpu_later.log.numbers();
  const auto place = [&](int number) { return std::find(came.begin(), came.end(), number) - came.begin(); };
  CHECK(place(1) < place(2));
  CHECK(place(2) < place(4));
  CHECK(came.size() == 8);
}

TEST_CASE("T49: the body of a task for the legacy stream is not called if that cannot be made to wait", "[sim]") {
  ReadLater gpu_later;
  sim::hold(gpu_later.copies);
  sim::fail_nth("cudaStreamWaitEvent", 1, cudaErrorUnknown);
  bool called = false;
  gpu_later.engine.push(
      {.name = "legacy", .device = gpu(0), .access = {write(gpu_later.x)}, .legacy_stream = true},
      [&](Queue) { called = true; });
  sim::release(gpu_later.copies);
  sim::set_manual(false);
  CHECK_THROWS_AS(gpu_later.engine.wait_all(), CudaError);
  CHECK_FALSE(called);
}

TEST_CASE("What a body has put on the legacy stream comes before its task's end, also if the body throws", "[sim]") {
  ReadLater gpu_later;
  gpu_later.engine.push(
      {.name = "legacy", .device = gpu(0), .access = {write(gpu_later.x)}, .legacy_stream = true}, [&](Queue) {
        sim::launch(cudaStreamLegacy, [&] { gpu_later.log.add(2); });
        throw ValueError("too late");
      });
  gpu_later.push_write();
  sim::hold(cudaStreamLegacy);
  sim::run_all();
  CHECK(gpu_later.log.numbers() == std::vector{1});
  sim::release(cudaStreamLegacy);
  sim::set_manual(false);
  CHECK_THROWS_AS(gpu_later.engine.wait_all(), ValueError);
  CHECK(gpu_later.log.numbers() == std::vector{1, 2, 4});
}

// As when it has taken memory that was in use there, and has given it back behind its own place.
TEST_CASE("T54: what a body of a spoilt batch has waited for comes before its batch, if it is called again", "[sim]") {
  ReadLater gpu_later;
  gpu_later.sim.keep_batches_open();
  Engine& engine = gpu_later.engine;
  const Var y = engine.new_var(), z = engine.new_var();
  PositionSet copied;
  engine.push(
      {.name = "copies", .device = gpu(0), .access = {write(z)}, .stream = StreamKind::copy_in}, [&](Queue queue) {
        copied.add(queue.position());
        sim_launch(queue, [&] { gpu_later.log.add(6); });
      });
  const Task step{.name = "step", .device = gpu(0), .access = {write(y)}, .capturable = true};
  for (int i = 0; i < 4; ++i)
    engine.push(step, [](Queue queue) { sim_launch(queue, [] {}); });
  int calls = 0;
  engine.push(step, [&](Queue queue) {
    if (++calls == 1)
      queue.wait_for(copied);
    sim_launch(queue, [&] { gpu_later.log.add(2); });
  });
  gpu_later.push(step, 3);
  sim::hold(gpu_later.copies);
  sim::run_all();
  CHECK(calls == 2);
  CHECK(gpu_later.log.numbers().empty());
  sim::release(gpu_later.copies);
  sim::set_manual(false);
  CHECK_NOTHROW(engine.wait_all());
  CHECK(gpu_later.log.numbers() == std::vector{1, 6, 2, 3});
}

TEST_CASE("T49: where there is no memory for an event, a CPU task still comes after the kernel", "[sim]") {
  const std::string call = GENERATE("cudaEventCreateWithFlags", "cudaEventRecord");
  const cudaError_t code = GENERATE(cudaErrorMemoryAllocation, cudaErrorInvalidValue);
  CAPTURE(call, code);
  ReadLater gpu_later;
  const Var unrelated = gpu_later.engine.new_var();
  sim::fail_nth(call, 1, code);
  gpu_later.push_write();
  CHECK(sim::failed_call() == call);
  gpu_later.engine.push({.name = "CPU", .access = {read(gpu_later.x)}}, [&] { gpu_later.log.add(5); });
  gpu_later.engine.push({.name = "next", .access = {write(unrelated)}}, [] {});
  gpu_later.engine.wait(unrelated);  // one worker: what was ready before has run
  CHECK(gpu_later.log.numbers().empty());
  sim::set_manual(false);
  CHECK_NOTHROW(gpu_later.engine.wait_all());
  CHECK(gpu_later.log.numbers() == std::vector{1, 4, 5});
}

TEST_CASE("T49: a wait that has nothing to sleep on asks until the GPU is through", "[sim]") {
  const std::string call = GENERATE("cudaEventRecord", "cudaStreamWaitEvent", "cudaEventSynchronize");
  CAPTURE(call);
  ReadLater gpu_later;
  gpu_later.push_write();
  sim::fail_nth(call, 1, cudaErrorUnknown);
  bool threw = false;
  std::thread waiter(
      [&] { threw = undefined_error(threw, [&] { gpu_later.engine.wait(gpu_later.x); }) != "" || threw; });
  CHECK(eventually([&] { return sim::failed_call() == call; }));
  sim::set_manual(false);
  waiter.join();
  CHECK_FALSE(threw);
  CHECK(gpu_later.log.numbers() == std::vector{1, 4});
}
