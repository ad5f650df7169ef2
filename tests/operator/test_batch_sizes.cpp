// One graph for several batch sizes: the calls of a program are recorded on arrays without memory of one batch and run
// on arrays of another.
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reduction_rows.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// Keeps calls, to run them again with other arrays in the place of those without memory.
class Recording : public CallSink {
 public:
  Arrays take(const OperatorCall& call) override {
    Arrays made = abstract_results(call);
    Step& step = steps_.emplace_back(Step{&call.op, {call.inputs.begin(), call.inputs.end()}, call.attributes, {}});
    for (const NDArray& output : made)
      step.outputs.push_back(abstract_value(output));
    return made;
  }

  std::vector<NDArray> run(std::map<std::uint64_t, NDArray> arrays, const std::vector<NDArray>& wanted) const {
    const auto stand_in = [&](const NDArray& array) {
      const std::uint64_t value = abstract_value(array);
      return value == 0 ? array : arrays.at(value);
    };
    for (const Step& step : steps_) {
      std::vector<NDArray> inputs;
      for (const NDArray& input : step.inputs)
        inputs.push_back(stand_in(input));
      const Arrays made = invoke(*step.op, inputs, step.attributes, SourceLocation::current());
      for (std::size_t i = 0; i < made.size(); ++i)
        arrays[step.outputs[i]] = made[i];
    }
    std::vector<NDArray> results;
    for (const NDArray& result : wanted)
      results.push_back(stand_in(result));
    return results;
  }

 private:
  struct Step {
    const Operator* op;
    std::vector<NDArray> inputs;
    Attributes attributes;
    std::vector<std::uint64_t> outputs;
  };
  std::vector<Step> steps_;
};

using Program = std::function<NDArray(const NDArray&)>;

// f, its gradient under `head`, and where `twice` the gradient of that sum's square.
std::vector<NDArray> gradients(const Program& f, NDArray x, NDArray head, bool twice) {
  x.attach_grad();
  head.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = f(x);
  std::vector<NDArray> results = {y};
  const NDArray dx = autograd::grad({&y, 1}, {&x, 1}, {&head, 1}, {.create_graph = twice})[0];
  results.push_back(dx);
  if (twice) {
    const NDArray square = dx * dx;
    const NDArray heads[] = {square.detach()};
    results.push_back(autograd::grad({&square, 1}, {&head, 1}, heads)[0]);
  }
  return results;
}

std::string batch_differences(const Program& f, const Shape& result_of_4, const Shape& result_of_6, bool twice) {
  Recording recording;
  const NDArray x = abstract_array({{4, 3, 5}, float64, cpu()}), head = abstract_array({result_of_4, float64, cpu()});
  std::vector<NDArray> recorded;
  {
    const CallSinkScope taken(&recording);
    recorded = gradients(f, x, head, twice);
  }
  const NDArray real_x = random_array({6, 3, 5}, 3, 0.5, 1.5, float64);
  const NDArray real_head = random_array(result_of_6, 4, 0.5, 1.5, float64);
  const auto want = gradients(f, real_x, real_head, twice);
  try {
    const auto got = recording.run({{abstract_value(x), real_x}, {abstract_value(head), real_head}}, recorded);
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (const std::string found = differences(got[i], want[i]); !found.empty())
        return message("array ", i, ": ", found);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("Gradients of reductions that were recorded with one batch size run with another") {
  for (const ReductionCase& row : reduction_cases()) {
    if (!row.has_gradient())
      continue;
    for (const Shape& axes : {Shape{}, Shape{0}, Shape{1}, Shape{-1}, Shape{0, 2}, Shape{1, 2}}) {
      for (const bool keepdims : {false, true}) {
        const Program f = [&](const NDArray& x) { return row.run(x, axes, keepdims); };
        const Shape of_4 = f(ones({4, 3, 5})).shape(), of_6 = f(ones({6, 3, 5})).shape();
        CAPTURE(row.name, axes.ndim(), keepdims);
        CHECK(batch_differences(f, of_4, of_6, false) == "");
        if (row.name != "prod")  // whose second gradient cuts the terms in halves
          CHECK(batch_differences(f, of_4, of_6, true) == "");
      }
    }
  }
}

TEST_CASE("Gradients of what moves entries that were recorded with one batch size run with another") {
  const auto padded = [](PadMode mode, std::pair<std::int64_t, std::int64_t> width, int axis) {
    return [=](const NDArray& x) {
      std::vector<std::pair<std::int64_t, std::int64_t>> widths(3);
      widths[static_cast<std::size_t>(axis)] = width;
      return pad(x, widths, mode);
    };
  };
  std::vector<std::pair<std::string, Program>> programs = {
      {"roll of all", [](const NDArray& x) { return roll(x, 7); }},
      {"repeat of all", [](const NDArray& x) { return repeat(x, 2); }},
      {"flip of all", [](const NDArray& x) { return flip(x); }},
      {"tile of all",
       [](const NDArray& x) {
         return tile(x, {2, 3, 2});
       }},
      {"tile in front",
       [](const NDArray& x) {
         return tile(x, {2, 1, 1, 1});
       }},
  };
  for (const int axis : {0, 1, 2}) {
    for (const auto& width : std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 0}, {2, 1}, {0, 2}, {1, 0}}) {
      programs.emplace_back("pad", padded(PadMode::constant, width, axis));
      programs.emplace_back("edges", padded(PadMode::edge, width, axis));
      programs.emplace_back("mirrored", padded(PadMode::reflect, width, axis));
    }
    for (const std::int64_t shift : {-9, 1, 3})
      programs.emplace_back("roll", [=](const NDArray& x) { return roll(x, shift, axis); });
    programs.emplace_back("repeat", [=](const NDArray& x) { return repeat(x, 3, axis); });
    programs.emplace_back("tile", [=](const NDArray& x) {
      return tile(x, {axis == 0 ? 2 : 1, axis == 1 ? 2 : 1, axis == 2 ? 2 : 1});
    });
    programs.emplace_back("flip", [=](const NDArray& x) { return flip(x, axis); });
  }
  for (const auto& [name, f] : programs) {
    const Shape of_4 = f(ones({4, 3, 5})).shape(), of_6 = f(ones({6, 3, 5})).shape();
    CAPTURE(name, of_4);
    CHECK(batch_differences(f, of_4, of_6, false) == "");
  }
}

