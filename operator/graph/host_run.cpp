#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <sluice/engine/detail/node_pool.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/detail/host_run.h>
#include <sluice/operator/sink.h>

namespace sluice::graph {

namespace {

constexpr std::size_t k_line = 64;
// A request is over in some dozen microseconds; who waits longer lets others run, and then sleeps in the driver.
constexpr std::chrono::microseconds k_spin{100};
constexpr std::chrono::milliseconds k_yield{2};
// Calls of CUDA that fail say nothing of what runs. Where nothing else is heard of it for so long, the GPU is lost.
constexpr std::chrono::microseconds k_ask_again{50};
constexpr std::chrono::seconds k_longest_silence{10};
constexpr std::uint64_t k_key = 1;

std::size_t bytes_of(const NDArray& array) {
  return static_cast<std::size_t>(array.size()) * size_of(array.dtype());
}

void rest_the_core() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

std::unique_ptr<HostRun> HostRun::make(const Graph& graph, std::shared_ptr<DerivedValues> derived, Engine& engine) {
  const EngineScope here(engine);
  const CallSinkScope nobody(nullptr);
  const autograd::PauseScope unrecorded;
  std::unique_ptr<HostRun> made(new HostRun(graph, std::move(derived), engine));
  if (!made->is_capturable())
    return nullptr;
  made->bind();
  return made;
}

HostRun::HostRun(const Graph& graph, std::shared_ptr<DerivedValues> derived, Engine& engine)
    : derived_(std::move(derived)),
      graph_(derived_ == nullptr ? graph : derived_->rest()),
      engine_(engine),
      binding_(graph_, Sharing::proven, engine),
      forks_(sluice::detail::fork_count()) {}

bool HostRun::renew(SourceLocation site) {
  return binding_.is_current() && (derived_ == nullptr || derived_->renew(true, site) == DerivedValues::Renewal::ready);
}

HostRun::~HostRun() {
  if (forks_ != sluice::detail::fork_count())
    host_.release();
}

Device HostRun::device() const {
  return graph_.values[graph_.inputs[0]].spec.device;
}

// The same each time, on one GPU, and writing nothing that others see. Without outputs nobody would tell the host that
// it is over.
bool HostRun::is_capturable() const {
  const auto is_here = [&](ValueId value) { return graph_.values[value].spec.device == device(); };
  if (graph_.inputs.empty() || graph_.outputs.empty() || !device().is_gpu() || binding_.writes_outside())
    return false;
  const std::vector<Binding::Step>& steps = binding_.steps();
  return std::all_of(graph_.inputs.begin(), graph_.inputs.end(), is_here) &&
         std::all_of(graph_.outputs.begin(), graph_.outputs.end(), is_here) &&
         std::all_of(
             steps.begin(),
             steps.end(),
             [&](const auto& step) { return step.capturable && step.device == device(); }) &&
         std::none_of(graph_.values.begin(), graph_.values.end(), [](const Value& value) {
           return value.source == Source::random;
         });
}

void HostRun::bind() {
  Arrays arrays;
  for (const ValueId value : binding_.outside())
    arrays.push_back(binding_.new_outside(value, engine_));
  binding_.attach(arrays);
  for (const ValueId input : graph_.inputs)
    inputs_.push_back({binding_.array(input)});
  for (const ValueId output : graph_.outputs)
    outputs_.push_back({binding_.array(output)});
  allocate_host();
}

void HostRun::allocate_host() {
  std::size_t end = k_line;
  for (std::vector<End>* const ends : {&inputs_, &outputs_}) {
    for (End& one : *ends) {
      one.at = end;
      one.bytes = bytes_of(one.array);
      end += (one.bytes + k_line - 1) / k_line * k_line;
    }
  }
  host_ = sluice::detail::MappedMemory(end);
  std::memset(host_.data(), 0, end);
  host_var_ = engine_.new_var();
}

void HostRun::push_fetch(const End& input, SourceLocation site) const {
  const sluice::detail::ArrayObject& array = *input.array.object();
  AccessList access = sluice::detail::accesses_to_write(array);
  access.push_back(read(host_var_));
  engine_.push(
      {.name = "fetch",
       .device = array.device,
       .access = std::move(access),
       .capturable = true,
       .bytes = 2 * input.bytes},
      [to = array.data(), from = host_.data() + input.at, bytes = input.bytes](Queue queue) {
        sluice::detail::fetch_mapped(queue.stream(), to, from, bytes);
      },
      site);
}

// One after the other; the last one, which sets the flag, comes after all other steps too.
void HostRun::push_delivery(const End& output, std::uint64_t* flag, SourceLocation site) const {
  NDArray packed = output.array;
  if (!sluice::detail::is_contiguous(*packed.object())) {
    packed = sluice::detail::make_empty(engine_, packed.shape(), {.dtype = packed.dtype(), .device = packed.device()});
    sluice::detail::push_copy(output.array, packed, site);
  }
  const sluice::detail::ArrayObject& array = *packed.object();
  AccessList access = sluice::detail::accesses_to_read(array);
  access.push_back(write(host_var_));
  engine_.push(
      {.name = "deliver",
       .device = array.device,
       .access = std::move(access),
       .capturable = true,
       .bytes = 2 * output.bytes},
      [to = host_.data() + output.at, from = array.data(), bytes = output.bytes, flag](Queue queue) {
        sluice::detail::deliver_mapped(queue.stream(), to, from, bytes, flag);
      },
      site);
}

void HostRun::capture(SourceLocation site) {
  region_ = std::make_unique<Region>(engine_, device(), "host plan");
  region_->run(
      k_key,
      [&] {
        const sluice::detail::BuffersKept::Scope keep(kept_);
        for (const End& input : inputs_) {
          if (input.bytes > 0)
            push_fetch(input, site);
        }
        for (const Binding::Step& step : binding_.steps())
          Binding::run(step);
        for (std::size_t i = 0; i < outputs_.size(); ++i)
          push_delivery(outputs_[i], i + 1 == outputs_.size() ? flag() : nullptr, site);
        sluice::detail::OwnLaunch::end_with_last();
      },
      site);
  engine_.wait(host_var_);
}

bool HostRun::run_first(std::span<const HostValues> inputs, std::span<const HostRoom> outputs, SourceLocation site) {
  const EngineScope here(engine_);
  const CallSinkScope nobody(nullptr);
  const autograd::PauseScope unrecorded;
  if (!renew(site))
    return false;
  put_in(inputs);
  capture(site);
  launch_ = sluice::detail::OwnLaunch::of(engine_, *region_, k_key);
  if (launch_ == nullptr || !has_landed())
    return false;
  take_out(outputs);
  return true;
}

bool HostRun::has_landed() const noexcept {
  return std::atomic_ref(*flag()).load(std::memory_order_acquire) != 0;
}

// False if the GPU failed, not before what runs is over.
bool HostRun::await() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  for (Clock::duration waited{}; waited < k_yield; waited = Clock::now() - begin) {
    for (int looks = 0; looks < 32; ++looks) {
      if (has_landed())
        return true;
      rest_the_core();
    }
    if (waited >= k_spin)
      std::this_thread::yield();
  }
  return await_end();
}

bool HostRun::await_end() {
  using Clock = std::chrono::steady_clock;
  using sluice::detail::LaunchEnd;
  Clock::time_point failing = {};
  for (;;) {
    const LaunchEnd end = launch_->synchronize();
    if (has_landed())
      return true;
    if (end != LaunchEnd::unknown)
      return false;
    const Clock::time_point now = Clock::now();
    if (failing == Clock::time_point{})
      failing = now;
    if (now - failing > k_longest_silence)
      launch_->give_up();
    std::this_thread::sleep_for(k_ask_again);
  }
}

void HostRun::put_in(std::span<const HostValues> inputs) noexcept {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    std::memcpy(host_.data() + inputs_[i].at, inputs[i].values, inputs_[i].bytes);
}

void HostRun::take_out(std::span<const HostRoom> outputs) const noexcept {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    std::memcpy(outputs[i].values, host_.data() + outputs_[i].at, outputs_[i].bytes);
}

bool HostRun::run(std::span<const HostValues> inputs, std::span<const HostRoom> outputs) {
  put_in(inputs);
  std::atomic_ref(*flag()).store(0, std::memory_order_relaxed);
  if (!launch_->begin())
    return false;
  const bool landed = await();
  launch_->end();
  if (!landed || launch_->take_report()) [[unlikely]]
    return false;
  take_out(outputs);
  return true;
}

}  // namespace sluice::graph
