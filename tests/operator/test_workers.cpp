// Every operator with 1, 2 and 4 workers: results, gradients and gradients of gradients have the same bits, of shapes
// that are large enough to be cut into pieces: of many rows (the first extent that the case's rule leaves free), and of
// as much more of each free extent.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/trace.h>

#include "tests/operator/case_step.h"
#include "tests/operator/every_case.h"
#include "tests/operator/extents.h"
#include "tests/support/bytes.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Large {
  std::vector<Shape> shapes;
  bool all = false;  // of each free extent more, not of the first alone
};

// What goes step by step along its first extent.
const std::vector<std::string> k_not_in_rows = {"foreach", "rnn"};

// Elements of the largest input or result: two pieces of any kernel's where the rows are many; where all extents are
// larger, two of any product's.
constexpr std::int64_t k_rows = (1 << 16) + 1, k_all = 1 << 15;

std::int64_t largest(std::span<const Shape> shapes) {
  std::int64_t most = 0;
  for (const Shape& shape : shapes)
    most = std::max(most, shape.size());
  return most;
}

/// `results` gives the shapes of results for those of inputs. None where none is free.
std::vector<Large> grown(
    const std::string& name,
    const std::vector<Shape>& shapes,
    const std::vector<FreeExtent>& free,
    const ResultShapes& results) {
  std::vector<Large> made;
  const auto first = results(shapes);
  if (free.empty() || !first || largest(shapes) == 0 || largest(*first) == 0)
    return made;
  for (const bool all : {false, true}) {
    const bool in_rows = std::none_of(
        k_not_in_rows.begin(), k_not_in_rows.end(), [&](const std::string& begin) { return name.starts_with(begin); });
    if (all ? free.size() == 1 : !in_rows)
      continue;
    for (std::int64_t factor = 2; factor < k_rows; factor += std::max<std::int64_t>(1, factor / 4)) {
      std::vector<Shape> larger = shapes;
      for (std::size_t i = 0; i < (all ? free.size() : 1); ++i)
        larger = with_extent(larger, free[i], free[i].extent * factor);
      const auto given = results(larger);
      if (!given)
        break;
      if (std::max(largest(larger), largest(*given)) >= (all ? k_all : k_rows)) {
        made.push_back({larger, all});
        break;
      }
    }
  }
  return made;
}

