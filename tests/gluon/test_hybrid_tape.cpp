// Gradients of hybridized blocks where the tape says more than the calls do: what was written meanwhile, variables and
// nodes that forward makes itself, states that it keeps.
#include "tests/gluon/told.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Which gradients are asked for: of all results as backward() does it, of the first one alone, or as a graph.
enum class Ask { all, first, graph };

// What a block gives for one recorded call, and the gradients.
void ask(
    Ask what, Told& block, Outcome& outcome, const std::function<void()>& between = [] {}) {
  NDArray x = three_numbers();
  x.attach_grad();
  const autograd::RecordScope record;
  const Arrays results = block({x});
  {
    const autograd::PauseScope pause;
    between();
  }
  std::vector<NDArray> heads;
  for (const NDArray& result : results) {
    outcome.add(result.detach());
    if (autograd::on_tape(result) && (what != Ask::first || heads.empty()))
      heads.push_back(result);
  }
  std::vector<NDArray> variables{x, block.w().data()};
  const auto first = autograd::grad(heads, variables, {}, {.create_graph = what == Ask::graph});
  for (const NDArray& gradient : first)
    outcome.add(gradient.detach());
  if (what != Ask::graph)
    return;
  const NDArray second = first[0] * first[1] + x * block.w().data();  // on the tape whatever came back
  for (const NDArray& gradient : autograd::grad({&second, 1}, variables))
    outcome.add(gradient);
}

// `make` gives the program: what it keeps beside is new for each use.
void check_made(const MakeProgram& make, double tolerance = 1e-5) {
  for (const Ask what : {Ask::all, Ask::first, Ask::graph}) {
    CAPTURE(static_cast<int>(what));
    const auto use = [&](Told& block, Outcome& outcome) {
      ask(what, block, outcome);
      ask(what, block, outcome);
    };
    check_alike(outcome_of(make, true, use), outcome_of(make, false, use), tolerance);
  }
}
void check_gradients(const Told::Program& program, double tolerance = 1e-5) {
  check_made([&] { return program; }, tolerance);
}

NDArray paused_copy(const NDArray& array) {
  const autograd::PauseScope pause(autograd::is_training());
  return array.copy();
}

}  // namespace

TEST_CASE("A hybridized block refuses gradients of what it wrote as by hand", "[gluon][graph][hybrid][tape]") {
  // Through a second handle, through a view, a part of no entries, and as an array that lay there before.
  check_gradients([](auto in, auto& w, auto&) {
    const NDArray t = in[0] * w, q = square(t);
    NDArray same = t.detach();
    same += 1.0;
    return Arrays{q, t * w};
  });
  check_gradients([](auto in, auto& w, auto&) {
    const NDArray t = in[0] * w, q = square(t);
    const autograd::PauseScope pause(true);
    t.slice(0, 1, 2).assign(3.0);
    return Arrays{q, t};
  });
  check_made([]() -> Told::Program {
    const NDArray scale = full({3}, 1.5);
    return [scale](auto in, auto& w, auto&) {
      const NDArray q = in[0] * w * scale;
      const autograd::PauseScope pause(true);
      scale.assign(scale * 0.5);
      return Arrays{q};
    };
  });
  // Added to alone: no gradient needs it.
  check_gradients([](auto in, auto& w, auto&) {
    const NDArray t = in[0] * w, q = t + 1.0;
    t.detach().assign(5.0);
    return Arrays{q, t + q};
  });
}

TEST_CASE("Bodies that are nodes refuse gradients of what they wrote as by hand", "[gluon][graph][hybrid][tape]") {
  const auto body = [](const NDArray& state, const NDArray& w) {
    const NDArray t = state * w, q = square(t) * 0.5;
    NDArray same = t.detach();
    same += 1.0;
    return q + same * 0.1;  // otherwise a body forgets the write
  };
  for (const std::int64_t turns : {3, 33}) {
    check_gradients([=](auto in, auto& w, auto&) {
      const auto turn = [&](const Arrays& data, const Arrays& states) -> LoopResult {
        return {{}, {body(states[0] + data[0], w)}};
      };
      return Arrays{foreach(turn, {in[0].broadcast_to({turns, 3})}, {in[0]}).states[0]};
    });
  }
  check_gradients([=](auto in, auto& w, auto&) {
    return cond(
        sum(in[0]) > 0,
        [&](const Arrays& a) { return Arrays{body(a[0], w)}; },
        [](const Arrays& a) { return Arrays{a[0] * 1.0}; },
        {in[0]});
  });
  check_gradients([=](auto in, auto& w, auto&) {
    const auto turn = [&](const Arrays& states) -> LoopResult { return {{}, {body(states[0], w), states[1] + 1.0}}; };
    const auto goes_on = [](const Arrays& states) { return sum(states[1]) < 2.0; };
    return Arrays{while_loop(goes_on, turn, {in[0], zeros({1})}, 5).states[0]};
  });
}

