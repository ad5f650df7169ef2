#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/unseen_writes.h>
#include <sluice/engine/error.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/autocast.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/detail/writes_done.h>
#include <sluice/operator/half_types.h>

namespace sluice {

namespace detail {

namespace {

bool is_floating_array(const NDArray& array) noexcept {
  return array.defined() && is_floating(array.object()->dtype);
}

/// The types of a call's floating inputs.
struct FloatingTypes {
  bool any = false, half = false, mixed = false, wide = false;  // wide: float64
  DType widest = DType::float32;

  explicit FloatingTypes(std::span<const NDArray> inputs) noexcept {
    for (const NDArray& input : inputs) {
      if (!is_floating_array(input))
        continue;
      const DType dtype = input.object()->dtype;
      mixed = mixed || (any && dtype != widest);
      widest = any ? promote(widest, dtype) : dtype;
      half = half || is_half(dtype);
      wide = wide || dtype == float64;
      any = true;
    }
  }
};

// What the call's floating inputs become, if anything.
std::optional<DType> target_of(amp::CastRule rule, const FloatingTypes& types, DType low) noexcept {
  switch (rule) {
    case amp::CastRule::low:
      return types.any && !types.wide ? std::optional(low) : std::nullopt;
    case amp::CastRule::float32:
      return types.half ? std::optional(types.wide ? float64 : float32) : std::nullopt;
    case amp::CastRule::widest:
      return types.mixed ? std::optional(types.widest) : std::nullopt;
    case amp::CastRule::neutral:
      break;
  }
  return std::nullopt;
}

// A cast would be written in the place of the array.
bool writes_inputs(const Operator& op, std::size_t inputs, const Attributes& attributes) {
  if (op.mutates == nullptr)
    return op.mutated_inputs != k_none;
  for (std::size_t i = 0; i < inputs; ++i) {
    if (op.mutates(i, inputs, attributes))
      return true;
  }
  return false;
}

}  // namespace

// Writes that no version tells of: of regions and of other libraries, and failures of the cast itself, whose reason may
// be forgiven by now. What is asked by a trace is made when that runs.
bool CastCache::is_good(Known& known) {
  const ArrayObject& object = *known.variable.object();
  if (known.version != object.buffer->version() || known.leaf != object.entry.node.get())
    return false;
  if (known.sink != nullptr)
    return true;
  const std::optional<std::uint64_t> now = writes_done(*object.buffer);
  if (known.unseen != unseen_writes() || (known.writes && now != known.writes))
    return false;
  known.writes = now;
  const Buffer* const made = known.made.object()->buffer;
  return made == nullptr || failures_in(writes_done(*made).value_or(0)) == 0;
}

NDArray CastCache::cast(const NDArray& variable, DType to, SourceLocation site) {
  const ArrayObject& object = *variable.object();
  if (object.variable == nullptr || object.buffer == nullptr || is_lent(*object.buffer))
    return variable.astype(to, site);
  CallSink* const sink = sink_for_casts();
  const CallSinkScope there(sink);
  const bool recorded = autograd::is_recording();
  const auto is_it = [&](const Known& one) {
    return one.variable.same(variable) && one.made.dtype() == to && one.sink == sink && one.recorded == recorded;
  };
  const auto found = std::find_if(known_.begin(), known_.end(), is_it);
  if (found != known_.end() && is_good(*found))
    return found->made;
  const std::optional<std::uint64_t> writes = writes_done(*object.buffer);  // before they are read
  const NDArray made = variable.astype(to, site);
  Known known{
      variable, made, object.entry.node.get(), object.buffer->version(), unseen_writes(), writes, sink, recorded};
  if (found != known_.end()) {
    *found = std::move(known);
  } else {
    drop_unreachable();
    known_.push_back(std::move(known));
  }
  return made;
}

// Of variables that the cache alone still holds, as it does those of earlier batches: nobody can ask for their casts.
void CastCache::drop_unreachable() {
  std::erase_if(
      known_, [](const Known& one) { return one.variable.object()->references.load(std::memory_order_acquire) == 1; });
}

// While a program is recorded it does not write variables: a cast outside of a body is good for all its turns.
CallSink* CastCache::sink_for_casts() const noexcept {
  CallSink* sink = sink_here();
  for (std::size_t i = bodies_.size(); autograd::is_recording() && i-- > 0;) {
    if (bodies_[i].trace == sink)
      sink = bodies_[i].outer;
  }
  return sink;
}

void CastCache::begin_trace(const CallSink* trace, CallSink* outer, bool captures) {
  const auto is_body = [&](const CallSink* sink) {
    return std::any_of(bodies_.begin(), bodies_.end(), [sink](const Body& body) { return body.trace == sink; });
  };
  while (!bodies_.empty() && bodies_.back().trace != outer)  // they are over
    bodies_.pop_back();
  const bool all = !is_body(outer);
  std::erase_if(
      known_, [=](const Known& one) { return one.sink == trace || (all && one.sink != nullptr && one.sink != outer); });
  if (captures)
    bodies_.push_back({trace, outer});
}

const AutocastState* autocast_here() noexcept {
  return t_autocast != nullptr && t_autocast->body == EngineAccess::body_here() ? t_autocast : nullptr;
}

bool autocast_widens(
    const Operator& op, std::span<const NDArray> inputs, const Attributes& attributes, const AutocastState& state) {
  if (!state.low || op.widened == nullptr || attributes.type() != op.attributes)
    return false;
  const FloatingTypes types(inputs);
  const bool reads_half = types.half && !types.wide && inputs[0].defined() && is_half(inputs[0].dtype());
  return reads_half && amp::cast_rule(op.name) == amp::CastRule::float32;
}

std::span<const NDArray> autocast_inputs(
    const Operator& op,
    std::span<const NDArray> inputs,
    const Attributes& attributes,
    const AutocastState& state,
    Arrays& cast,
    SourceLocation site) {
  const amp::CastRule rule = amp::cast_rule(op.name);
  if (!state.low || rule == amp::CastRule::neutral)
    return inputs;
  const std::optional<DType> to = target_of(rule, FloatingTypes(inputs), *state.low);
  if (!to || writes_inputs(op, inputs.size(), attributes))
    return inputs;
  for (const NDArray& input : inputs) {
    const bool is_cast = is_floating_array(input) && input.object()->dtype != *to;
    cast.push_back(is_cast ? state.casts->cast(input, *to, site) : input);
  }
  return cast;
}

void note_trace(const CallSink* trace, CallSink* outer, bool captures) {
  if (t_autocast != nullptr)
    t_autocast->casts->begin_trace(trace, outer, captures);
}

}  // namespace detail

namespace amp {

/// The innermost scope while it lives; the outermost one's casts are all inner ones'.
struct AutocastScope::State : detail::AutocastState {
  const detail::AutocastState* before;
};

AutocastScope::AutocastScope(std::optional<DType> low) : state_(std::make_unique<State>()) {
  require<DTypeError>(
      !low || detail::is_half(*low), [&] { return message("autocast: casts to float16 or bfloat16, not to ", *low); });
  state_->before = detail::t_autocast;
  const detail::AutocastState* const outer = detail::autocast_here();
  state_->low = low;
  state_->casts = outer == nullptr ? std::make_shared<detail::CastCache>() : outer->casts;
  state_->body = detail::EngineAccess::body_here();
  detail::t_autocast = state_.get();
}

AutocastScope::~AutocastScope() {
  if (detail::t_autocast == state_.get()) {
    detail::t_autocast = state_->before;
    return;
  }
  // It ends before an inner one does, which comes to stand in its place.
  for (const detail::AutocastState* scope = detail::t_autocast; scope != nullptr;) {
    auto* const inner = const_cast<State*>(static_cast<const State*>(scope));
    if (inner->before == state_.get()) {
      inner->before = state_->before;
      return;
    }
    scope = inner->before;
  }
  static_cast<void>(state_.release());  // another thread's, which goes on to look at it
}

AutocastScope autocast(DType low, bool enabled) {
  return AutocastScope(enabled ? std::optional(low) : std::nullopt);
}

std::optional<DType> autocast_dtype() noexcept {
  const detail::AutocastState* const here = detail::autocast_here();
  return here == nullptr ? std::nullopt : here->low;
}

}  // namespace amp

}  // namespace sluice
