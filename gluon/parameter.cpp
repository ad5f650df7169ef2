#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/detail/layer_watch.h>
#include <sluice/gluon/detail/parameter_reads.h>
#include <sluice/gluon/parameter.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/observer.h>
#include <sluice/operator/sink.h>

namespace sluice::gluon {

namespace {

bool is_complete(const Shape& shape) {
  return std::find(shape.begin(), shape.end(), 0) == shape.end();
}

void check_factor(const char* what, const std::string& name, double factor) {
  require(std::isfinite(factor) && factor >= 0, [&] {
    return message(what, " of parameter '", name, "' is ", factor, ", it must be finite and not negative");
  });
}

// All that is known of the path to a parameter that initialises itself: the layer that is called meanwhile, if any.
std::string path_from_here(const std::string& name) {
  const Origin* const outer = OriginScope::current();
  return outer == nullptr ? name : name + " of " + outer->what();
}

// Gives `shape` another value, which stays unless an exception ends the scope.
class Attempt {
 public:
  Attempt(Shape& shape, const Shape& value) : shape_(shape), before_(std::exchange(shape, value)) {}
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() {
    if (std::uncaught_exceptions() > exceptions_)
      shape_ = before_;
  }

 private:
  Shape& shape_;
  const Shape before_;
  const int exceptions_ = std::uncaught_exceptions();
};

struct Waiting {
  init::Initializer init;
  Device device;
};

}  // namespace

struct Parameter::State {
  std::string name;
  ParameterOptions options;
  bool trainable = true;  // declared so
  NDArray data;
  std::atomic<bool> ready{false};  // data may be read: set after it, by whoever made it
  // One of several first forwards makes it. Who is short of memory for it runs tasks, which may be first ones too.
  std::recursive_mutex completing;
  std::optional<Waiting> waiting;       // of the last initialize() that lacked the shape
  std::atomic<bool> deferred{false};    // and still does: cleared behind `ready`
  std::uint64_t used_grad_version = 0;  // of the gradient's buffer, when it was last used or made
  std::uint64_t used_grad_buffer = 0;   // its Var's number: backward may put another buffer there
  std::optional<std::uint64_t> unscaled;