TEST_CASE("Writes that are not recorded leave gradients as by hand", "[gluon][graph][hybrid][tape]") {
  // What was written keeps its place, and takes none of what it is written from.
  using Written = std::function<NDArray(const NDArray&, const NDArray&)>;
  const Written all[] = {
      [](auto& x, auto& w) {
        NDArray h = x * w;
        const autograd::PauseScope pause(true);
        h.assign(x * 2.0);
        const autograd::ModeScope on(true, true);
        return h * w;
      },
      [](auto& x, auto& w) {
        const NDArray h = x * w;
        NDArray same = h.detach();
        same.assign(full({3}, 2.0));
        return h * 3.0 + same * w;
      },
      [](auto& x, auto& w) {
        NDArray made = zeros({3});
        made += x * w;
        made *= 0.5;
        return made + w;
      },
      [](auto& x, auto& w) {
        NDArray made = zeros({3});
        made.assign(x.detach() * 0.5);
        made.assign(x * w);
        return made * w + made;
      },
      [](auto& x, auto& w) {
        NDArray made = x * 1.0;
        made.assign(x * w);
        made.assign(x.detach() * 0.5);
        return made * w;
      }};
  for (const Written& program : all) {
    CAPTURE(&program - all);
    check_gradients([&](auto in, auto& w, auto&) { return Arrays{program(in[0], w), in[0] * w}; });
    check_gradients([&](auto in, auto& w, auto&) {
      const auto turn = [&](const Arrays& data, const Arrays& states) -> LoopResult {
        return {{}, {tanh(program(states[0], w) + data[0])}};
      };
      return Arrays{foreach(turn, {in[0].broadcast_to({35, 3})}, {in[0]}).states[0]};
    });
    check_gradients([&](auto in, auto& w, auto&) {
      const auto branch = [&](const Arrays& a) { return Arrays{program(a[0], w)}; };
      return cond(sum(in[0]) > 0, branch, branch, {in[0]});
    });
  }
}

namespace {

/// Hands gradients through what has none.
class Straight final : public autograd::Node {
 public:
  explicit Straight(const NDArray& x) : Node("straight", SourceLocation::current()) {
    inputs.push_back(autograd::entry_of(x));
    outputs.push_back({x.shape(), x.dtype(), x.device()});
  }
  std::vector<NDArray> pull(std::span<const NDArray> gradients) override { return {gradients[0]}; }
  void release_saved() noexcept override {}
};

NDArray rounded(const NDArray& x) {
  NDArray y;
  {
    const autograd::PauseScope pause(autograd::is_training());
    y = round(x * 4.0) / 4.0;
  }
  if (autograd::is_recording() && autograd::on_tape(x))
    autograd::set_entry(y, autograd::NodeRef(new Straight(x)), 0);
  return y;
}

}  // namespace

TEST_CASE("Gradients that forward gives itself are those of a hybridized block", "[gluon][graph][hybrid][tape]") {
  check_gradients([](auto in, auto& w, auto&) { return Arrays{rounded(in[0] * w) * w, in[0] * w}; });
  check_gradients([](auto in, auto& w, auto&) { return Arrays{rounded(in[0] * w), in[0] * w}; });
  check_gradients([](auto in, auto& w, auto&) { return Arrays{rounded(in[0]) + w, rounded(w)}; });
  // By hand again as soon as calls alone say what the gradients are: nothing is kept.
  Told block([](auto in, auto& w, auto&) { return Arrays{rounded(in[0] * w)}; });
  block.initialize();
  block.hybridize();
  (void)block({three_numbers()});
  CHECK(block.hybrid_plan() != nullptr);
}

