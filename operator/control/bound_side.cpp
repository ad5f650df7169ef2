#include <algorithm>
#include <functional>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/control/condition.h>
#include <sluice/operator/control/detail/bound_bodies.h>
#include <sluice/operator/gpu_kernel.h>

namespace sluice::control {

std::size_t bytes_of(const NDArray& array) {
  return static_cast<std::size_t>(array.size()) * size_of(array.dtype());
}

sluice::detail::BranchCondition condition_of(const TaskName& op, const NDArray& truth) {
  return {
      .name = op,
      .device = truth.device(),
      .access = sluice::detail::accesses_to_read(*truth.object()),
      .byte = truth.object()->data(),
      .set = SLUICE_GPU_KERNEL(set_condition_gpu)};
}

void tell_own(sluice::detail::RegionBodies& bodies, std::span<const NDArray> arrays) {
  for (const NDArray& array : arrays)
    bodies.owns(array.object()->buffer->var());
}

std::vector<std::size_t> sizes_of_room(std::span<const Subgraph> bodies) {
  std::vector<std::size_t> room;
  for (const Subgraph& body : bodies) {
    std::vector<std::size_t> sizes;
    for (const graph::MemoryPlan::Slot& slot : body.ready().memory.slots)
      sizes.push_back(slot.bytes);
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    room.resize(std::max(room.size(), sizes.size()));
    for (std::size_t i = 0; i < sizes.size(); ++i)
      room[i] = std::max(room[i], sizes[i]);
  }
  return room;
}

Arrays new_room(std::span<const Subgraph> bodies, Device device, Engine& engine) {
  Arrays room;
  for (const std::size_t bytes : sizes_of_room(bodies))
    room.push_back(
        sluice::detail::make_empty(engine, {static_cast<std::int64_t>(bytes)}, {.dtype = uint8, .device = device}));
  return room;
}

BoundSide::BoundSide(
    const Subgraph& body,
    std::span<const NDArray> given,
    std::span<const NDArray> results,
    std::span<const NDArray> room,
    Engine& engine)
    : body_(body), graph_(body.ready().graph), binding_(graph_, graph::Sharing::in_order, engine, room) {
  for (const graph::ValueId value : binding_.outside()) {
    const bool is_input = graph_.values[value].source == graph::Source::input;
    const std::vector<graph::ValueId>& values = is_input ? graph_.inputs : graph_.outputs;
    const auto at = std::find(values.begin(), values.end(), value);  // none where views of it are outputs
    End end{.number = static_cast<std::size_t>(at - values.begin()), .is_input = is_input};
    if (at == values.end() || !binding_.lies_so(value, (is_input ? given : results)[end.number]))
      end.own = binding_.new_outside(value, engine);
    ends_.push_back(std::move(end));
  }
}

Arrays BoundSide::ends(std::span<const NDArray> given, std::span<const NDArray> results) const {
  Arrays arrays;
  for (const End& end : ends_)
    arrays.push_back(end.own.defined() ? end.own : (end.is_input ? given : results)[end.number]);
  return arrays;
}

std::vector<NDArray> BoundSide::own_arrays() const {
  std::vector<NDArray> arrays(binding_.packed().begin(), binding_.packed().end());
  for (const End& end : ends_) {
    if (end.own.defined())
      arrays.push_back(end.own);
  }
  return arrays;
}

void BoundSide::tell_own(sluice::detail::RegionBodies& bodies) const {
  control::tell_own(bodies, own_arrays());
}

std::size_t BoundSide::bytes() const {
  std::size_t bytes = binding_.bytes_of_branches();
  for (const NDArray& array : own_arrays())
    bytes += bytes_of(array);
  return bytes;
}

void BoundSide::push(std::span<const NDArray> given, std::span<const NDArray> results, SourceLocation site) {
  for (const End& end : ends_) {
    if (end.is_input && end.own.defined())
      sluice::detail::push_copy(given[end.number], end.own, site);
  }
  const graph::Attached attached(binding_, ends(given, results));
  for (const graph::Binding::Step& step : binding_.steps())
    graph::Binding::run(step);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool is_made_there = std::any_of(ends_.begin(), ends_.end(), [&](const End& end) {
      return !end.is_input && !end.own.defined() && end.number == i;
    });
    if (!is_made_there)
      sluice::detail::push_copy(binding_.array(graph_.outputs[i]), results[i], site);
  }
}

}  // namespace sluice::control
