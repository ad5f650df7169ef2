// Every operator of arrays without elements: each extent that its shape rule leaves free (extents.h) is 0 once, in
// inputs that lie in memory in several ways, forward, backward from head gradients that are as empty as the results,
// and backward once more. Shapes are those that the rule gives for 0, values what dense arrays on the CPU give, these
// what float64 gives, and where no result has an element no input has a gradient but 0.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/operator/case_step.h"
#include "tests/operator/every_case.h"
#include "tests/operator/extents.h"
#include "tests/operator/layouts.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// What is refused though its shape rule would leave it free: cases whose names begin so, and what the error says.
struct Refusal {
  const char* name;
  const char* says;
  bool in_kernel = false;  // which tells of indices on a GPU in words of its own
};

const std::vector<Refusal> k_refusals = {
    // An index, a label or a region names an entry of what has none.
    {"take", "nothing to take from"},
    {"put", "nothing to take from"},
    {"gather_nd", "nothing to take from"},
    {"index_", "nothing to take from"},
    {"add_along_axis", "nothing to take from"},
    {"slice_axes and ", "nothing to take from"},
    {"pick", "nothing to pick from"},
    {"cross entropy", "is outside [0, 0)", true},
    {"likelihood", "is outside [0, 0)", true},
    {"weighted", "nothing to take from"},
    {"smoothed ", "nothing to pick from"},
    {"take_places", "is out of bounds for axis 1 with size 0", true},
    {"sequence_last", "of 0 steps at most", true},
    {"softmax_cross_entropy_both", "is outside [0, 0)", true},
    {"slice_a", "index 1 is out of bounds"},
    {"embedding", "padding 3 is no row"},
    {"true_entries", "truths of shape (6,) beside a row of shape (0,)"},
    {"topk", "k is 2"},
    {"roi_align", ", of 0", true},
    {"ctc_loss", "a length of data of sequence", true},
    {"ctc_", "of at least a class, the blank"},
    {"box_nms", "does not fit boxes of 0 numbers"},
    {"index_assign", "does not broadcast"},  // the places are as many as before
    // No number is the largest of none, and none stands at a quantile, an edge or a category.
    {"max over", "nothing to reduce"},
    {"min over", "nothing to reduce"},
    {"argm", "nothing to reduce"},
    {"nanm", "nothing to reduce"},
    {"ptp", "nothing to reduce"},
    {"quantile", "no entries along axis"},
    {"percentile", "no entries along axis"},
    {"median", "no entries along axis"},
    {"nanquantile", "no entries along axis"},
    {"nanpercentile", "no entries along axis"},
    {"nanmedian", "no entries along axis"},
    {"nanarg", "nothing to reduce"},
    {"random_choice", "there is none to choose"},
    {"sample_multinomial", "have no categories"},
    {"sample_categorical", "have no categories"},
    {"pad with ", "has no entries"},
    // A window reaches beyond padding, a sample lies between pixels, a network makes a step.
    {"convolution", "does not fit into the"},
    {"im2col", "does not fit into the"},
    {"deconvolution", "nothing is left of x"},
    {"deconvolution", "does not fit a weight of shape (0, "},  // of no channels groups have no size
    {"max_pool", "must have 1 to 2^31 - 1 elements"},
    {"avg_pool", "must have 1 to 2^31 - 1 elements"},
    {"lp_pool", "must have 1 to 2^31 - 1 elements"},
    {"adaptive_", "must have 1 to 2^31 - 1 elements"},
    {"adaptive_", "has nothing along axis"},
    {"roi_align", "of at least a pixel"},
    {"grid_sample", "of at least a pixel"},
    {"upsampling", "of at least a pixel"},
    {"resize", "of at least a pixel"},
    {"resize_planes", "of 1 to 2^31 - 1 rows and columns"},
    {"plane_samples", "planes of less than 2^30 elements"},
    {"rnn", "of a step and a number or more"},
    // cuDNN's attention has widths that its tiles take.
    {"fused attention", "must be multiples of 8"},
    {"fused attention of one array", "heads of q and"},
    {"attention_fused", "must be multiples of 8"},
};

// Results as long as the shorter one of two extents, or as a range that is clipped: they do not grow evenly from 0 on.
const std::vector<std::string> k_clipped = {"slice", "diag", "split that overlaps"};

bool begins(const std::string& name, const std::string& with) {
  return name.compare(0, with.size(), with) == 0;
}