TEST_CASE(
    "A traced body with a gradient of its own is refused where one is asked for", "[gluon][graph][hybrid][tape]") {
  const auto body = [](const Arrays& a) { return Arrays{rounded(a[0]) * 2.0}; };
  const auto use = [](Told& block, Outcome& outcome) { ask(Ask::all, block, outcome); };
  const Told::Program program = [&](auto in, auto& w, auto&) { return cond(sum(in[0]) > 0, body, body, {in[0] * w}); };
  CHECK(outcome_of([&] { return program; }, true, use).error == typeid(UnsupportedError).name());
  CHECK(outcome_of([&] { return program; }, false, use).error.empty());
}

TEST_CASE("Variables that forward makes stop gradients of a hybridized block", "[gluon][graph][hybrid][tape]") {
  const auto stop = [](NDArray array) {
    array.attach_grad();
    return array;
  };
  check_gradients([=](auto in, auto& w, auto&) {
    const NDArray h = stop(in[0] * w);
    return Arrays{square(h) * w, in[0] * w};
  });
  check_gradients([=](auto in, auto& w, auto&) {  // of inputs and parameters, under other handles
    return Arrays{sin(stop(in[0].detach()) * in[0]) * stop(w.detach()) * w, in[0] * 2.0};
  });
  check_gradients([=](auto in, auto& w, auto&) {  // of an array that was copied unrecorded; as a result itself
    return Arrays{stop(paused_copy(in[0])) * w * in[0], stop(in[0] * w)};
  });
  for (const std::int64_t turns : {4, 40}) {
    check_gradients([=](auto in, auto& w, auto&) {
      const auto turn = [&](const Arrays& data, const Arrays& states) -> LoopResult {
        return {{}, {tanh(stop(states[0] * w) + data[0] * w)}};
      };
      return Arrays{foreach(turn, {in[0].broadcast_to({turns, 3})}, {in[0]}).states[0]};
    });
  }
  check_gradients([=](auto in, auto& w, auto&) {
    const auto branch = [&](const Arrays& a) { return Arrays{square(stop(a[0] * w)) * w}; };
    return cond(sum(in[0]) > 0, branch, branch, {in[0]});
  });
  check_gradients([=](auto in, auto& w, auto&) {
    const auto turn = [&](const Arrays& s) -> LoopResult { return {{}, {tanh(stop(s[0] * w) + w), s[1] + 1.0}}; };
    const auto goes_on = [](const Arrays& s) { return sum(s[1]) < 3.0; };
    return Arrays{while_loop(goes_on, turn, {in[0], zeros({1})}, 6).states[0]};
  });
}

TEST_CASE("A hybridized forward may take gradients itself", "[gluon][graph][hybrid][tape]") {
  check_gradients([](auto in, auto& w, auto&) {
    const autograd::RecordScope record(autograd::is_training());
    NDArray y = in[0] * 1.0;
    y.attach_grad();
    const NDArray heads[] = {tanh(y * w) * y}, variables[] = {y};
    const NDArray gradient = autograd::grad(heads, variables, {}, {.create_graph = true})[0];
    return Arrays{gradient * in[0] + w, in[0] * w};
  });
}

TEST_CASE("A state that forward writes recorded is on the tape as by hand", "[gluon][graph][hybrid][tape]") {
  for (const bool fails : {false, true}) {
    const auto use = [&](bool hybrid) {
      Outcome outcome;
      NDArray state = zeros({3});
      bool throws = fails;
      Told block([&](auto in, auto& w, auto&) {
        state += in[0] * w;
        if (throws)
          throw ValueError("no");
        return Arrays{state * w};
      });
      block.initialize();
      if (hybrid)
        block.hybridize();
      NDArray x = three_numbers();
      x.attach_grad();
      const autograd::RecordScope record;
      if (fails) {
        CHECK_THROWS_AS(block({x}), ValueError);
        throws = false;
        state = zeros({3});
      }
      for (int i = 0; i < 2; ++i) {
        const NDArray result = block({x})[0];
        outcome.values.push_back({autograd::on_tape(state) ? 1.0f : 0.0f});
        const autograd::PauseScope pause;
        result.backward();
        outcome.add(x.grad());
        outcome.add(block.w().grad());
        outcome.add(state.detach());
        state = state.detach().copy();
      }
      return outcome;
    };
    check_alike(use(true), use(false));
  }
}

