#include <algorithm>
#include <numeric>
#include <utility>

#include <sluice/engine/region.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/autocast_here.h>
#include <sluice/operator/control/detail/branches.h>
#include <sluice/operator/detail/kernel_task.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/graph/detail/binding.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/update/numbers.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::graph {

namespace {

const Attributes k_no_attributes;

// The slot's memory seen as an array of another type and shape, which is all that anybody needs there: what is left in
// the rest, an error of an earlier run too, does not matter to who writes it.
NDArray on_slot(const NDArray& slot, const ArraySpec& spec, const Shape& strides) {
  sluice::detail::Buffer* const buffer = slot.object()->buffer;
  buffer->retain();
  NDArray array = sluice::detail::make_array(buffer, spec.dtype, spec.device, spec.shape, strides, 0);
  array.object()->is_all = true;
  return array;
}

Device device_of(const Binding::Step& step) {
  return step.destinations.empty() ? step.inputs[0].device() : step.destinations[0].device();
}

bool is_on_one_gpu(Device device, const Arrays& inputs, const Arrays& destinations) {
  const auto is_there = [&](const NDArray& array) { return array.device() == device; };
  return device.is_gpu() && std::all_of(inputs.begin(), inputs.end(), is_there) &&
         std::all_of(destinations.begin(), destinations.end(), is_there);
}

}  // namespace

Binding::Binding(const Graph& graph, Sharing sharing, Engine& engine, std::span<const NDArray> room)
    : graph_(graph),
      is_outside_(graph.values.size()),
      follows_(graph.values.size()),
      strides_(graph.values.size()),
      arrays_(graph.values.size()) {
  const EngineScope here(engine);
  const CallSinkScope nobody(nullptr);
  const autograd::PauseScope unrecorded;
  choose_outside();
  memory_ = plan_memory(graph, values_apart(graph), sharing);
  make_slots(room, engine);
  bind_sources(engine);
  for (const Node& node : graph.nodes)
    bind_node(node, engine);
  note_written();
  detach();
}

void Binding::make_slots(std::span<const NDArray> room, Engine& engine) {
  slots_.resize(memory_.slots.size());
  std::vector<std::size_t> by_size(slots_.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(), [&](std::size_t a, std::size_t b) {
    return memory_.slots[a].bytes > memory_.slots[b].bytes;
  });
  for (std::size_t rank = 0; rank < room.size() && rank < slots_.size(); ++rank)
    slots_[by_size[rank]] = room[rank];
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const MemoryPlan::Slot& slot = memory_.slots[i];
    if (!slots_[i].defined())
      slots_[i] = sluice::detail::make_empty(
          engine, {static_cast<std::int64_t>(slot.bytes)}, {.dtype = uint8, .device = slot.device});
  }
}

// What the graph writes in an input others must not see, so that such a one is copied.
void Binding::choose_outside() {
  const std::vector<bool> rewritten = rewritten_roots(graph_);
  const auto add = [&](ValueId id) {
    if (is_outside_[id])
      return;
    is_outside_[id] = true;
    outside_.push_back(id);
  };
  for (const ValueId input : graph_.inputs) {
    if (!rewritten[input])
      add(input);
  }
  for (const ValueId output : graph_.outputs) {
    if (graph_.values[graph_.root(output)].source == Source::result)
      add(graph_.root(output));
  }
}

void Binding::bind_sources(Engine& engine) {
  for (ValueId id = 0; id < graph_.values.size(); ++id) {
    const Value& value = graph_.values[id];
    const ArrayOptions options{.dtype = value.spec.dtype, .device = value.spec.device};
    switch (value.source) {
      case Source::input:
        arrays_[id] = sluice::detail::make_empty(engine, value.spec.shape, options);
        strides_[id] = arrays_[id].object()->strides;
        follows_[id] = is_outside_[id];
        break;
      case Source::shape:
        arrays_[id] = shape_only(value.spec);
        break;
      case Source::constant:
        arrays_[id] = value.array;
        held_.emplace_back(value.array);
        break;
      case Source::random:
        bind_random(engine, value.spec.device);
        break;
      case Source::result:
        break;
    }
  }
}

void Binding::bind_random(Engine& engine, Device device) {
  const bool is_known = std::any_of(
      random_.begin(), random_.end(), [&](const RandomStates& known) { return known.states.device() == device; });
  if (is_known)
    return;
  RandomStates made;
  for (ValueId id = 0; id < graph_.values.size(); ++id) {
    if (graph_.values[id].source == Source::random && graph_.values[id].spec.device == device)
      made.values.push_back(id);
  }
  made.states = sluice::detail::make_empty(engine, {std::ssize(made.values), 2}, {.dtype = int64, .device = device});
  for (std::size_t i = 0; i < made.values.size(); ++i)
    arrays_[made.values[i]] = sluice::detail::make_view(made.states, {2}, {1}, 2 * static_cast<std::int64_t>(i));
  random_.push_back(std::move(made));
}

