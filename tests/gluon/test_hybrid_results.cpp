// What a hybridized block gives back: arrays of their own, none where forward gave none.
#include "tests/gluon/told.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Writes the first result of a call, and notes all of them.
void write_first(Told& block, Outcome& outcome) {
  const Arrays results = block({three_numbers()});
  results[0].slice(0, 0, 2).assign(7.0);
  for (const NDArray& result : results)
    outcome.add(result);
}

// The same recorded: what is written is a copy off the tape, as results are.
void write_first_recorded(Told& block, Outcome& outcome) {
  NDArray x = three_numbers();
  x.attach_grad();
  Arrays results;
  {
    const autograd::RecordScope record;
    results = block({x});
  }
  results[0].detach().assign(7.0);
  for (const NDArray& result : results)
    outcome.add(result.detach());
  results[1].backward();
  outcome.add(x.grad());
}

}  // namespace

TEST_CASE("Equal results of a hybridized block are arrays of their own", "[gluon][graph][hybrid]") {
  const Told::Program programs[] = {
      [](auto in, auto& w, auto&) {
        return Arrays{in[0] * 2.0 + w, in[0] * 2.0 + w};
      },
      [](auto in, auto&, auto&) {
        const NDArray h = in[0] * 2.0;
        return Arrays{h.copy(), h.copy(), h.copy()};
      },
      // Seen as a whole, in part, and from the other end; one only read inside comes before.
      [](auto in, auto& w, auto&) {
        const NDArray inside = exp(in[0] * w), a = exp(in[0] * w), b = exp(in[0] * w);
        return Arrays{a.reshape({3, 1}), inside + b.slice(0, 0, 3), b.reshape({1, 3})};
      },
      // Two views of one array stay that.
      [](auto in, auto& w, auto&) {
        const NDArray a = in[0] * w;
        return Arrays{a.reshape({3, 1}), a.reshape({1, 3}), a};
      },
      // Without entries, and one of several results of a call.
      [](auto in, auto&, auto&) {
        const auto parts = split(in[0] * 2.0, 3), again = split(in[0] * 2.0, 3);
        return Arrays{parts[0] + 0.0, again[0] + 0.0, (in[0] * 2.0).slice(0, 0, 0), (in[0] * 2.0).slice(0, 0, 0)};
      }};
  for (const Told::Program& program : programs) {
    CAPTURE(&program - programs);
    check_as_by_hand(program, write_first);
  }
  for (const Told::Program& program : {programs[0], programs[1]})
    check_as_by_hand(program, write_first_recorded);
}

TEST_CASE("A result that forward leaves undefined is undefined hybridized too", "[gluon][graph][hybrid]") {
  const Told::Program programs[] = {
      [](auto in, auto& w, auto&) {
        return Arrays{in[0] * w, NDArray()};
      },
      [](auto in, auto& w, auto&) {
        return Arrays{NDArray(), tanh(in[0] * w), NDArray(), NDArray(), in[0] + w};
      },
      [](auto, auto&, auto&) { return Arrays{NDArray()}; },
      [](auto, auto&, auto&) { return Arrays{}; }};
  for (const Told::Program& program : programs) {
    CAPTURE(&program - programs);
    const auto use = [](Told& block, Outcome& outcome) {
      NDArray x = three_numbers();
      x.attach_grad();
      for (int i = 0; i < 2; ++i) {
        for (const NDArray& result : block({x}))
          outcome.add(result);
        Arrays results;
        {
          const autograd::RecordScope record;
          results = block({x});
        }
        std::vector<NDArray> heads;
        for (const NDArray& result : results) {
          outcome.values.push_back({result.defined() ? 1.0f : 0.0f});
          if (autograd::on_tape(result))
            heads.push_back(result);
        }
        if (!heads.empty())
          heads.back().backward();
        outcome.add(x.grad());
        outcome.add(block.w().grad());
      }
    };
    check_as_by_hand(program, use);
  }
}

TEST_CASE("What needs all results of a block says which one is undefined", "[gluon][graph][hybrid]") {
  Told block([](auto in, auto& w, auto&) { return Arrays{in[0] * w, NDArray()}; });
  block.initialize();
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(block.export_to(folder / "net", {three_numbers()}), contains("output 1 is an undefined"));
  CHECK_THROWS_WITH(block.summary(three_numbers()), contains("output 1 is an undefined"));
  CHECK_THROWS_AS(block.summary(three_numbers()), ValueError);
}

TEST_CASE("A result that is lost takes no other one along", "[gluon][graph][hybrid]") {
  const auto branch_of = [](const NDArray& bad) { return [bad](const Arrays& a) { return Arrays{take(a[0], bad)}; }; };
  using Lost = std::function<NDArray(const NDArray& x, const NDArray& bad)>;
  const Lost all[] = {
      [](auto& x, auto& bad) { return take(x, bad); },
      [](auto& x, auto& bad) { return sum(one_hot(bad, 3) * x, {1}); },
      [](auto& x, auto& bad) {
        return pick(x.expand_dims(0).broadcast_to({3, 3}), bad, 1);
      },
      [&](auto& x, auto& bad) { return cond(sum(x) > 0, branch_of(bad), branch_of(bad), {x})[0]; }};
  for (const Lost& lost : all) {
    CAPTURE(&lost - all);
    for (const int index : {1, 3}) {
      const auto make = [&] {
        const NDArray bad = array<std::int32_t>({0, index, 1});
        return [=, &lost](auto in, auto& w, auto&) {
          const NDArray both = in[0] * 2.0, gone = lost(in[0], bad);
          return Arrays{both + w, in[0] * gone, both * gone, tanh(in[0]), gone + w};
        };
      };
      const auto use = [](Told& block, Outcome& outcome) {
        const Arrays results = block({three_numbers()});
        for (const NDArray& result : results) {
          try {
            outcome.add(result);
          } catch (const Error& error) {
            outcome.error += typeid(error).name();
          }
        }
        try {
          Engine::current().wait_all();
        } catch (const Error& error) {
          Engine::current().forgive(error);
        }
      };
      const Outcome found = outcome_of(make, true, use);
      check_alike(found, outcome_of(make, false, use));
      CHECK(found.values.size() == (index == 1 ? 5 : 2));
    }
  }
}
