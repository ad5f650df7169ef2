// Tasks that come again: put off instead of captured, and what becomes of them if they do not come again together.
#include <sluice/engine/cuda/issuer.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

using cuda::cuda_check;

namespace {

constexpr int k_misses = 8;  // batches in a row that had to be made anew: then tasks are launched directly
constexpr int k_strangers = Repeats::k_most_executables;  // that were put off in vain: a program may have as many
constexpr int k_off_at_most = 1 << 16;
constexpr int k_rest_at_most = 1 << 22;

}  // namespace

// The body was called before with the same content and did not fail, so that it is not expected to.
bool Issuer::capture_again(Batch::Step& step) {
  const std::uint64_t description = batch_.describe(step.body);
  batch_.make_room();
  struct Restore {
    Call& call;
    const Call before;
    LaneView& view;
    ~Restore() {
      call = before;
      view.take_place({});
    }
  };
  FailureRef failure;
  {
    const Call here{
        .route = batch_route_, .lane = step.lane, .needs = &step.needs, .name = step.name, .captured = true};
    const Restore restore{call_, std::exchange(call_, here), step.lane->captured};
    step.lane->captured.take_place({step.lane->number(), step.sequence});
    abandon_ = false;
    try {
      if (!skip_late(step))
        call_body(call_, step.body);
    } catch (...) {
      failure = caught(record_named(step.name, step.site, step.push_number));
    }
    touch();
    if (call_.failure != nullptr || abandon_ || !is_intact(step.name, failure != nullptr))
      return false;
  }
  if (failure != nullptr || !batch_.says_all())
    repeats_.unlearn(description);
  if (failure != nullptr)
    fail_late(step, failure, true);
  batch_.end_step(std::move(step));
  return true;
}

// False if that is impossible: then they have been launched one by one.
bool Issuer::capture_put_off() noexcept {
  std::vector<Batch::Step> steps;
  std::size_t captured = 0;
  bool all = false;
  learn_repeated(false);
  try {
    const cuda::DeviceScope on(device_.index);
    const PositionSet outside = batch_.outside();
    steps = batch_.take();
    batch_.open_again(capture_stream_.get(), outside);
    while (captured < steps.size() && capture_again(steps[captured]))
      ++captured;
    all = captured == steps.size();
  } catch (...) {  // they are whole, and launched below
  }
  batch_.end_again();
  if (!all) {
    launch_one_by_one();
    launch_again(std::span(steps).subspan(captured));
  }
  return all;
}

// Those that come again one by one but not together cost more than if they were captured at once.
void Issuer::learn_repeated(bool found) noexcept {
  if (found) {
    graphs_.forget_misses();
    strangers_ = 0;
    put_off_rests_ = k_rest_at_first;
  } else if (++strangers_ >= k_strangers) {
    strangers_ = 0;
    put_off_rest_ = put_off_rests_;
    put_off_rests_ = std::min(2 * put_off_rests_, k_rest_at_most);
  }
}

// Null if the graph is empty. Throws CudaError.
cudaGraphExec_t Issuer::executable_of(const GraphHandle& graph, const Route& route) {
  std::size_t nodes = 0;
  cuda_check(cudaGraphGetNodes(graph.get(), nullptr, &nodes), "cudaGraphGetNodes");
  if (nodes == 0)
    return nullptr;
  if (cudaGraphExec_t kept = repeats_.keep(batch_.script(), graph.get()))
    return kept;
  const std::uint64_t made_before = graphs_.made();
  cudaGraphExec_t executable =
      graphs_.prepare(graph_shape(batch_.shape(), graph.get(), nodes), graph.get(), *route.stream);
  learn_from(graphs_.made() != made_before);
  if (graphs_.misses() == 0)
    off_for_ = k_off_at_first;
  if (graphs_.misses() >= k_misses) {
    graphs_.forget_misses();
    batches_off_ = off_for_;
    off_for_ = std::min(2 * off_for_, k_off_at_most);
  }
  return executable;
}

}  // namespace sluice::detail