/// Of a program, without running it.
template <class F>
std::optional<std::vector<Shape>> inferred(const std::vector<ArraySpec>& specs, const F& f) {
  try {
    graph::Tracer tracer;
    std::vector<NDArray> given;
    for (const ArraySpec& spec : specs)
      given.push_back(tracer.input(spec));
    std::vector<Shape> shapes;
    tracer.trace([&] {
      const Arrays results = f(given);
      for (const NDArray& result : results)
        shapes.push_back(result.shape());
      return results;
    });
    return shapes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::vector<Large> grown(const DifferentiableCase& c) {
  return grown(c.name, c.shapes, free_extents_of(c), [&](const std::vector<Shape>& shapes) {
    std::vector<ArraySpec> specs;
    for (const Shape& shape : shapes)
      specs.push_back({shape});
    return inferred(specs, [&](const auto& given) { return Arrays{c.f(given)}; });
  });
}

std::vector<Large> grown(const PlainCase& c, DType dtype) {
  return grown(c.op, shapes_of(c), free_extents_of(c), [&](const std::vector<Shape>& shapes) {
    std::vector<ArraySpec> specs;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      specs.push_back({shapes[i], c.inputs[i].second.value_or(dtype)});
    return inferred(specs, [&](const auto& given) { return c.f({given.begin(), given.end()}, dtype); });
  });
}

std::vector<std::string> bits_of(const Arrays& arrays) {
  std::vector<std::string> all;
  for (const NDArray& array : arrays) {
    std::string bytes(static_cast<std::size_t>(array.size()) * size_of(array.dtype()), '\0');
    array.read_out(bytes.data(), array.dtype(), array.size());
    all.push_back(std::move(bytes));
  }
  return all;
}

/// Engines of 1, 2 and 4 workers.
class Crews {
 public:
  /// Empty if `run` gives the same bits on all.
  template <class Run>
  std::string differences(const Run& run) {
    const std::vector<std::string> want = on(one_, run);
    for (Engine* engine : {&two_, &four_}) {
      const std::vector<std::string> got = on(*engine, run);
      for (std::size_t i = 0; i < want.size(); ++i) {
        if (got[i] != want[i])
          return message(engine->workers(), " workers, result ", i, ": ", first_difference(got[i], want[i]));
      }
    }
    return {};
  }

 private:
  template <class Run>
  static std::vector<std::string> on(Engine& engine, const Run& run) {
    const EngineScope here(engine);
    random::seed(7);
    return bits_of(run());
  }

  Engine one_{{.workers = 1}}, two_{{.workers = 2}}, four_{{.workers = 4}};
};

/// Empty if results on a GPU are those of the CPU but for 0.001 of the largest element, or of 1, as inputs are: sums of
/// so many are rounded otherwise, and what a kernel leaves out or takes twice is more.
std::string gpu_differences(const DifferentiableCase& c, bool twice) {
  const auto run = [&](Device device) {
    random::seed(7);
    return results_of(c, inputs_of(c, float32, device), twice);
  };
  const Arrays want = run(cpu()), got = run(gpu());
  if (want.size() != got.size())
    return message(got.size(), " arrays, expected ", want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    double most = 1;
    for (const double value : want[i].to_vector<double>())
      most = std::isfinite(value) ? std::max(most, std::abs(value)) : most;
    const double error = 1e-3 * c.noise;
    if (const std::string found = test::differences(got[i].to(cpu()), want[i], {error, error * most}); !found.empty())
      return message("array ", i, ": ", found);
  }
  return {};
}

}  // namespace

TEST_CASE(
    "Every operator and its gradients give of large arrays on a GPU what they give on the CPU", "[gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  int count = 0;
  for (const DifferentiableCase& c : every_differentiable_case()) {
    if (c.name == "take_places in runs")  // places of more runs than one are no runs
      continue;
    for (const Large& large : grown(c)) {
      CAPTURE(c.name, large.shapes);
      ++count;
      try {
        CHECK(gpu_differences(of_shapes(c, large.shapes), large.all) == "");
      } catch (const Error& error) {
        FAIL_CHECK(error.what());
      }
    }
  }
  CHECK(count > 500);
}

TEST_CASE("Every operator and its gradients have the same bits with 1, 2 and 4 workers", "[workers]") {
  Crews crews;
  int count = 0;
  for (const DifferentiableCase& c : every_differentiable_case()) {
    for (const Large& large : grown(c)) {
      const DifferentiableCase here = of_shapes(c, large.shapes);
      for (const DType dtype : {float32, bfloat16}) {
        if (dtype == bfloat16 && (large.all || c.in_float32))
          continue;
        CAPTURE(c.name, large.shapes, dtype);
        ++count;
        try {
          CHECK(crews.differences([&] { return results_of(here, inputs_of(here, dtype), large.all); }) == "");
        } catch (const Error& error) {
          FAIL_CHECK(error.what());
        }
      }
    }
  }
  CHECK(count > 1000);
}

TEST_CASE("Forward of every operator has the same bits with 1, 2 and 4 workers", "[workers]") {
  Crews crews;
  int count = 0;
  const std::vector<PlainCase> plain = every_plain_case();
  for (const DType dtype : {float32, int32}) {
    for (const PlainCase& c : dtype == float32 ? plain : every_forward_case()) {
      for (const Large& large : grown(c, dtype)) {
        const PlainCase here = of_shapes(c, large.shapes);
        CAPTURE(c.op, large.shapes, dtype);
        ++count;
        try {
          CHECK(crews.differences([&] {
            const std::vector<NDArray> in = inputs_of(here, dtype);
            return here.f({in.begin(), in.end()}, dtype);
          }) == "");
        } catch (const Error& error) {
          FAIL_CHECK(error.what());
        }
      }
    }
  }
  CHECK(count > 700);
}