void Binding::draw(Engine& engine, SourceLocation site) {
  if (random_.empty())
    return;
  drawn_.resize(graph_.values.size());
  for (const Node& node : graph_.nodes) {
    for (const ValueId input : node.inputs) {
      if (graph_.values[input].source == Source::random)
        drawn_[input] = engine.take_random(graph_.values[input].counters);
    }
  }
  for (const RandomStates& states : random_) {
    words_.clear();
    for (const ValueId id : states.values) {
      words_.push_back(static_cast<std::int64_t>(drawn_[id].seed));
      words_.push_back(static_cast<std::int64_t>(drawn_[id].offset));
    }
    sluice::detail::write_words(words_, states.states, site);
  }
}

Arrays Binding::inputs_of(const Node& node) const {
  Arrays inputs;
  for (const ValueId input : node.inputs)
    inputs.push_back(arrays_[input]);
  return inputs;
}

// Traced arrays lie row by row; where the real one does not and cannot be seen so, the view is of a copy.
void Binding::bind_view(const Node& node) {
  const NDArray& base = arrays_[node.inputs[0]];
  const Shape* const like = node.inputs.size() > 1 ? &graph_.values[node.inputs[1]].spec.shape : nullptr;
  const ValueId made = node.results[0].value;
  const auto view_of = [&](const NDArray& array) {
    const sluice::detail::ArrayObject& object = *array.object();
    const Geometry lies = node.op->view(*node.op, {object.shape, object.strides, object.offset}, like, node.attributes);
    return sluice::detail::make_view(array, lies.shape, lies.strides, lies.offset);
  };
  const auto keep_view = [&] {
    arrays_[made] = view_of(base);
    follows_[made] = follows_[node.inputs[0]];
    if (!follows_[made])
      return;
    views_.push_back({node.inputs[0], made, sluice::detail::geometry_of(arrays_[made])});
    views_.back().lies.offset -= base.object()->offset;
  };
  if (base.object()->contiguous)
    return keep_view();
  try {
    keep_view();
  } catch (const ShapeError&) {
    const NDArray packed =
        sluice::detail::make_empty(base.engine(), base.shape(), {.dtype = base.dtype(), .device = base.device()});
    steps_.push_back(
        {&sluice::detail::k_copy,
         {base},
         &k_no_attributes,
         {packed},
         node.site,
         base.device(),
         base.device().is_gpu()});
    packed_.push_back(packed);
    if (follows_[node.inputs[0]])
      uses_.push_back({node.inputs[0], steps_.size() - 1, 0, false});
    arrays_[made] = view_of(packed);
  }
}

NDArray Binding::result_of(const Node& node, ValueId id, const Arrays& inputs, Engine& engine) {
  const ArraySpec& spec = graph_.values[id].spec;
  const sluice::detail::Call call{*node.op, inputs, node.attributes, node.site, {}, false, true, {}};
  const MemoryOrder order = node.op->issue != nullptr && node.op->order == nullptr
                                ? MemoryOrder::row_major
                                : sluice::detail::order_of(call, spec.device);
  const Shape strides = sluice::detail::ordered_strides(spec.shape, order);
  strides_[id] = strides;
  follows_[id] = is_outside_[id];
  if (memory_.slot_of[id])
    return on_slot(slots_[*memory_.slot_of[id]], spec, strides);
  return on_slot(
      sluice::detail::make_empty(engine, spec.shape, {.dtype = spec.dtype, .device = spec.device}), spec, strides);
}

void Binding::bind_node(const Node& node, Engine& engine) {
  if (node.is_view()) {
    bind_view(node);
    return;
  }
  Step step{node.op, inputs_of(node), &node.attributes, {}, node.site, cpu(), false};
  for (const auto [id, made] : node.results) {
    if (made)
      arrays_[id] = result_of(node, id, step.inputs, engine);
    step.destinations.push_back(arrays_[id]);
  }
  step.device = device_of(step);
  step.capturable = node.op->capturable && is_on_one_gpu(step.device, step.inputs, step.destinations);
  if (control::is_graph_branch(graph_, node))
    step.branch = control::bound_bodies(node, step.inputs, step.destinations, engine);
  if (step.branch != nullptr) {
    step.capturable = true;
    bytes_of_branches_ += step.branch->bytes();
  }
  steps_.push_back(std::move(step));
  note_uses(node);
}