  [[noreturn]] void refuse(const char* call, const std::string& called) const {
    throw ValueError(
        deferred ? message(
                       call,
                       ": the shape ",
                       options.shape,
                       " of parameter '",
                       called,
                       "' is not known yet; run the network forward once, or give the layer its input size")
                 : message(call, ": parameter '", called, "' is not initialised; call initialize() first"));
  }
  void check_shape(const Shape& shape, const std::string& called) const {
    bool fits = shape.ndim() == options.shape.ndim();
    for (int axis = 0; fits && axis < shape.ndim(); ++axis)
      fits = options.shape[axis] == 0 || options.shape[axis] == shape[axis];
    require<ShapeError>(fits, [&] {
      return message("parameter '", called, "' has shape ", options.shape, ", which ", shape, " does not fit");
    });
  }
};

Parameter::Parameter(std::string name, ParameterOptions options) : state_(std::make_shared<State>()) {
  require(!name.empty(), [] { return "a parameter needs a name"; });
  check_factor("lr_mult", name, options.lr_mult);
  check_factor("wd_mult", name, options.wd_mult);
  state_->name = std::move(name);
  state_->options = std::move(options);
  state_->trainable = state_->options.grad_req != GradReq::null;
}

const std::string& Parameter::name() const& noexcept {
  return state_->name;
}
const Shape& Parameter::shape() const& noexcept {
  return state_->options.shape;
}
DType Parameter::dtype() const noexcept {
  return state_->options.dtype;
}
GradReq Parameter::grad_req() const noexcept {
  return state_->options.grad_req;
}
double Parameter::lr_mult() const noexcept {
  return state_->options.lr_mult;
}
double Parameter::wd_mult() const noexcept {
  return state_->options.wd_mult;
}
void Parameter::set_lr_mult(double factor) const {
  check_factor("lr_mult", name(), factor);
  state_->options.lr_mult = factor;
}
void Parameter::set_wd_mult(double factor) const {
  check_factor("wd_mult", name(), factor);
  state_->options.wd_mult = factor;
}

void Parameter::set_grad_req(GradReq req) const {
  if (req == state_->options.grad_req)
    return;
  state_->options.grad_req = req;
  if (is_initialized())
    adopt(state_->data.detach());
}

// Makes `data` the parameter's array, a variable of its own if it is trained.
void Parameter::adopt(NDArray data) const {
  if (grad_req() != GradReq::null)
    data.attach_grad(grad_req(), {});
  put(std::move(data));
}

void Parameter::put(NDArray data) const {
  State& state = *state_;
  state.options.shape = data.shape();
  state.data = std::move(data);
  if (state.waiting)
    state.waiting->init = {};  // others may ask for the device meanwhile
  if (state.options.grad_req != GradReq::null)
    note_grad();
  state.ready.store(true, std::memory_order_release);
  state.deferred.store(false, std::memory_order_release);
}

void Parameter::initialize(
    const init::Initializer& fallback, Device device, bool force_reinit, SourceLocation site) const {
  initialize_as(path_from_here(name()), fallback, device, force_reinit, site);
}

void Parameter::initialize_as(
    const std::string& path,
    const init::Initializer& fallback,
    Device device,
    bool force_reinit,
    SourceLocation site) const {
  State& state = *state_;
  if (is_initialized() && !force_reinit)
    return;
  const init::Initializer& init = state.options.init ? state.options.init : fallback;
  require(static_cast<bool>(init), [&] { return message("parameter '", state.name, "' has no initialiser"); });
  if (!is_complete(state.options.shape)) {
    state.waiting = Waiting{init, device};
    state.deferred.store(true, std::memory_order_release);
    return;
  }
  fill(path, init, device, site);
}

// What is pushed meanwhile has the user's line, and names the parameter.
void Parameter::fill(const std::string& path, const init::Initializer& init, Device device, SourceLocation site) const {
  const State& state = *state_;
  const bool was_there = is_initialized();
  const autograd::PauseScope pause;
  std::optional<CallSinkScope> nobody;
  if (detail::LayerWatch::current() != nullptr)  // a summary runs nothing but this
    nobody.emplace(nullptr);
  const CallObserverScope unobserved(nullptr);  // a layer's op hooks are told of its forward
  site.origin = Origin::of("parameter " + path, site).number();
  const OriginScope scope(site);
  try {
    NDArray data = empty(state.options.shape, {.dtype = state.options.dtype, .device = device});
    init(data);
    if (grad_req() != GradReq::null)
      data.attach_grad(grad_req(), {});
    if (is_initialized() == was_there)  // otherwise a task that ran meanwhile has made it
      put(std::move(data));
  } catch (Error& error) {
    error.locate("in the initialiser of " + describe(site));
    throw;
  }
}

bool Parameter::is_initialized() const noexcept {
  return state_->ready.load(std::memory_order_acquire);
}

bool Parameter::has_initializer() const noexcept {
  return state_->options.init != nullptr;
}
// Another thread's first call may complete it meanwhile: who asks this first, and then whether it is initialised, sees
// one of the two.
bool Parameter::is_deferred() const noexcept {
  return state_->deferred.load(std::memory_order_acquire);
}

void Parameter::complete(const Shape& shape) const {
  State& state = *state_;
  const std::lock_guard hold(state.completing);
  if (!is_initialized() && !is_deferred())
    state.refuse("forward", known_as());
  state.check_shape(shape, known_as());
  if (is_initialized())
    return;
  const Attempt attempt(state.options.shape, shape);
  if (is_deferred() && is_complete(shape)) {
    const Waiting waiting = *state.waiting;
    const Origin* const caller = OriginScope::current();
    fill(
        path_from_here(name()),
        waiting.init,
        waiting.device,
        caller == nullptr ? SourceLocation::current() : caller->called());
  }
}

const NDArray& Parameter::data() const& {
  if (!is_initialized()) [[unlikely]]
    state_->refuse("data()", known_as());
  if (detail::ParameterReads* const reads = detail::t_parameter_reads; reads != nullptr) [[unlikely]]
    reads->add(*this, state_->data);
  return state_->data;
}

NDArray Parameter::grad() const {
  if (!is_initialized())
    state_->refuse("grad()", known_as());
  require(grad_req() != GradReq::null, [&] {
    return message("grad(): parameter '", known_as(), "' is not trained (its grad_req is null)");
  });
  return state_->data.grad();
}

Device Parameter::device() const {
  const bool deferred = is_deferred();
  if (is_initialized())
    return state_->data.device();
  if (!deferred)
    state_->refuse("device()", known_as());
  return state_->waiting->device;
}

void Parameter::set_data(const NDArray& value) const {
  State& state = *state_;
  state.check_shape(value.shape(), known_as());
  autograd::PauseScope pause;
  if (is_initialized()) {
    copy_into(value, state.data);
    return;
  }
  put(made_of(value, is_deferred() ? state.waiting->device : value.device()));
}

NDArray Parameter::made_of(const NDArray& value, Device device) const {
  const autograd::PauseScope pause;
  NDArray data = empty(value.shape(), {.dtype = dtype(), .device = device});
  copy_into(value, data);
  if (grad_req() != GradReq::null)
    data.attach_grad(grad_req(), {});
  return data;
}

Parameter::Change Parameter::prepare(const NDArray& value, std::optional<Device> device) const {
  state_->check_shape(value.shape(), known_as());
  const bool placed = is_deferred() || is_initialized();
  const Device there = device ? *device : placed ? this->device() : value.device();
  const autograd::PauseScope pause;
  if (is_initialized() && there == this->device())
    return {.value = value.astype(dtype()), .in_place = true};
  return {.value = made_of(value, there)};
}

void Parameter::carry_out(const Change& change) const {
  const autograd::PauseScope pause;
  if (change.in_place)
    copy_into(change.value, state_->data);
  else
    put(change.value);
}

void Parameter::zero_grad() const {
  if (grad_req() == GradReq::null || !is_initialized())
    return;
  state_->data.zero_grad();
  mark_grad_used();  // zeros are no gradient
}

void Parameter::cast(DType dtype) const {
  State& state = *state_;
  if (dtype == state.options.dtype)
    return;
  require<DTypeError>(is_floating(dtype) || grad_req() == GradReq::null, [&] {
    return message("cast: parameter '", known_as(), "' is trained and cannot be ", dtype);
  });
  state.options.dtype = dtype;
  if (!is_initialized())
    return;
  autograd::PauseScope pause;
  adopt(state.data.astype(dtype));
}

void Parameter::to(Device device) const {
  State& state = *state_;
  if (is_deferred()) {
    state.waiting->device = device;
    return;
  }
  if (data().device() == device)
    return;
  autograd::PauseScope pause;
  adopt(state.data.to(device));
}

void Parameter::check_shared(const Parameter& other) const {
  const Shape &mine = shape(), &theirs = other.shape();
  bool fits = mine.ndim() == theirs.ndim();
  for (int axis = 0; fits && axis < mine.ndim(); ++axis)
    fits = mine[axis] == theirs[axis] || mine[axis] == 0 || theirs[axis] == 0;
  require<ShapeError>(fits, [&] {
    return message("parameter '", name(), "' of shape ", mine, " cannot share the one of shape ", theirs);
  });
}

bool Parameter::grad_is_fresh() const {
  const NDArray gradient = grad();
  const sluice::detail::Buffer* buffer = gradient.object()->buffer;
  if (buffer == nullptr)  // of a step that is recorded for later
    return true;
  return buffer->var().id() != state_->used_grad_buffer || buffer->version() != state_->used_grad_version;
}

void Parameter::mark_grad_used() const {
  grad();  // throws where there is none
  note_grad();
}

std::optional<std::uint64_t>& Parameter::unscaled_deposit() const noexcept {
  return state_->unscaled;
}

void Parameter::note_grad() const {
  state_->unscaled.reset();
  const NDArray gradient = state_->data.grad();
  const sluice::detail::Buffer* buffer = gradient.object()->buffer;
  if (buffer == nullptr)
    return;
  state_->used_grad_buffer = buffer->var().id();
  state_->used_grad_version = buffer->version();
}

bool Parameter::is_trainable() const noexcept {
  return state_->trainable;
}

}  // namespace sluice::gluon