TEST_CASE("Operands that broadcast to a batch in what takes and puts entries are recorded with one size for others") {
  const NDArray along = array<std::int32_t>({2, 0, 1, 1}, {1, 2, 2}), some = array<std::int32_t>({4, 0});
  const NDArray row = random_array({5}, 2, 0.5, 1.5, float64), rows = random_array({1, 2, 1}, 3, 0.5, 1.5, float64);
  const NDArray few = random_array({2}, 4, 0.5, 1.5, float64), one = array<double>({7});
  const std::vector<std::pair<std::string, Program>> programs = {
      {"take_along_axis", [&](const NDArray& x) { return take_along_axis(x.slice(2, 0, 2), along, 1); }},
      {"put_along_axis", [&](const NDArray& x) { return put_along_axis(x.slice(2, 0, 2), along, rows, 1); }},
      {"add_along_axis", [&](const NDArray& x) { return add_along_axis(x.slice(2, 0, 2), along, one, 1); }},
      {"index_update", [&](const NDArray& x) { return index_update(x, {some}, few, -1); }},
      {"index_update of rows", [&](const NDArray& x) { return index_update(x, {some - 2}, row, 1, IndexMode::wrap); }},
      {"index_add", [&](const NDArray& x) { return index_add(x, {some}, one, 2); }},
      {"index_update_nd",
       [&](const NDArray& x) {
         return index_update(x, {some - 3, some}, few, 1, IndexMode::wrap);
       }},
      {"index_add_nd",
       [&](const NDArray& x) {
         return index_add(x, {some - 3, some}, one, 1, IndexMode::wrap);
       }},
      {"index_update of places",
       [&](const NDArray& x) {
         return index_update(x, {{}, 1, some}, few);
       }},
      {"index_update of ranges",
       [&](const NDArray& x) {
         return index_update(x, {{}, 1}, row);
       }},
      {"index_add of places",
       [&](const NDArray& x) {
         return index_add(x, {{}, 1, some}, few);
       }},
      {"take by a number and those of a batch",
       [&](const NDArray& x) {
         return take(x, {one.reshape({1, 1, 1}).astype(int32), argmax(x.detach(), 2, true)}, 1, IndexMode::wrap);
       }},
      {"masked_fill", [&](const NDArray& x) { return masked_fill(x, x > 1.0, row); }},
      {"put", [&](const NDArray& x) { return put(x, some, one); }},
  };
  for (const auto& [name, f] : programs) {
    const Shape of_4 = f(ones({4, 3, 5})).shape(), of_6 = f(ones({6, 3, 5})).shape();
    CAPTURE(name);
    CHECK(batch_differences(f, of_4, of_6, false) == "");
  }
}

TEST_CASE("A gradient of a mean over more terms than float16 counts is not lost") {
  NDArray x = ones({100000}, {.dtype = float16});
  x.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = mean(x);
  }
  y.backward();
  CHECK(x.grad().slice(0, 0, 1).astype(float64).item<double>() == Approx(1e-5).epsilon(0.02));
}
