#include <algorithm>
#include <cstring>
#include <numeric>

#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/detail/thread_scratch.h>
#include <sluice/operator/elementwise/elements.h>
#include <sluice/operator/fused/detail/tiles.h>
#include <sluice/operator/fused/fused.h>

namespace sluice::fused {

namespace {

using sluice::detail::is_half;
using sluice::detail::StridedPlan;
using sluice::detail::StridedRun;

constexpr std::int64_t k_least_tile = 512, k_most_tile = 8192;
constexpr std::size_t k_tile_bytes = 128 * 1024;  // what a tile touches

/// Axes in the order of the first output's strides, so that it is written along its memory. Empty: as they are.
Shape walking_order(const TensorView& output) {
  Shape order;
  if (output.contiguous)
    return order;
  for (int axis = 0; axis < output.shape.ndim(); ++axis)
    order.push_back(axis);
  const auto is_outer = [&](std::int64_t a, std::int64_t b) {
    return output.strides[static_cast<int>(a)] > output.strides[static_cast<int>(b)];
  };
  for (int i = 1; i < order.ndim(); ++i) {
    for (int at = i; at > 0 && is_outer(order[at], order[at - 1]); --at)
      std::swap(order[at], order[at - 1]);
  }
  return order;
}

Shape in_order(const Shape& axes, const Shape& order) {
  if (order.empty())
    return axes;
  Shape turned;
  for (const std::int64_t axis : order)
    turned.push_back(axes[static_cast<int>(axis)]);
  return turned;
}

std::int64_t period_of(const StridedPlan<1>& plan) noexcept {
  int axis = 0;
  while (axis < plan.ndim && plan.strides[0][axis] == 0)
    ++axis;
  std::int64_t elements = 1;
  for (; axis < plan.ndim; ++axis)
    elements *= plan.extents[axis];
  return elements;
}

Walked walked(const TensorView& view, const Shape& shape, const Shape& order) {
  Walked made{.data = view.as<std::byte>(), .dtype = view.dtype};
  const bool is_stretched = !(view.shape == shape);
  if (view.contiguous && !is_stretched && order.empty()) {
    made.plan.size = made.plan.extents[0] = view.size;
    made.plan.strides[0][0] = 1;
  } else {
    const Shape strides =
        is_stretched ? broadcast_strides(view.shape, view.strides, shape, k_fused.name) : view.strides;
    const Shape turned = in_order(strides, order);
    made.plan = sluice::detail::plan_strided<1>(in_order(shape, order), {&turned});
  }
  made.in_place = made.is_neighbours() && !is_half(view.dtype);
  made.period = period_of(made.plan);
  return made;
}

void round_to_half(DType dtype, const float* from, std::byte* to, std::int64_t n) {
  if (dtype == DType::float16)
    simd::convert(from, reinterpret_cast<Half*>(to), n);
  else
    simd::convert(from, reinterpret_cast<BFloat16*>(to), n);
}

void widen_half(DType dtype, const std::byte* from, float* to, std::int64_t n) {
  if (dtype == DType::float16)
    simd::convert(reinterpret_cast<const Half*>(from), to, n);
  else
    simd::convert(reinterpret_cast<const BFloat16*>(from), to, n);
}

void scatter(const Walked& output, const std::byte* from, std::int64_t first, std::int64_t n) {
  const std::size_t width = size_of(register_type(output.dtype));
  walk_runs(output.plan, first, first + n, [&](const StridedRun<1>& run) {
    const std::byte* const source = from + static_cast<std::size_t>(run.first - first) * width;
    sluice::detail::scatter(output.dtype, source, output.at(run.offset[0]), run.step[0], run.count);
  });
}

}  // namespace

TileJob::TileJob(const Interned& what, std::span<const TensorView> given, std::span<const TensorView> results)
    : program(what.program), schedule(what.schedule) {
  const TensorView& first = results[0];
  size = first.size;
  keeps = first.data == nullptr;
  const Shape order = walking_order(first);
  for (const TensorView& input : given)
    inputs.push_back(walked(input, first.shape, order));
  for (const TensorView& output : results)
    outputs.push_back(walked(output, first.shape, order));
  choose_tile();
  output_of.assign(schedule.types.size(), -1);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    write_in_place(i);
}

// A whole number of periods of what is broadcast, so that it need not be gathered for each tile anew.
void TileJob::choose_tile() {
  const auto fitting = static_cast<std::int64_t>(k_tile_bytes / schedule.bytes);
  tile = std::clamp(fitting / 64 * 64, k_least_tile, k_most_tile);
  std::int64_t unit = 16;
  for (const Walked& input : inputs) {
    const std::int64_t common = input.in_place ? unit : std::lcm(unit, std::min(input.period, k_most_tile + 1));
    unit = common <= tile ? common : unit;
  }
  tile = std::min(tile / unit * unit, size);
}

// Where nothing that is read later lies there too: an output may have the memory of an input.
void TileJob::write_in_place(std::size_t output) {
  const Walked& to = outputs[output];
  const Number value = program.outputs[output];
  const auto made_by = static_cast<int>(value) - static_cast<int>(inputs.size());
  bool may = to.is_neighbours() && output_of[value] < 0;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    may = may && (inputs[i].data != to.data || !inputs[i].in_place || schedule.last_reader[i] <= made_by);
  if (may)
    output_of[value] = static_cast<int>(output);
}

Tiles::Tiles(const TileJob& job) : job_(job), schedule_(job.schedule) {
  const std::size_t values = schedule_.types.size();
  slots_.resize(values + schedule_.constants.size());
  gathered_.resize(job.inputs.size());
  lay_out(nullptr);
  lay_out(static_cast<std::byte*>(sluice::detail::thread_scratch(sluice::detail::ScratchUse::fused, bytes_)));
  for (std::size_t i = 0; i < schedule_.constants.size(); ++i) {
    const Constant& constant = schedule_.constants[i];
    sluice::detail::fill_constant(constant.dtype, constant.bits, slots_[values + i], job.tile);
  }
}

void Tiles::run(std::int64_t first, std::int64_t n) {
  for (std::size_t i = 0; i < job_.inputs.size(); ++i) {
    if (job_.inputs[i].in_place)
      slots_[i] = job_.inputs[i].at(first);
    else
      gather(i, first, n);
  }
  for (const Step& step : schedule_.steps)
    run_step(step, first, n);
  for (std::size_t i = 0; i < job_.outputs.size(); ++i) {
    const Number value = job_.program.outputs[i];
    if (job_.output_of[value] != static_cast<int>(i))
      scatter(job_.outputs[i], slots_[value], first, n);
  }
}

std::byte* Tiles::take(std::byte* base, std::size_t width) {
  std::byte* const place = base == nullptr ? nullptr : base + bytes_;
  // Not a power of two apart, or all would fall on the same lines of a cache.
  bytes_ += (static_cast<std::size_t>(job_.tile) * width + 63) / 64 * 64 + 192;
  return place;
}

void Tiles::lay_out(std::byte* base) {
  bytes_ = 0;
  buffers_.clear();
  for (const Walked& input : job_.inputs)
    buffers_.push_back(input.in_place ? nullptr : take(base, size_of(register_type(input.dtype))));
  boost::container::small_vector<std::byte*, 16> registers;
  for (const std::size_t width : schedule_.registers)
    registers.push_back(take(base, width));
  for (std::size_t value = job_.inputs.size(); value < schedule_.types.size(); ++value)
    slots_[value] = registers[schedule_.register_of[value]];
  for (std::size_t i = 0; i < schedule_.constants.size(); ++i)
    slots_[schedule_.types.size() + i] = take(base, size_of(register_type(schedule_.constants[i].dtype)));
  rounded_ = take(base, sizeof(Half));
  if (job_.keeps)
    kept_ = take(base, size_of(job_.outputs[0].dtype));
}

// n elements as neighbours of their compute type: where they lie so already, there.
void Tiles::gather(std::size_t at, std::int64_t first, std::int64_t n) {
  const Walked& input = job_.inputs[at];
  Gathered& there = gathered_[at];
  const std::int64_t phase = first % input.period;
  if (phase == there.phase && n <= there.count)
    return;
  there = {phase, n};
  const std::size_t width = size_of(register_type(input.dtype));
  std::byte* const buffer = buffers_[at];
  std::byte* found = buffer;
  walk_runs(input.plan, first, first + n, [&](const StridedRun<1>& run) {
    if (run.count == n && run.step[0] == 1 && !is_half(input.dtype)) {
      found = input.at(run.offset[0]);
      return;
    }
    std::byte* const to = buffer + static_cast<std::size_t>(run.first - first) * width;
    sluice::detail::gather(input.dtype, input.at(run.offset[0]), run.step[0], to, run.count);
  });
  slots_[at] = found;
}

void Tiles::run_step(const Step& step, std::int64_t first, std::int64_t n) {
  const DType type = schedule_.types[step.result];
  const int output = job_.output_of[step.result];
  std::byte* const outside = output < 0   ? nullptr
                             : job_.keeps ? kept_
                                          : job_.outputs[static_cast<std::size_t>(output)].at(first);
  if (!is_half(type)) {
    if (outside != nullptr)
      slots_[step.result] = outside;
    return compute(step, slots_[step.result], type, n);
  }
  std::byte* const half = outside != nullptr ? outside : rounded_;
  auto* const wide = reinterpret_cast<float*>(slots_[step.result]);
  if (step.loop != nullptr) {
    compute(step, slots_[step.result], type, n);
    round_to_half(type, wide, half, n);
  } else {
    compute(step, half, type, n);
  }
  if (outside == nullptr || schedule_.last_reader[step.result] >= 0)
    widen_half(type, half, wide, n);
}

void Tiles::compute(const Step& step, std::byte* to, DType type, std::int64_t n) {
  if (step.loop != nullptr) {
    const void* in[8];
    for (std::size_t i = 0; i < step.operands.size(); ++i)
      in[i] = slots_[step.operands[i]];
    return step.loop(to, in, n, false);
  }
  const std::byte* const from = slots_[step.operands[0]];
  if (step.cast == nullptr) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * size_of(type));
    return;
  }
  sluice::detail::CopyPlan plan;
  plan.size = plan.extents[0] = n;
  plan.strides[0][0] = plan.strides[1][0] = 1;
  step.cast(plan, to, from);
}

}  // namespace sluice::fused
