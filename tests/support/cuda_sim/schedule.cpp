// What runs next, and how.
#include <algorithm>

#include "tests/support/cuda_sim/world.h"

namespace sluice::test::sim {

namespace {

constexpr std::chrono::microseconds k_nap{20};
constexpr std::size_t k_free_strands = 32;

thread_local bool body_is_illegal = false;
thread_local bool body_is_running = false;
thread_local bool body_has_waited = false;

// The closure and what ends with it, for all to see; if its device is lost, its end alone. False if it threw.
bool run_seen(Work& work, bool lost) {
  const Seen seen;
  bool returned = true;
  try {
    if (!lost)
      (*work)();
  } catch (...) {
    returned = false;
  }
  work.reset();
  return returned;
}

bool may_begin(const Op& op) {
  return !op.begun && std::all_of(op.needs.begin(), op.needs.end(), [](const OpRef& need) { return need->done; });
}

}  // namespace

bool inside_body() noexcept {
  return body_is_running;
}

void illegal_address() noexcept {
  const Unseen unseen;
  body_is_illegal = true;
}

void kernel_waits() noexcept {
  body_has_waited = true;
}

void World::enqueue(CUstream_st& stream, OpRef op) {
  op->enqueued.reached();
  if (stream.queue.empty()) {
    busy_.push_back(&stream);
    maybe_drowse(stream, 4);
  }
  stream.last = op;
  stream.queue.push_back(std::move(op));
  start_executors();
  work_.notify_one();
}

void World::start_executors() {
  while (!options.manual && executors_.size() < static_cast<std::size_t>(options.executors))
    executors_.emplace_back([this] { execute(); });
}

// A stream that is passed over for a while, as if its work took long or its launches travelled slowly.
void World::maybe_drowse(CUstream_st& stream, int one_in) {
  if (options.drowsiness > 0 && random_() % static_cast<std::uint64_t>(one_in) == 0)
    stream.asleep_until = picks_ + random_() % static_cast<std::uint64_t>(options.drowsiness);
}

void World::collect() {
  ready_.clear();
  for (CUstream_st* stream : busy_) {
    if (stream->held)
      continue;
    Op& head = *stream->queue.front();
    if (!head.begun) {
      if (may_begin(head))
        ready_.push_back({stream, &head});
      continue;
    }
    for (const OpRef& part : head.parts) {
      if (head.opened && may_begin(*part))
        ready_.push_back({stream, part.get()});
    }
  }
}

World::Choice World::choose(Pick& pick) {
  collect();
  if (ready_.empty())
    return Choice::none;
  ++picks_;
  awake_.clear();
  for (const Pick& candidate : ready_) {
    if (candidate.stream->asleep_until <= picks_)
      awake_.push_back(candidate);
  }
  if (awake_.empty())
    return Choice::asleep;
  pick = awake_[random_() % awake_.size()];
  return Choice::chosen;
}

std::unique_ptr<Strand> World::take_strand() {
  if (strands_.size() < k_free_strands / 4)
    return std::make_unique<Strand>();
  std::swap(strands_[random_() % strands_.size()], strands_.back());
  std::unique_ptr<Strand> strand = std::move(strands_.back());
  strands_.pop_back();
  return strand;
}

// On a strand, without the lock.
void World::run_body(Op& op, Op* whole, Work work, const OpRef& previous, bool lost) {
  const Unseen unseen;
  for (const OpRef& need : op.needs)
    need->ended.follow();
  if (previous != nullptr)
    previous->ended.follow();
  op.enqueued.follow();
  if (work != nullptr) {
    body_is_running = true;
    body_has_waited = false;
    const bool threw = !run_seen(work, lost);
    body_is_running = false;
    if (op.has_to_wait && !body_has_waited && !lost) {
      const Lock hold(mutex);
      violation("a kernel that may begin early does not wait for what is before it");
    }
    if (threw) {
      const Lock hold(mutex);
      violation("a kernel threw an exception");
    }
  }
  for (const OpRef& part : op.parts)
    part->enqueued.reached();
  op.ended.reached();
  if (whole != nullptr)
    whole->ended.reached();
}

void World::run(Pick pick, Lock& hold) {
  const OpRef head = pick.stream->queue.front();
  const bool is_part = pick.op != head.get();
  OpRef op = head;
  if (is_part)
    op =
        *std::find_if(head->parts.begin(), head->parts.end(), [&](const OpRef& part) { return part.get() == pick.op; });
  op->begun = true;
  ++running_;
  if (ready_.size() > 1)
    work_.notify_one();
  const bool lost = devices[static_cast<std::size_t>(op->device)].lost != cudaSuccess;
  const bool counts = op->kind == Kind::kernel;
  if (counts)
    most_at_once = std::max(most_at_once, ++kernels_);
  std::unique_ptr<Strand> own = is_part ? take_strand() : nullptr;
  Strand& strand = is_part ? *own : pick.stream->strand;
  Work work = std::move(op->work);
  const OpRef previous = is_part ? nullptr : pick.stream->previous;
  std::function<void()> act = [this, op, head, is_part, work = std::move(work), previous, lost]() mutable {
    run_body(*op, is_part ? head.get() : nullptr, std::move(work), previous, lost);
  };
  hold.unlock();
  {
    const Seen seen;
    strand.run(std::move(act));
  }
  hold.lock();
  if (body_is_illegal) {
    body_is_illegal = false;
    lose(op->device, cudaErrorIllegalAddress);
  }
  if (own != nullptr && strands_.size() < k_free_strands)
    strands_.push_back(std::move(own));
  --running_;
  kernels_ -= counts ? 1 : 0;
  finish(*pick.stream, op, is_part);
}

void World::finish(CUstream_st& stream, const OpRef& op, bool part) {
  op->needs.clear();
  if (!part && !op->parts.empty()) {  // a graph has begun; it ends with its last part
    op->opened = true;
    return;
  }
  op->done = true;
  op->ended_at = std::chrono::steady_clock::now();
  const OpRef head = stream.queue.front();
  if (!part || --head->parts_left == 0) {
    head->done = true;
    head->ended_at = op->ended_at;
    head->parts.clear();
    stream.previous = head;
    stream.queue.pop_front();
    if (stream.queue.empty())
      std::erase(busy_, &stream);
  }
  maybe_drowse(stream, 8);
  if (hosts_waiting_ > 0)
    done_.notify_all();
}

void World::execute() {
  const Unseen unseen;
  Lock hold(mutex);
  while (!stopping_) {
    Pick pick{};
    const Choice choice = options.manual ? Choice::none : choose(pick);
    if (choice == Choice::chosen) {
      run(pick, hold);
    } else if (choice == Choice::none) {
      work_.wait(hold);
    } else if (hosts_waiting_ == 0) {
      work_.wait_for(hold, k_nap);
    }
  }
}

bool World::drain_one(Lock& hold) {
  Pick pick{};
  for (;;) {
    const Choice choice = choose(pick);
    if (choice == Choice::none)
      return false;
    if (choice == Choice::asleep)
      continue;
    const OpRef head = pick.stream->queue.front();
    run(pick, hold);
    head->ended.follow();  // the test may look at once
    return true;
  }
}

void World::wake() {
  work_.notify_all();
  done_.notify_all();
}

void World::wait(Lock& hold, const OpRef& op) {
  ++blocking;
  if (op == nullptr)
    return;
  ++hosts_waiting_;
  work_.notify_all();
  done_.wait(hold, [&] { return op->done || devices[static_cast<std::size_t>(op->device)].lost != cudaSuccess; });
  --hosts_waiting_;
  if (const cudaError_t lost = devices[static_cast<std::size_t>(op->device)].lost; lost != cudaSuccess)
    throw Refusal{lost};
  op->ended.follow();
}

void World::wait_device(Lock& hold, int index) {
  std::vector<OpRef> last;
  streams.each([&](CUstream_st& stream) {
    if (stream.device == index && stream.last != nullptr)
      last.push_back(stream.last);
  });
  for (const OpRef& op : last)
    wait(hold, op);
}

void World::lose(int index, cudaError_t error) {
  cudaError_t& lost = devices[static_cast<std::size_t>(index)].lost;
  if (lost == cudaSuccess)
    lost = error;
  wake();
}

void World::end(Lock& hold) {
  stopping_ = true;
  wake();
  std::vector<std::thread> executors = std::move(executors_);
  hold.unlock();
  for (std::thread& executor : executors)
    executor.join();
  hold.lock();
  stopping_ = false;
  executors_.clear();
}

}  // namespace sluice::test::sim