std::set<const Refusal*>& refused() {
  static std::set<const Refusal*> entries;
  return entries;
}

bool is_refusal(const std::string& name, const std::string& error) {
  for (const Refusal& entry : k_refusals) {
    const char* const says =
        entry.in_kernel && begins(error, "a kernel on gpu") ? "what it wrote for that element is 0" : entry.says;
    if (begins(name, entry.name) && error.find(says) != std::string::npos) {
      refused().insert(&entry);
      return true;
    }
  }
  return false;
}

struct Setting {
  Device device;
  DType dtype;
  Layout layout;
  bool views = true;  // false: copied into dense arrays
};

// A simulated GPU takes its time.
std::vector<Layout> lying(Device device) {
  return device.is_gpu() ? std::vector{Layout::dense, Layout::repeated}
                         : std::vector{Layout::dense, Layout::stepped, Layout::transposed, Layout::repeated};
}

NDArray base_of(const Setting& s, const Shape& shape, std::uint64_t seed, double low, double high, DType dtype) {
  return random_array(base_shape(s.layout, shape), seed, low, high, dtype).to(s.device).detach();
}

NDArray given_of(const Setting& s, const NDArray& base, const Shape& shape) {
  const NDArray view = view_of(s.layout, base, shape);
  return s.views ? view : view.copy();
}

// The result, and the gradients of the inputs, or those of the gradients.
Arrays differentiated(const DifferentiableCase& c, const Setting& s, bool twice) {
  random::seed(7);
  std::vector<NDArray> variables, given, ends, heads;
  const autograd::RecordScope record;
  for (std::size_t i = 0; i < c.shapes.size(); ++i) {
    variables.push_back(base_of(s, c.shapes[i], 10 + i, c.low, c.high, s.dtype));
    variables.back().attach_grad();
    given.push_back(given_of(s, variables.back(), c.shapes[i]));
  }
  const NDArray y = c.f(given);
  const auto head_of = [&](const NDArray& end) {
    Setting there = s;
    there.device = end.device();
    return given_of(there, base_of(there, end.shape(), 30 + heads.size(), 0.5, 1.5, end.dtype()), end.shape());
  };
  ends.push_back(y);
  heads.push_back(head_of(y));
  if (twice) {
    ends = autograd::grad(ends, variables, heads, {.create_graph = true});
    std::erase_if(ends, [](const NDArray& end) { return !autograd::on_tape(end); });
    heads.clear();
    for (const NDArray& end : ends)
      heads.push_back(head_of(end));
  }
  if (!ends.empty())
    autograd::backward(ends, heads);
  Arrays made{y};
  for (const NDArray& variable : variables)
    made.push_back(variable.grad());
  return made;
}

Arrays plain(const PlainCase& c, const Setting& s) {
  random::seed(7);
  Arrays given;
  for (const auto& [shape, own] : c.inputs)
    given.push_back(given_of(s, base_of(s, shape, 11 + given.size(), c.low, c.high, own.value_or(s.dtype)), shape));
  return c.f(given, s.dtype);
}

std::string shape_difference(const std::string& name, const FreeExtent& free, const Arrays& made) {
  for (const std::string& clipped : k_clipped) {
    if (begins(name, clipped))
      return {};
  }
  for (std::size_t i = 0; i < free.of_none.size(); ++i) {
    if (free.of_none[i] && made[i].shape() != *free.of_none[i])
      return message("result ", i, " is ", made[i].shape(), ", expected ", *free.of_none[i]);
  }
  return {};
}

// Behind the first result: gradients of the shapes of their inputs, and 0 where there was nothing.
std::string gradient_difference(const DifferentiableCase& c, Layout layout, const Arrays& made) {
  for (std::size_t i = 1; i < made.size(); ++i) {
    const Shape shape = base_shape(layout, c.shapes[i - 1]);
    if (made[i].shape() != shape)
      return message("gradient ", i - 1, " is ", made[i].shape(), ", expected ", shape);
    if (made[0].size() > 0)
      continue;
    for (const double value : made[i].to_vector<double>()) {
      if (value != 0)
        return message("gradient ", i - 1, " of nothing is ", value);
    }
  }
  return {};
}

// What float64 gives another answer to: other numbers are drawn of it, or it is refused.
const std::vector<std::string> k_not_of_float64 = {"random_", "attention_fused"};

