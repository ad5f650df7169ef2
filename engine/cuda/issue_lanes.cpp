// How many lanes a batch has, on which of them a task goes, and on which CUDA stream they all do.
#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include <sluice/engine/cuda/issuer.h>

namespace sluice::detail {

namespace {

constexpr int k_crossing = 2;  // tasks that could begin while one waits for another lane

}  // namespace

// Once it is not, the driver is not asked again.
bool Issuer::is_running(BatchEnd& end) noexcept {
  if (end.milestone == nullptr)
    return false;
  const bool reused = end.milestone->number != end.number;
  const bool running = !reused && cudaEventQuery(end.milestone->event.get()) == cudaErrorNotReady;
  cudaGetLastError();
  if (!running)
    end = {};
  return running;
}

// While the GPU keeps up, branches in a graph gain nothing and cost a little; when it is behind, they may run side by
// side. Not in programs whose graphs do not repeat then: where tasks reuse each other's memory, which task waits for
// which can be different each time.
int Issuer::choose_width() noexcept {
  if (narrow_ > 0) {
    --narrow_;
    return 1;
  }
  return is_running(ends_[0]) ? k_width : 1;  // with what was launched before the last batch
}

// With the driver's eight hardware queues and four batches of eight lanes on their streams an urgent kernel had to wait
// 790 us for its turn on an H200, behind a branch in the same queue; with sixteen queues, or four lanes, 22 us.
int Issuer::repeat_width() const noexcept {
  return options_.queues >= 2 * k_wide ? k_wide : k_width;
}

// One that was made while the GPU was busy with the batch before it has cost nobody anything.
void Issuer::learn_from(bool made) noexcept {
  constexpr int k_price = 8, k_patience = 128, k_narrow_at_most = 1 << 14;  // more than one graph in nine is new
  if (width_ == 1)
    return;
  graphs_.forget_misses();  // that there are branches is to blame
  if (!made)
    lost_shapes_ = std::max(0, lost_shapes_ - 1);
  else if (!is_running(ends_[1]))
    lost_shapes_ += k_price;
  if (lost_shapes_ < k_patience)
    return;
  lost_shapes_ = 0;
  narrow_ = narrow_for_;
  narrow_for_ = std::min(2 * narrow_for_, k_narrow_at_most);
}

Lane& Issuer::batch_lane(int i) {
  Lane*& lane = batch_route_->captured[static_cast<std::size_t>(i)];
  if (lane == nullptr) {
    lane = &add_lane(StreamKind::compute, *batch_route_->stream);
    lane->captured.enqueue_on(capture_stream_.get());
  }
  return *lane;
}

// Where a task can begin soonest, counted in tasks: behind what its lane has already, and some later than what it needs
// from other lanes (list scheduling, as in Topcuoglu, Hariri and Wu, 2002). If that is the same, where it continues
// something, else where least lies. In an order of the route's own: a batch finds its lanes in the same order as the
// batch before it that was like it.
Lane& Issuer::choose_lane(const PositionSet& needs) {
  const Lane* last = nullptr;  // of what it needs, what ends last is there
  std::pair<int, int> end(0, -1);
  int end_elsewhere = 0;
  for (Position need : needs) {
    const int step = batch_.step_of(need);
    if (step < 0)
      continue;
    const std::pair reached(batch_.depth(step) + k_crossing, step);  // whichever order they are named in
    if (reached > end) {
      end_elsewhere = std::exchange(end, reached).first;
      last = &lanes_.at(need.stream());
    } else {
      end_elsewhere = std::max(end_elsewhere, reached.first);
    }
  }
  using Rank = std::tuple<int, bool, int>;
  int chosen = 0;
  Rank least(std::numeric_limits<int>::max(), true, 0);
  for (int i = 0; i < width_; ++i) {
    const Lane* const lane = batch_route_->captured[static_cast<std::size_t>(i)];
    const int depth = lane == nullptr ? 0 : batch_.depth(*lane);
    const bool continues = last != nullptr && lane == last;
    const Rank rank(std::max(depth, continues ? end_elsewhere : end.first), !continues, depth);
    if (rank < least) {
      least = rank;
      chosen = i;
    }
  }
  return batch_lane(chosen);
}

// A batch that goes on with computations stays on a stream that comes after them: its executables are there. One that
// begins anew goes elsewhere if that stream is busy.
Issuer::Route& Issuer::choose_batch_route(const PositionSet& needs) {
  bool goes_on = false, waits = false;
  for (Position need : needs) {
    const Lane& lane = lanes_.at(need.stream());
    const bool open = lane.done() < need.sequence();
    waits = waits || open;
    goes_on = goes_on || (open && lane.kind() == StreamKind::compute);
  }
  if (!waits && batch_route_ != nullptr && !is_running(ends_[1]))
    return *batch_route_;
  for (Route& route : compute_) {
    const bool after_all = goes_on && std::all_of(needs.begin(), needs.end(), [&](Position need) {
                             return route.stream->knows(lanes_.at(need.stream()), need.sequence());
                           });
    if (after_all)
      return route;
  }
  return pick_of(compute_.data(), k_compute, needs);
}

}  // namespace sluice::detail
