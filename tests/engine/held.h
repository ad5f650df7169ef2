#pragma once

#include <sluice/engine/engine.h>

#include "tests/support/catch.h"
#include "tests/support/gate.h"

namespace sluice::test {

/// A Var that a task on a worker writes for as long as the gate is shut.
struct Held {
  explicit Held(Engine& engine) : var(engine.new_var()), opens(gate) {
    Gate inner = gate;
    engine.push({.name = "holds", .access = {out(var)}}, [inner] { inner.wait(); });
  }

  Var var;
  Gate gate;
  OpensAtEnd opens;
};

/// A Var's writer that has been begun, and ends when it is told to.
inline TaskCompletion written_outside(Engine& engine, const Var& var) {
  TaskCompletion completion;
  Gate there;
  engine.push({.name = "outside", .access = {write(var)}}, [&](Queue queue) {
    completion = queue.complete_later();
    there.open();
  });
  REQUIRE(there.wait());
  return completion;
}

/// Runs a task. Where all workers but one are held up, what ran on that one has ended or is suspended by then.
inline void let_pass(Engine& engine) {
  engine.push({.name = "passes"}, [] {}).wait();
}

}  // namespace sluice::test