TEST_CASE("Tracing leaves no array of others on its tape, also where it fails", "[gluon][graph][hybrid][tape]") {
  const NDArray state = zeros({3}), w = full({3}, 2.0);
  graph::Tracer tracer;
  const NDArray x = tracer.input({{3}, float32});
  NDArray variable = x;
  variable.attach_grad();
  const auto program = [&]() -> Arrays {
    const autograd::RecordScope record;
    NDArray written = state;
    written += variable * w;
    written *= 2.0;
    CHECK(autograd::on_tape(state));
    throw ValueError("no");
  };
  CHECK_THROWS_AS(tracer.trace(program), ValueError);
  CHECK_FALSE(autograd::on_tape(state));
  CHECK(tracer.records_outside());
}

TEST_CASE("A running average beside the results takes no gradient away", "[gluon][graph][hybrid][tape]") {
  const auto make = [](bool drops) {
    return [=]() -> Told::Program {
      const NDArray average = zeros({3}), used = ones({3});
      return [=](auto in, auto& w, auto&) {
        const NDArray kept = drops ? dropout(in[0], 0.5) : in[0];
        {
          const autograd::PauseScope pause(autograd::is_training());
          average.assign(average * 0.9 + dropout(in[0], 0.5) * 0.1);
        }
        return Arrays{tanh(kept * w) * used, dropout(in[0] * w, 0.5), average};
      };
    };
  };
  check_made(make(false));
  check_made(make(true));
}

TEST_CASE("A written state that a gradient needs is not taken for its old value", "[gluon][graph][hybrid][tape]") {
  const auto make = []() -> Told::Program {
    const NDArray state = full({3}, 1.0);
    return [=](auto in, auto& w, auto&) {
      const NDArray sums = relu(in[0] * w + state);
      {
        const autograd::PauseScope pause(autograd::is_training());
        state.assign(state - 100.0);
      }
      return Arrays{sums, in[0] * w};
    };
  };
  const auto all = [](Told& block, Outcome& outcome) { ask(Ask::all, block, outcome); };
  check_alike(outcome_of(make, true, all), outcome_of(make, false, all));
  const auto first = [](Told& block, Outcome& outcome) { ask(Ask::first, block, outcome); };
  CHECK(outcome_of(make, true, first).error == typeid(UnsupportedError).name());
}

TEST_CASE("Partial gradients say that a parameter was written meanwhile", "[gluon][graph][hybrid][tape]") {
  const Told::Program program = [](auto in, auto&, auto& b) { return Arrays{relu(in[0] + b), in[0] * 2.0}; };
  for (const Ask what : {Ask::first, Ask::graph}) {
    const auto run = [&](const std::function<void(const Told&)>& between) {
      const auto use = [&](Told& block, Outcome& outcome) { ask(what, block, outcome, [&] { between(block); }); };
      return outcome_of([&] { return program; }, true, use);
    };
    CHECK(run([](const Told&) {}).error.empty());
    CHECK(run([](const Told& block) { block.b().set_data(full({3}, -10.0)); }).error == typeid(AutogradError).name());
    CHECK(run([](const Told& block) { block.w().set_data(full({3}, -10.0)); }).error.empty());  // is not read
  }
}

TEST_CASE("An input of which gradients need the shape alone may be written", "[gluon][graph][hybrid][tape]") {
  const auto use = [](Told& block, Outcome& outcome) {
    NDArray x = three_numbers();
    x.attach_grad();
    for (const bool strided : {false, true}) {
      NDArray before, result;
      {
        const autograd::RecordScope record;
        before = strided ? x.expand_dims(0).broadcast_to({2, 3}) * 1.0 : x * 1.0;
        result = block({before})[0];
      }
      before.assign(7.0);
      result.backward();
      outcome.add(x.grad());
      outcome.add(block.w().grad());
    }
  };
  check_as_by_hand([](auto in, auto& w, auto&) { return Arrays{sum(in[0]) * w}; }, use);
  check_as_by_hand(
      [](auto in, auto& w, auto&) { return Arrays{mean(in[0] + 1.0, {-1}, true) * w.slice(0, 0, 1)}; }, use);
  check_as_by_hand([](auto in, auto& w, auto&) { return Arrays{in[0] * w}; }, use);  // its values
}
