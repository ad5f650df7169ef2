#include <algorithm>
#include <new>
#include <utility>

#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/policy_stream.h>

namespace sluice::detail {

using cuda::cuda_check;

StreamClass class_of(const TaskNode& task) noexcept {
  switch (task.stream) {
    case StreamKind::copy_in:
      return StreamClass::copy_in;
    case StreamKind::copy_out:
      return StreamClass::copy_out;
    case StreamKind::copy_peer:
      return StreamClass::copy_peer;
    case StreamKind::collective:
      return StreamClass::collective;
    case StreamKind::compute:
      break;
  }
  const Priority priority = task.priority.load(std::memory_order_relaxed);
  return priority == Priority::urgent       ? StreamClass::urgent
         : priority == Priority::background ? StreamClass::background
                                            : StreamClass::normal;
}

void StreamSlots::make() {
  if (made_)
    return;
  int least = 0, most = 0;
  cuda_check(cudaDeviceGetStreamPriorityRange(&least, &most), "cudaDeviceGetStreamPriorityRange");
  gpu_.policy.reports().make_first();
  const int middle = least > most ? least - 1 : least;  // smaller numbers are more urgent
  using enum StreamKind;
  for (StreamSlot& slot : compute_)
    make(slot, middle, compute);
  for (StreamSlot& slot : urgent_)
    make(slot, most, compute);
  constexpr StreamKind kinds[] = {compute, copy_in, copy_out, copy_peer, collective};
  for (std::size_t i = 0; i < others_.size(); ++i)
    make(others_[i], i == 0 ? least : middle, kinds[i]);
  made_ = true;
}

void StreamSlots::make(StreamSlot& slot, int urgency, StreamKind kind) {
  if (slot.stream == nullptr)
    slot.stream = std::make_unique<CudaStream>(gpu_.logical, gpu_.device, urgency, gpu_.counts.stream_waits);
  if (slot.logical == nullptr)
    slot.logical = &add(kind, *slot.stream);
}

LogicalStream& StreamSlots::add(StreamKind kind, const CudaStream& stream) {
  LogicalStream& logical = gpu_.logical.add(gpu_, kind, count_);
  logical.direct.enqueue_on(stream.native());
  ++count_;
  return logical;
}

LogicalStream& StreamSlots::branch(StreamSlot& slot, int i, cudaStream_t capture) {
  LogicalStream*& logical = slot.captured[static_cast<std::size_t>(i)];
  if (logical == nullptr) {
    logical = &add(StreamKind::compute, *slot.stream);
    logical->captured.enqueue_on(capture);
  }
  return *logical;
}

StreamSlot& StreamSlots::with(cudaStream_t native) noexcept {
  return *std::find_if(
      compute_.begin(), compute_.end(), [native](const StreamSlot& slot) { return slot.stream->native() == native; });
}

bool StreamSlots::is_known(const LogicalStream& logical, std::uint64_t sequence) const noexcept {
  return std::any_of(
      compute_.begin(), compute_.end(), [&](const StreamSlot& slot) { return slot.stream->knows(logical, sequence); });
}

TracedStream StreamSlots::traced(const StreamSlot& slot) const noexcept {
  return {gpu_.device, slot.logical->kind(), slot.logical->number(), slot.stream->native()};
}

// -- Which one -------------------------------------------------------------------------------------------------------

// The stream that `need` is the latest of, or that it lies on and that nobody has followed it on yet.
StreamSlot* StreamSlots::continued(StreamSlot* slots, int count, Position need) {
  LogicalStream& logical = gpu_.logical.of(need);
  if (logical.device() != gpu_.device)
    return nullptr;
  const bool launched = logical.launched() >= need.sequence();
  const Milestone* milestone = launched ? logical.reach(need.sequence()).milestone : nullptr;
  const StreamSlot* batch = launched ? nullptr : gpu_.batches.slot_of(need);
  StreamSlot* found = nullptr;
  for (StreamSlot* slot = slots; slot != slots + count; ++slot) {
    const bool is_end = launched           ? slot->stream->ends_with(*milestone) && slot->unmarked == 0
                        : batch != nullptr ? slot == batch
                                           : slot->logical == &logical && logical.tail() == need;
    if (is_end) {
      logical.follow_first(need.sequence());
      return slot;
    }
    if (logical.direct.enqueued_on() == slot->stream->native() && logical.done() < need.sequence())
      found = slot;
  }
  return found != nullptr && logical.follow_first(need.sequence()) ? found : nullptr;
}

// Else a stream that has nothing to do, as far as known; else in turn.
StreamSlot& StreamSlots::pick(StreamSlot* slots, int count, const PositionSet& needs) {
  if (const int drawn = gpu_.rules.draw(count); drawn >= 0) [[unlikely]]
    return slots[drawn];
  for (Position need : needs) {
    if (StreamSlot* slot = continued(slots, count, need))
      return *slot;
  }
  ++turn_;
  for (int i = 0; i < count; ++i) {
    StreamSlot& slot = slots[(turn_ + static_cast<unsigned>(i)) % static_cast<unsigned>(count)];
    if (slot.logical->done() == slot.logical->issued())
      return slot;
  }
  return slots[turn_ % static_cast<unsigned>(count)];
}

StreamSlot& StreamSlots::choose(const TaskNode& task, const PositionSet& needs) {
  if (gpu_.options.one_stream && task.stream == StreamKind::compute)
    return compute_[0];
  const StreamClass of = class_of(task);
  if (of == StreamClass::normal)
    return pick(compute_.data(), k_compute, needs);
  if (of == StreamClass::urgent)
    return pick(urgent_.data(), k_urgent, needs);
  return others_[static_cast<std::size_t>(of) - static_cast<std::size_t>(StreamClass::background)];
}

// A batch that goes on with computations stays on a stream that comes after them: its executables are there. One that
// begins anew goes elsewhere if that stream is busy.
StreamSlot& StreamSlots::choose_for_batch(const PositionSet& needs, StreamSlot* last) {
  bool goes_on = false, waits = false;
  for (Position need : needs) {
    const LogicalStream& logical = gpu_.logical.of(need);
    const bool open = logical.done() < need.sequence();
    waits = waits || open;
    goes_on = goes_on || (open && logical.kind() == StreamKind::compute);
  }
  if (!waits && last != nullptr && !gpu_.rules.last_runs())
    return *last;
  for (StreamSlot& slot : compute_) {
    const bool after_all = goes_on && std::all_of(needs.begin(), needs.end(), [&](Position need) {
                             return slot.stream->knows(gpu_.logical.of(need), need.sequence());
                           });
    if (after_all)
      return slot;
  }
  return pick(compute_.data(), k_compute, needs);
}

// -- What comes before, and when it has passed -----------------------------------------------------------------------

// What `needs` says is behind a milestone, unless the stream knows it anyway.
void StreamSlots::launch(const StreamSlot& slot, const PositionSet& needs) {
  for (Position need : needs) {
    const LogicalStream& logical = gpu_.logical.of(need);
    if (logical.launched() >= need.sequence() || slot.stream->knows(logical, need.sequence()))
      continue;
    if (gpu_.batches.slot_of(need) != nullptr)
      gpu_.batches.launch();
    else
      mark_all();
  }
}

// What lies on the slot's own logical streams comes before by itself: all of it was enqueued on the slot's stream.
void StreamSlots::order(StreamSlot& slot, const PositionSet& needs) {
  if (!std::exchange(slot.in_use, true) && ++in_use_ == 2)
    mark_all();
  launch(slot, needs);
  slot.stream->wait_for(needs);
}

// A stream on which neither an event nor a wait works is taken for lost: nobody would learn any more when its work is
// done.
Milestone* StreamSlots::record(StreamSlot& slot) noexcept {
  FailureRef failure;
  for (int tries = 0; tries < k_tries && !gpu_.loss.lost(); ++tries) {
    try {
      const cuda::DeviceScope on(gpu_.device.index);
      return &slot.stream->record();
    } catch (...) {
    }
    try {
      slot.stream->wait_until_idle();
      return nullptr;
    } catch (...) {
      failure = gpu_.loss.caught("event");
    }
  }
  if (!gpu_.loss.lost())
    gpu_.loss.declare(failure);
  return nullptr;
}

void StreamSlots::mark(
    StreamSlot& slot, LogicalStream& logical, std::uint64_t sequence, Milestone* milestone) noexcept {
  if (milestone == nullptr && !gpu_.loss.lost())
    logical.raise_done(sequence);
  logical.launched(sequence, milestone == nullptr ? slot.stream->latest() : *milestone);
}

void StreamSlots::mark(StreamSlot& slot) noexcept {
  if (std::exchange(slot.unmarked, 0) > 0)
    mark(slot, *slot.logical, slot.logical->issued(), record(slot));
}

void StreamSlots::mark_all() noexcept {
  for (StreamSlot& slot : compute_)
    mark(slot);
  for (StreamSlot& slot : urgent_)
    mark(slot);
  for (StreamSlot& slot : others_)
    mark(slot);
}

// While one stream does everything nobody needs its events; the latest one is recorded when somebody does.
Position StreamSlots::place(StreamSlot& slot, const TaskNode& task) noexcept {
  const Position position = slot.logical->issue(task);
  slot.stream->learn(*slot.logical, position.sequence());
  ++slot.unmarked;
  if (in_use_ > 1 || slot.unmarked >= LaunchRules::k_unmarked || gpu_.options.waits)
    mark(slot);
  return position;
}

}  // namespace sluice::detail
