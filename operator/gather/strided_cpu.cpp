#include <cstring>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/gather/entries_cpu.h>
#include <sluice/operator/gather/strided.h>

namespace sluice::detail {

namespace {

/// Calls f(place in what is named, offset in the array, elements, step in the array) for elements [begin, end) of the
/// plan, in order.
template <class F>
void walk_entries(
    const KernelCall& call,
    const Taking& taking,
    const EntrySteps& at,
    const StridedPlan<2>& plan,
    std::int64_t begin,
    std::int64_t end,
    const F& f) {
  walk_runs(plan, begin, end, [&](const StridedRun<2>& run) {
    if (run.step[1] == 0)
      return f(run.first, run.offset[0] + at.offset(entry_at(call, taking, run.offset[1])), run.count, run.step[0]);
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::int64_t entry = entry_at(call, taking, run.offset[1] + i * run.step[1]);
      f(run.first + i, run.offset[0] + i * run.step[0] + at.offset(entry), std::int64_t{1}, std::int64_t{1});
    }
  });
}

}  // namespace

void take_strided_cpu(const KernelCall& call, const Taking& taking) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (y.size == 0)
    return;
  const StridedPlan<2> plan = plan_entries(taking, x, y.shape);
  const EntrySteps at(taking.place, taking, x);
  by_element_size(size_of(x.dtype), [&]<class U>() {
    const U* const from = x.as<const U>();
    U* const to = y.as<U>();
    parallel_for(plan.size, grain_of(1), [&](std::int64_t begin, std::int64_t end) {
      walk_entries(
          call,
          taking,
          at,
          plan,
          begin,
          end,
          [=](std::int64_t i, std::int64_t offset, std::int64_t n, std::int64_t step) {
            if (step == 1)
              std::memcpy(to + i, from + offset, static_cast<std::size_t>(n) * sizeof(U));
            else
              for (std::int64_t k = 0; k < n; ++k)
                to[i + k] = from[offset + k * step];
          });
    });
  });
}

// Places before the axis are apart; behind each, numbers follow one after the other, so that the last one stays.
void put_entries_cpu(const KernelCall& call) {
  const TensorView &y = call.inputs[0], &values = call.inputs[1];
  if (values.size == 0)
    return;
  const Taking taking = taking_of(IndexKind::tuple, call, call.inputs[2], y.shape);
  const StridedPlan<2> plan = plan_entries(taking, y, values.shape);
  const EntrySteps at(taking.place, taking, y);
  const std::int64_t each = taking.at.indices * taking.at.inner, value_step = step_of_values(values);
  by_element_size(size_of(y.dtype), [&]<class U>() {
    const U* const from = values.as<const U>();
    U* const to = y.as<U>();
    parallel_for(taking.at.outer, grain_of(each), [&](std::int64_t begin, std::int64_t end) {
      walk_entries(
          call,
          taking,
          at,
          plan,
          begin * each,
          end * each,
          [=](std::int64_t i, std::int64_t offset, std::int64_t n, std::int64_t step) {
            for (std::int64_t k = 0; k < n; ++k)
              to[offset + k * step] = from[(i + k) * value_step];
          });
    });
  });
}

}  // namespace sluice::detail