// Numbers that a node draws come behind the inputs that it names.
void Binding::note_uses(const Node& node) {
  const std::size_t step = steps_.size() - 1;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (follows_[node.inputs[i]])
      uses_.push_back({node.inputs[i], step, i, false});
  }
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    if (follows_[node.results[i].value])
      uses_.push_back({node.results[i].value, step, i, true});
  }
}

NDArray Binding::new_outside(ValueId value, Engine& engine) const {
  const ArraySpec& spec = graph_.values[value].spec;
  return on_slot(
      sluice::detail::make_empty(engine, spec.shape, {.dtype = spec.dtype, .device = spec.device}),
      spec,
      strides_[value]);
}

NDArray Binding::outside_on(const NDArray& kept, ValueId value) const {
  return on_slot(kept, graph_.values[value].spec, strides_[value]);
}

bool Binding::takes(ValueId value, const NDArray& array) const {
  const sluice::detail::ArrayObject& object = *array.object();
  return lies_so(value, array) && object.buffer->regions().size() == 1 &&
         written_memory_.find(object.buffer) == written_memory_.end();
}

bool Binding::lies_so(ValueId value, const NDArray& array) const noexcept {
  const sluice::detail::ArrayObject& object = *array.object();
  return object.size <= 1 || object.strides == strides_[value];
}

void Binding::take_branches_apart() noexcept {
  for (Step& step : steps_) {
    if (step.branch == nullptr)
      continue;
    step.branch = nullptr;
    step.capturable = false;
    step.is_apart = true;
  }
}

void Binding::attach(const Arrays& arrays) {
  for (std::size_t i = 0; i < outside_.size(); ++i)
    arrays_[outside_[i]] = arrays[i];
  for (const View& view : views_) {
    const NDArray& base = arrays_[view.base];
    arrays_[view.made] =
        sluice::detail::make_view(base, view.lies.shape, view.lies.strides, base.object()->offset + view.lies.offset);
  }
  for (const Use& use : uses_) {
    Step& step = steps_[use.step];
    (use.is_destination ? step.destinations : step.inputs)[use.place] = arrays_[use.value];
  }
}

void Binding::detach() noexcept {
  for (const ValueId value : outside_)
    arrays_[value] = {};
  for (const View& view : views_)
    arrays_[view.made] = {};
  for (const Use& use : uses_) {
    Step& step = steps_[use.step];
    (use.is_destination ? step.destinations : step.inputs)[use.place] = {};
  }
}

void Binding::run(const Step& step) {
  const sluice::detail::NoAutocast as_traced;
  if (step.branch != nullptr && region_records())
    return step.branch->push(step.inputs, step.destinations, step.site);
  invoke(*step.op, step.inputs, *step.attributes, step.site, step.destinations);
}

void Binding::note_written() {
  const std::vector<bool> rewritten = rewritten_roots(graph_);
  for (ValueId id = 0; id < graph_.values.size(); ++id) {
    if (graph_.values[id].source == Source::constant && graph_.root(id) == id && rewritten[id]) {
      written_.push_back(id);
      written_memory_.insert(arrays_[id].object()->buffer);
    }
  }
}

void Binding::poison(std::span<const NDArray> results, SourceLocation site) const {
  const auto fill = [&](const NDArray& array, std::int64_t bytes) {
    if (bytes > 0)
      on_slot(array, {{bytes}, uint8, array.device()}, {1}).assign(255, site);
  };
  const auto size = [](const NDArray& array) {
    return array.size() * static_cast<std::int64_t>(size_of(array.dtype()));
  };
  for (const NDArray& slot : slots_)
    fill(slot, size(slot));
  for (const Step& step : steps_) {
    if (step.branch != nullptr)
      step.branch->poison(site);
  }
  for (const NDArray& result : results)
    fill(result, size(result));
  for (ValueId id = 0; id < graph_.values.size(); ++id) {
    const bool is_own = graph_.values[id].source == Source::result && graph_.root(id) == id && !is_outside_[id];
    if (is_own && arrays_[id].defined() && !memory_.slot_of[id])
      fill(arrays_[id], size(arrays_[id]));
  }
}

void Binding::raise_versions() const {
  for (const ValueId id : written_)
    arrays_[id].object()->buffer->raise_version();
}

bool Binding::is_current() const {
  return std::all_of(held_.begin(), held_.end(), [](const Held& held) { return held.is_current(); });
}

}  // namespace sluice::graph
