// Lost and stale (decision 5): a Var that merely missed an update can be forgiven, a lost value cannot.
#include "tests/engine/expect.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// One failed step of a training program: `loss` cannot be computed, so `weights` miss their update.
struct FailedStep {
  Engine engine;
  Var input = engine.new_var(), loss = engine.new_var(), weights = engine.new_var();
  int trained = 0;

  explicit FailedStep(CpuMode policy) : engine({.workers = 2, .cpu_policy = policy}) {
    engine.push({.name = "forward", .access = {read(weights), out(loss)}}, [] { throw OutOfMemory("too big", 4096); });
    update();
  }
  void update() {
    engine.push({.name = "update", .access = {read(loss), write(weights)}}, [this] { ++trained; });
  }
};

}  // namespace

TEST_CASE("After a step that failed, was caught and forgiven, training goes on from the last good weights") {
  for (const CpuMode policy : {CpuMode::serial, CpuMode::pool}) {
    FailedStep step(policy);
    expect_error<OutOfMemory>(
        [&] { step.engine.wait(step.weights); }, [&](const OutOfMemory& error) { CHECK(step.engine.forgive(error)); });
    CHECK_NOTHROW(step.engine.wait(step.weights));
    CHECK_THROWS_AS(step.engine.wait(step.loss), OutOfMemory);

    step.engine.push({.name = "forward", .access = {read(step.weights), out(step.loss)}}, [] {});
    step.update();
    CHECK_NOTHROW(step.engine.wait(step.weights));
    CHECK_NOTHROW(step.engine.wait(step.loss));
    CHECK_NOTHROW(step.engine.wait_all());
    CHECK(step.trained == 1);
  }
}

TEST_CASE("Unforgiven, a stale Var throws on wait and stops its readers") {
  FailedStep step(CpuMode::pool);
  CHECK_THROWS_AS(step.engine.wait(step.weights), OutOfMemory);
  bool ran = false;
  Var copy = step.engine.new_var();
  step.engine.push({.name = "reader", .access = {read(step.weights), out(copy)}}, [&] { ran = true; });
  CHECK_THROWS_AS(step.engine.wait(copy), OutOfMemory);
  CHECK_FALSE(ran);
  CHECK(step.trained == 0);
}

TEST_CASE("What the failing task itself wrote is lost: forgiving does not bring it back") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  engine.push({.name = "half written", .access = {write(x)}}, [] { throw ValueError("halfway"); });
  expect_error<ValueError>([&] { engine.wait(x); }, [&](const ValueError& error) { CHECK(engine.forgive(error)); });
  CHECK_THROWS_AS(engine.wait(x), ValueError);
  engine.push({.name = "overwrite", .access = {out(x)}}, [] {});
  CHECK_NOTHROW(engine.wait(x));
}

TEST_CASE("A skipped task's `out` is lost even when its other Var is only stale") {
  Engine engine({.workers = 2});
  Var failed = engine.new_var(), result = engine.new_var(), state = engine.new_var();
  engine.push({.name = "fails", .access = {write(failed)}}, [] { throw ValueError("bad"); });
  engine.push({.name = "skipped", .access = {read(failed), out(result), write(state)}}, [] {});
  expect_error<ValueError>([&] { engine.wait(state); }, [&](const ValueError& error) { engine.forgive(error); });
  CHECK_NOTHROW(engine.wait(state));
  CHECK_THROWS_AS(engine.wait(result), ValueError);
  CHECK_THROWS_AS(engine.wait(failed), ValueError);
}

TEST_CASE("Forgiving one failure leaves another in force") {
  Engine engine({.workers = 2});
  Var a = engine.new_var(), b = engine.new_var(), state_a = engine.new_var(), state_b = engine.new_var();
  engine.push({.name = "a", .access = {write(a)}}, [] { throw ValueError("a failed"); });
  engine.push({.name = "b", .access = {write(b)}}, [] { throw ValueError("b failed"); });
  engine.push({.name = "update a", .access = {read(a), write(state_a)}}, [] {});
  engine.push({.name = "update b", .access = {read(b), write(state_b)}}, [] {});
  expect_error<ValueError>([&] { engine.wait(state_a); }, [&](const ValueError& error) { engine.forgive(error); });
  CHECK_NOTHROW(engine.wait(state_a));
  CHECK_THAT(text_of_error([&] { engine.wait(state_b); }), contains("b failed"));
}

TEST_CASE("A lost Var stays lost when a later update is skipped and forgiven") {
  Engine engine({.workers = 2});
  Var x = engine.new_var();
  engine.push({.name = "loses", .access = {write(x)}}, [] { throw ValueError("lost"); });
  engine.push({.name = "skipped update", .access = {write(x)}}, [] {});
  expect_error<ValueError>([&] { engine.wait(x); }, [&](const ValueError& error) { engine.forgive(error); });
  CHECK_THROWS_AS(engine.wait(x), ValueError);
}

TEST_CASE("A forgiven Var that misses an update for another reason fails anew") {
  Engine engine({.workers = 2});
  Var a = engine.new_var(), b = engine.new_var(), state = engine.new_var();
  engine.push({.name = "a", .access = {write(a)}}, [] { throw ValueError("a failed"); });
  engine.push({.name = "update by a", .access = {read(a), write(state)}}, [] {});
  expect_error<ValueError>([&] { engine.wait(state); }, [&](const ValueError& error) { engine.forgive(error); });
  CHECK_NOTHROW(engine.wait(state));
  engine.push({.name = "b", .access = {write(b)}}, [] { throw IndexError("b failed"); });
  engine.push({.name = "update by b", .access = {read(b), write(state)}}, [] {});
  expect_error<IndexError>([&] { engine.wait(state); }, [&](const IndexError& error) { engine.forgive(error); });
  CHECK_NOTHROW(engine.wait(state));
}

TEST_CASE("forgive says whether the error came from a task") {
  Engine engine({.workers = 1});
  CHECK_FALSE(engine.forgive(ValueError("of no task")));
}
