#include <algorithm>
#include <atomic>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/abstract_version.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/observer.h>
#include <sluice/operator/sink.h>

namespace sluice {

namespace {

NDArray without_memory(const ArraySpec& spec, const Geometry& lies, std::uint64_t value) {
  NDArray made = detail::make_array(nullptr, spec.dtype, spec.device, lies.shape, lies.strides, lies.offset);
  made.object()->value = value;
  return made;
}

std::uint64_t next_value() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void check_given(const OperatorCall& call, const Arrays& given) {
  require<ValueError>(given.size() == call.outputs.size(), [&] {
    return message(call.op.name, ": a sink gave ", given.size(), " arrays for ", call.outputs.size(), " outputs");
  });
  for (std::size_t i = 0; i < given.size(); ++i) {
    const ArraySpec& spec = call.outputs[i];
    require<ValueError>(
        given[i].defined(), [&] { return message(call.op.name, ": a sink gave an undefined NDArray for output ", i); });
    const NDArray& array = given[i];
    require<ValueError>(
        array.object()->shape == spec.shape && array.dtype() == spec.dtype && array.device() == spec.device, [&] {
          return message(
              call.op.name,
              ": a sink gave a ",
              array.dtype(),
              " array of shape ",
              array.shape(),
              " on ",
              array.device(),
              " for output ",
              i,
              ", which is ",
              spec.dtype,
              " of shape ",
              spec.shape,
              " on ",
              spec.device);
        });
  }
}

}  // namespace

constinit thread_local CallSink* detail::t_sink [[gnu::tls_model("initial-exec")]] = nullptr;

namespace {
constinit thread_local const void* t_body [[gnu::tls_model("initial-exec")]] = nullptr;  // where the scope was opened
}  // namespace

CallSink* detail::sink_of_this_body() noexcept {
  return EngineAccess::body_here() == t_body ? t_sink : nullptr;
}

bool detail::calls_are_taken() noexcept {
  return sink_here() != nullptr;
}

Geometry detail::geometry_of(const NDArray& array) {
  const ArrayObject& object = *array.object();
  return {object.shape, object.strides, object.offset};
}

Arrays detail::offer(CallSink& sink, const OperatorCall& call) {
  const CallSinkScope nobody(nullptr);
  const autograd::ModeScope unrecorded(false, autograd::is_training());
  Arrays given = sink.take(call);
  if (!call.destinations.empty())
    return Arrays(call.destinations.begin(), call.destinations.end());
  check_given(call, given);
  return given;
}

CallSink::~CallSink() = default;

void detail::note_hook() {
  if (CallSink* const sink = sink_here(); sink != nullptr)
    sink->note_hook();
}

void CallSink::note_hook() {}

std::uint64_t CallSink::version_of(const NDArray&) const noexcept {
  return 0;
}

std::optional<std::uint64_t> detail::abstract_version(const NDArray& array) noexcept {
  const CallSink* const sink = sink_here();
  return sink == nullptr ? std::nullopt : std::optional(sink->version_of(array));
}

CallSinkScope::CallSinkScope(CallSink* sink) noexcept
    : before_(std::exchange(detail::t_sink, sink)),
      body_before_(std::exchange(t_body, detail::EngineAccess::body_here())) {}

CallSinkScope::~CallSinkScope() {
  detail::t_sink = before_;
  t_body = body_before_;
}

bool OperatorCall::mutates(std::size_t i) const noexcept {
  if (op.mutates != nullptr)
    return op.mutates(i, inputs.size(), attributes);
  return (op.mutated_inputs >> std::min<std::size_t>(i, 31) & 1) != 0;
}

NDArray abstract_array(const ArraySpec& spec) {
  return without_memory(spec, {spec.shape, contiguous_strides(spec.shape), 0}, next_value());
}

NDArray shape_only(const ArraySpec& spec) {
  return without_memory(spec, {spec.shape, contiguous_strides(spec.shape), 0}, spec.value);
}

Arrays abstract_results(const OperatorCall& call) {
  if (call.view != nullptr)
    return {without_memory(call.outputs[0], *call.view, next_value())};
  Arrays made;
  for (const ArraySpec& spec : call.outputs)
    made.push_back(abstract_array(spec));
  return made;
}

std::uint64_t abstract_value(const NDArray& array) noexcept {
  return array.defined() && array.object()->buffer == nullptr ? array.object()->value : 0;
}

NDArray invoke_one(
    const Operator& op, std::initializer_list<NDArray> inputs, Attributes attributes, SourceLocation site) {
  Arrays results = invoke(op, std::span(inputs.begin(), inputs.size()), std::move(attributes), site);
  return std::move(results.at(0));
}

Specs infer(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_attributes(op, attributes);
  require<ValueError>(op.inputs < 0 || inputs.size() == static_cast<std::size_t>(op.inputs), [&] {
    return message(op.name, ": takes ", op.inputs, " inputs, was given ", inputs.size());
  });
  if (op.view != nullptr) {
    ArraySpec spec = inputs[0];
    const Shape* const like = inputs.size() > 1 ? &inputs[1].shape : nullptr;
    spec.shape = op.view(op, {spec.shape, contiguous_strides(spec.shape), 0}, like, attributes).shape;
    return {spec};
  }
  require<UnsupportedError>(op.infer != nullptr, [&] { return message(op.name, ": has no inference"); });
  Specs specs = op.infer(op, inputs, attributes);
  for (ArraySpec& spec : specs) {
    detail::check_known(op.name, spec.dtype);
    if (!inputs.empty() && op.issue == nullptr)
      spec.device = inputs[0].device;
  }
  return specs;
}

constinit thread_local CallObserver* detail::t_observer [[gnu::tls_model("initial-exec")]] = nullptr;

namespace {
constinit thread_local const void* t_observed_body [[gnu::tls_model("initial-exec")]] = nullptr;
}  // namespace

CallObserver* detail::observer_here() noexcept {
  return t_observer != nullptr && EngineAccess::body_here() == t_observed_body ? t_observer : nullptr;
}

// Of a body that runs on top of a call the observer stays as it is: nobody there is told of it.
void detail::Observed::begin() noexcept {
  observer_ = observer_here();
  if (observer_ != nullptr)
    t_observer = nullptr;
}

void detail::Observed::end() noexcept {
  t_observer = observer_;
}

CallObserver::~CallObserver() = default;

CallObserverScope::CallObserverScope(CallObserver* observer) noexcept
    : before_(std::exchange(detail::t_observer, observer)),
      body_before_(std::exchange(t_observed_body, detail::EngineAccess::body_here())) {}

CallObserverScope::~CallObserverScope() {
  detail::t_observer = before_;
  t_observed_body = body_before_;
}

}  // namespace sluice
