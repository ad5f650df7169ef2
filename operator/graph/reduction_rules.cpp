#include <algorithm>

#include <sluice/operator/fused/formula.h>
#include <sluice/operator/graph/detail/reduction_rules.h>
#include <sluice/operator/library/multiprocessors.h>

namespace sluice::graph {

namespace {

using sluice::detail::k_multiprocessors;
using sluice::detail::ReduceForm;
using sluice::detail::ReducePlan;
using sluice::detail::ReduceWalk;

// Of an H100, roughly: what decides is what is large beside the other.
constexpr double k_bytes_a_ns = 3000, k_instructions_a_ns = 28000;  // of all of them
constexpr double k_launch_ns = 1500;                                // one kernel more in a graph, behind another
// What is within an estimate's error of the chain alone; the kernel that is spared is worth more.
constexpr double k_as_long = 1.125, k_soon_ns = 400;
// Neighbouring threads that read what is not neighbouring read as much as this.
constexpr std::size_t k_sector = 32;

double bytes_of(const ArraySpec& spec) {
  return static_cast<double>(spec.shape.size()) * static_cast<double>(size_of(spec.dtype));
}

double over(double all, double part) {
  return part > 0 ? all / part : 1;
}

/// Lanes for one that has work where so many at a time take `count` of them.
double rounded_up(std::int64_t count, std::int64_t at_a_time) {
  const std::int64_t turns = (count + at_a_time - 1) / at_a_time;
  return over(static_cast<double>(turns * at_a_time), static_cast<double>(count));
}

double bytes_moved(double bytes, const KernelUse& use) {
  return bytes * use.waste / (k_bytes_a_ns * use.share);
}

// Terms that are made in shorter runs of neighbours than that cost more than memory does.
constexpr std::int64_t k_least_run = 64;

}  // namespace

bool joins_on_cpu(const Joining& joining) {
  const Shape& shape = joining.terms.shape;
  const Shape& axes = joining.reduction.axes;
  const auto is_reduced = [&](int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  int axis = shape.ndim() - 1;
  std::int64_t run = 1;
  const auto pass = [&](bool reduced) {
    for (; axis >= 0 && (shape[axis] == 1 || is_reduced(axis) == reduced); --axis)
      run *= shape[axis];
  };
  pass(false);
  const bool in_rows = run == 1;
  pass(true);
  const std::int64_t at_once = run;
  if (in_rows)
    pass(false);
  return joining.program.outputs.size() == 1 && (axis < 0 || at_once >= k_least_run);
}

ChainWork work_of(const Joining& joining) {
  constexpr double k_short = 2, k_long = 20;  // a sum, a comparison; an exponential function
  const fused::Program& program = joining.program;
  ChainWork work{
      .elements = static_cast<double>(joining.terms.shape.size()),
      .terms = bytes_of(joining.terms),
      .are_kept = joining.are_kept};
  for (const fused::Call& call : program.calls) {
    const fused::Formula formula = fused::formula_of(program, call);
    work.instructions += formula.begins ? k_long : k_short;
  }
  for (const ArraySpec& input : joining.inputs)
    work.read += bytes_of(input);
  for (std::size_t i = 1; i < program.outputs.size(); ++i)
    work.written += work.elements * static_cast<double>(size_of(fused::type_of(program, program.outputs[i])));
  return work;
}

KernelUse use_of(const ReduceForm& form, const ReducePlan& plan, std::size_t bytes) {
  if (form.walk == ReduceWalk::nothing)
    return {};
  KernelUse use{.share = std::min<double>(form.blocks, k_multiprocessors) / static_cast<double>(k_multiprocessors)};
  if (form.walk == ReduceWalk::columns) {
    constexpr std::int64_t k_rows = 8;
    const std::int64_t terms = std::min(plan.terms(), form.split.chunk);
    use.waste = rounded_up(plan.kept.inner(), std::int64_t{form.width} * form.vector) * rounded_up(terms, k_rows);
    return use;
  }
  const std::int64_t loads =
      form.walk == ReduceWalk::rows ? (plan.terms() + form.vector - 1) / form.vector : plan.terms() / form.vector;
  use.waste = rounded_up(loads, form.width);
  if (form.walk == ReduceWalk::general && form.vector == 1) {
    const std::int64_t step = form.width > 1 ? plan.reduced.inner_stride(0) : plan.kept.inner_stride(1);
    const auto apart = static_cast<double>(k_sector / bytes);
    use.waste *= std::clamp(static_cast<double>(step < 0 ? -step : step), 1.0, apart);
  }
  return use;
}

double chain_ns(const ChainWork& work) {
  const double bytes = work.read + work.written + (work.are_kept ? 0 : work.terms);
  return std::max(bytes / k_bytes_a_ns, work.elements * work.instructions / k_instructions_a_ns);
}

double joined_ns(const ChainWork& work, const KernelUse& use) {
  const double computed = work.elements * work.instructions * use.waste / (k_instructions_a_ns * use.share);
  return std::max(bytes_moved(work.read + work.written, use), computed);
}

double reduction_ns(const ChainWork& work, const KernelUse& use) {
  return bytes_moved(work.terms, use);
}

bool joins_on_gpu(const ChainWork& work, const KernelUse& use) {
  const double joined = joined_ns(work, use), chain = chain_ns(work);
  if (work.written > 0)
    return joined <= chain * k_as_long + k_soon_ns;
  return joined <= k_launch_ns + chain + reduction_ns(work, use);
}

bool parts_on_gpu(const ChainWork& part, const ChainWork& rest, const ChainWork& whole, const KernelUse& use) {
  return joined_ns(part, use) + chain_ns(rest) <= chain_ns(whole) + reduction_ns(part, use);
}

#if SLUICE_CUDA
namespace {

KernelUse kernel_use(const Joining& joining) {
  const ArraySpec& spec = joining.terms;
  const TensorView terms{
      .shape = spec.shape, .strides = contiguous_strides(spec.shape), .size = spec.shape.size(), .dtype = spec.dtype};
  const ReduceForm form = sluice::detail::form_of_row(joining.reduction.row, terms, joining.reduction.axes);
  return use_of(form, sluice::detail::plan_reduce(terms, joining.reduction.axes), size_of(spec.dtype));
}

/// Numbers of elements fit the kernels' arithmetic.
bool fits(const Joining& joining) {
  const auto fits = [](const ArraySpec& spec) { return spec.shape.size() <= 1 << 30; };
  return fits(joining.terms) && std::all_of(joining.inputs.begin(), joining.inputs.end(), fits);
}

}  // namespace
#endif

bool is_worth_joining(const Joining& joining) {
#if SLUICE_CUDA
  if (joining.terms.device.is_gpu())
    return fits(joining) && joins_on_gpu(work_of(joining), kernel_use(joining));
#endif
  return joins_on_cpu(joining);
}

bool is_worth_parting(
    const Joining& part, [[maybe_unused]] const ChainWork& rest, [[maybe_unused]] const ChainWork& whole) {
#if SLUICE_CUDA
  if (part.terms.device.is_gpu())
    return fits(part) && parts_on_gpu(work_of(part), rest, whole, kernel_use(part));
#endif
  return joins_on_cpu(part);
}

}  // namespace sluice::graph
