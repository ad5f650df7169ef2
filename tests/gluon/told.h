#pragma once

#include <functional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "tests/gluon/support.h"

// Blocks that compute what a test tells them, used by hand and as a graph: both must give the same, or fail alike.
namespace sluice::test {

/// A block of two parameters of shape (3,): w is 0.5, b 0.25.
class Told : public gluon::Block {
 public:
  using Program = std::function<Arrays(std::span<const NDArray>, const NDArray& w, const NDArray& b)>;
  explicit Told(Program program)
      : program_(std::move(program)),
        w_(parameter("w", {.shape = {3}, .init = gluon::init::Constant(0.5)})),
        b_(parameter("b", {.shape = {3}, .init = gluon::init::Constant(0.25)})) {}

  Parameter w() const { return w_; }
  Parameter b() const { return b_; }

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override { return program_(inputs, w_.data(), b_.data()); }

 private:
  Program program_;
  Parameter &w_, &b_;
};

/// What a use of a block gave: numbers, and at their end perhaps an error.
struct Outcome {
  std::vector<std::vector<float>> values = {};
  std::string error = {};  // its type

  void add(const NDArray& array) { values.push_back(array.defined() ? test::values(array) : std::vector<float>{}); }
};

using UseOfTold = std::function<void(Told&, Outcome&)>;
/// Gives a program: what it keeps beside is new each time, of the engine that is current.
using MakeProgram = std::function<Told::Program()>;

inline Outcome outcome_of(const MakeProgram& make, bool hybrid, const UseOfTold& use) {
  Engine engine({.workers = 2, .seed = 5});
  const EngineScope scope(engine);
  Told block(make());
  block.initialize();
  if (hybrid)
    block.hybridize();
  Outcome outcome;
  try {
    use(block, outcome);
  } catch (const Error& error) {
    outcome.error = typeid(error).name();
  }
  return outcome;
}

inline void check_alike(const Outcome& found, const Outcome& by_hand, double tolerance = 0) {
  CHECK(found.error == by_hand.error);
  REQUIRE(found.values.size() == by_hand.values.size());
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    INFO("result " << i);
    if (tolerance == 0)
      CHECK(found.values[i] == by_hand.values[i]);
    else
      check_near(found.values[i], by_hand.values[i], tolerance);
  }
}

inline void check_as_by_hand(const Told::Program& program, const UseOfTold& use, double tolerance = 0) {
  const auto make = [&] { return program; };
  check_alike(outcome_of(make, true, use), outcome_of(make, false, use), tolerance);
}

inline NDArray three_numbers() {
  return array<float>({0.3f, -0.7f, 1.9f});
}

}  // namespace sluice::test
