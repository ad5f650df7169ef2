// One GPU task by itself: on which CUDA stream, behind what, and what its end is called.
#include <sluice/engine/cuda/issuer.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

using cuda::cuda_check;

Issuer::Class Issuer::class_of(const TaskNode& task) noexcept {
  switch (task.stream) {
    case StreamKind::copy_in:
      return copy_in;
    case StreamKind::copy_out:
      return copy_out;
    case StreamKind::collective:
      return collective;
    case StreamKind::compute:
      break;
  }
  const Priority priority = task.priority.load(std::memory_order_relaxed);
  return priority == Priority::urgent ? urgent : priority == Priority::background ? background : normal;
}

// At the first task: a process that never uses the device never makes streams on it.
void Issuer::make_routes() {
  if (made_)
    return;
  int least = 0, most = 0;
  cuda_check(cudaDeviceGetStreamPriorityRange(&least, &most), "cudaDeviceGetStreamPriorityRange");
  if (error_words_ == nullptr) {
    void* words = nullptr;
    constexpr std::size_t bytes = sizeof(ErrorWord) * k_local_lanes;
    cuda_check(cudaHostAlloc(&words, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
    error_words_ = ::new (words) ErrorWord[k_local_lanes];
  }
  const auto make = [&](Route& route, int urgency, StreamKind kind) {
    if (route.stream == nullptr)
      route.stream = std::make_unique<CudaStream>(lanes_, device_, urgency, counts_.stream_waits);
    if (route.lane == nullptr)
      route.lane = &add_lane(kind, *route.stream);
  };
  const int middle = least > most ? least - 1 : least;  // smaller numbers are more urgent
  for (Route& route : compute_)
    make(route, middle, StreamKind::compute);
  for (Route& route : urgent_)
    make(route, most, StreamKind::compute);
  constexpr StreamKind kinds[] = {
      StreamKind::compute, StreamKind::copy_in, StreamKind::copy_out, StreamKind::collective};
  for (std::size_t i = 0; i < others_.size(); ++i)
    make(others_[i], i == 0 ? least : middle, kinds[i]);
  made_ = true;
}

Lane& Issuer::add_lane(StreamKind kind, const CudaStream& stream) {
  Lane& lane = lanes_.add(*this, device_, kind, lane_count_, error_words_ + lane_count_);
  lane.direct.enqueue_on(stream.native());
  ++lane_count_;
  return lane;
}

// The stream that `need` is the latest of, or that it lies on and that nobody has followed it on yet.
Issuer::Route* Issuer::continued(Route* routes, int count, Position need) {
  Lane& lane = lanes_.at(need.stream());
  if (lane.device() != device_)
    return nullptr;
  const bool launched = lane.launched() >= need.sequence();
  const Milestone* milestone = launched ? lane.reach(need.sequence()).milestone : nullptr;
  const bool in_batch = !launched && batch_.step_of(need) >= 0;
  Route* found = nullptr;
  for (Route* route = routes; route != routes + count; ++route) {
    const bool is_end = launched   ? route->stream->ends_with(*milestone) && route->unmarked == 0
                        : in_batch ? route == batch_route_
                                   : route->lane == &lane && lane.tail() == need;
    if (is_end) {
      lane.follow_first(need.sequence());
      return route;
    }
    if (lane.direct.enqueued_on() == route->stream->native() && lane.done() < need.sequence())
      found = route;
  }
  return found != nullptr && lane.follow_first(need.sequence()) ? found : nullptr;
}

// Else a stream that has nothing to do, as far as known; else in turn.
Issuer::Route& Issuer::pick_of(Route* routes, int count, const PositionSet& needs) {
  for (Position need : needs) {
    if (Route* route = continued(routes, count, need))
      return *route;
  }
  ++turn_;
  for (int i = 0; i < count; ++i) {
    Route& route = routes[(turn_ + static_cast<unsigned>(i)) % static_cast<unsigned>(count)];
    if (route.lane->done() == route.lane->issued())
      return route;
  }
  return routes[turn_ % static_cast<unsigned>(count)];
}

Issuer::Route& Issuer::choose_route(const TaskNode& task, const PositionSet& needs) {
  if (options_.one_stream && task.stream == StreamKind::compute)
    return compute_[0];
  const Class of = class_of(task);
  if (of == normal)
    return pick_of(compute_.data(), k_compute, needs);
  if (of == urgent)
    return pick_of(urgent_.data(), k_urgent, needs);
  return others_[static_cast<std::size_t>(of - background)];
}

// What `needs` says is behind a milestone, unless the stream knows it anyway.
void Issuer::settle(const Route& route, const PositionSet& needs) {
  for (Position need : needs) {
    const Lane& lane = lanes_.at(need.stream());
    if (lane.launched() >= need.sequence() || route.stream->knows(lane, need.sequence()))
      continue;
    if (batch_.step_of(need) >= 0)
      launch_batch();
    else
      mark_all();
  }
}

// A lane is one sequence, whichever streams its tasks were on.
void Issuer::order(Route& route, const PositionSet& needs) {
  if (!std::exchange(route.in_use, true) && ++in_use_ == 2)
    mark_all();
  settle(route, needs);
  const Position tail = route.lane->tail();
  if (!tail || route.stream->knows(*route.lane, tail.sequence()))
    return route.stream->wait_for(needs);
  PositionSet all = needs;
  all.add(tail);
  route.stream->wait_for(all);
}

// Null if no event can be recorded: then the host has waited, unless the device is lost. One on which neither works is
// taken for lost: nobody would learn any more when its work is done.
Milestone* Issuer::record(Route& route) noexcept {
  FailureRef failure;
  for (int tries = 0; tries < k_tries && !lost(); ++tries) {
    try {
      const cuda::DeviceScope on(device_.index);
      return &route.stream->record();
    } catch (...) {
    }
    try {
      route.stream->wait_until_idle();
      return nullptr;
    } catch (...) {
      failure = caught(record_named("event", {}, 0));
    }
  }
  if (!lost())
    lose(failure);
  return nullptr;
}

void Issuer::mark(Route& route, Lane& lane, std::uint64_t sequence, Milestone* milestone) noexcept {
  if (milestone == nullptr && !lost())
    lane.raise_done(sequence);
  lane.launched(sequence, milestone == nullptr ? route.stream->latest() : *milestone);
}

void Issuer::mark(Route& route) noexcept {
  if (std::exchange(route.unmarked, 0) > 0)
    mark(route, *route.lane, route.lane->issued(), record(route));
}

void Issuer::mark_all() noexcept {
  for (Route& route : compute_)
    mark(route);
  for (Route& route : urgent_)
    mark(route);
  for (Route& route : others_)
    mark(route);
}

// While one stream does everything nobody needs its events; the latest one is recorded when somebody does.
Position Issuer::place(Route& route, const TaskNode& task) noexcept {
  const Position position = route.lane->issue(task);
  route.stream->learn(*route.lane, position.sequence());
  ++route.unmarked;
  if (in_use_ > 1 || route.unmarked >= k_unmarked || options_.waits)
    mark(route);
  return position;
}

void Issuer::issue_direct(TaskNode* task, const PositionSet& needs) {
  Route& route = choose_route(*task, needs);
  FailureRef failure;
  if (!run_body({.route = &route, .lane = route.lane, .needs = &needs, .task = task, .name = task->name}, failure))
    return;
  const Position position = place(route, *task);  // also after a throw: kernels may have been launched before it
  if (options_.waits) {
    try {
      policy_.synchronize(*route.lane, position.sequence());
    } catch (...) {
      if (failure == nullptr)
        failure = caught(core_.record_of(task));
    }
  }
  look_behind(route);
  task->body.reset();
  core_.finish(task, std::move(failure), true, position);
}

// Far behind, the driver would make the host wait: the attendant goes on when the stream has caught up.
void Issuer::look_behind(Route& route) noexcept {
  try {
    if (!route.stream->is_behind())
      return;
  } catch (...) {  // the tasks themselves find what is wrong
    return;
  }
  behind_ = &route;
  put_off_.store(true, std::memory_order_relaxed);
  policy_.wake_attendant();
}

void Issuer::look_at_backlog() {
  try {
    const cuda::DeviceScope on(device_.index);
    if (behind_->stream->still_behind())
      return;
  } catch (...) {
  }
  put_off_.store(false, std::memory_order_relaxed);
}

}  // namespace sluice::detail