DType wide_of(const std::string& name, const Setting& s) {
  const bool has_other = std::any_of(
      k_not_of_float64.begin(), k_not_of_float64.end(), [&](const std::string& with) { return begins(name, with); });
  const bool is_dense = s.layout == Layout::dense && s.device.is_cpu();
  return is_dense && is_floating(s.dtype) && !has_other ? float64 : s.dtype;
}

std::string value_difference(DType dtype, const Arrays& got, const Arrays& want) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const Tolerance close = tolerance_of(is_floating(got[i].dtype()) ? dtype : got[i].dtype());
    const std::string found =
        differences(got[i].to(cpu()), want[i].to(cpu()), {20 * close.relative, 20 * close.absolute});
    if (!found.empty())
      return message("array ", i, ": ", found);
  }
  return {};
}

// Empty if `run` of a setting gives what `check` asks and what dense arrays on the CPU give; or refuses as listed.
template <class Run, class Check>
std::string wrong(const std::string& name, const Setting& s, const Run& run, const Check& check) {
  try {
    const Arrays made = run(s);
    for (const NDArray& array : made)
      array.wait_to_read();
    std::string found = check(made);
    const DType wide = wide_of(name, s);
    if (found.empty() && (s.layout != Layout::dense || s.device.is_gpu() || wide != s.dtype))
      found = value_difference(s.dtype, made, run({cpu(), wide, s.layout, false}));
    return found;
  } catch (const Error& error) {
    return is_refusal(name, error.what()) ? "" : error.what();
  }
}

void check_all_differentiable(Device device, const std::vector<DType>& types) {
  int count = 0;
  for (const DifferentiableCase& c : every_differentiable_case()) {
    for (const FreeExtent& free : free_extents_of(c)) {
      const DifferentiableCase empty = of_shapes(c, with_extent(c.shapes, free, 0));
      for (const DType dtype : types) {
        for (const Layout layout : lying(device)) {
          const auto check = [&](const Arrays& made) {
            const std::string found = shape_difference(c.name, free, made);
            return found.empty() ? gradient_difference(empty, layout, made) : found;
          };
          for (const bool twice : {false, true}) {
            const auto run = [&](const Setting& s) { return differentiated(empty, s, twice); };
            const std::string found = wrong(c.name, {device, dtype, layout}, run, check);
            CAPTURE(c.name, empty.shapes, dtype, static_cast<int>(layout), twice);
            ++count;
            CHECK(found == "");
          }
        }
      }
    }
  }
  CHECK(count > 5000);
}

bool takes(const PlainCase& c, DType dtype) {
  try {
    for (const NDArray& result : plain(c, {cpu(), dtype, Layout::dense}))
      result.wait_to_read();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void check_forward(Device device, const std::vector<PlainCase>& cases, const std::vector<DType>& types) {
  int count = 0;
  for (const PlainCase& c : cases) {
    const std::vector<FreeExtent> all = free_extents_of(c);
    for (const DType dtype : types) {
      if (!takes(c, dtype))
        continue;
      for (const FreeExtent& free : all) {
        const PlainCase empty = of_shapes(c, with_extent(shapes_of(c), free, 0));
        for (const Layout layout : lying(device)) {
          const auto run = [&](const Setting& s) { return plain(empty, s); };
          const auto check = [&](const Arrays& made) { return shape_difference(c.op, free, made); };
          const std::string found = wrong(c.op, {device, dtype, layout}, run, check);
          CAPTURE(c.op, shapes_of(empty), dtype, static_cast<int>(layout));
          ++count;
          CHECK(found == "");
        }
      }
    }
  }
  CHECK(count > 1000);
}

}  // namespace

TEST_CASE("Operators and their gradients take arrays without elements", "[nothing]") {
  check_all_differentiable(cpu(), {float32, float64, float16});
  check_forward(cpu(), every_plain_case(), {float32, bfloat16});
  check_forward(cpu(), every_forward_case(), {int32, bool_, uint16});
  std::string unused;
  for (const Refusal& entry : k_refusals) {
    if (!refused().contains(&entry))
      unused += message(entry.name, ": ", entry.says, '\n');
  }
  CHECK(unused == "");
}

TEST_CASE("Operators and their gradients take arrays without elements on a GPU", "[nothing][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all_differentiable(gpu(), {float32, float16});
  check_forward(gpu(), every_plain_case(), {float32});
  check_forward(gpu(), every_forward_case(), {int32});
}
