// What a region's task does: capture its tasks and launch them as a graph; launch the graph again; or, where that is
// not to be had, call them one after the other.
#include <algorithm>
#include <utility>

#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/mixed.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/cuda/region_graph.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/failure.h>
#include <sluice/engine/detail/named_range.h>

namespace sluice::detail {

using cuda::cuda_check;

namespace {

void count(std::atomic<std::uint64_t>& counter) noexcept {
  counter.fetch_add(1, std::memory_order_relaxed);
}

// Where no graph looks at the byte, the host does, once what comes before it is over.
bool is_set(const void* byte, const Queue& queue) {
  unsigned char found = 0;
  const auto stream = static_cast<cudaStream_t>(queue.stream());
  cuda_check(cudaMemcpyAsync(&found, byte, 1, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return found != 0;
}

/// In a handler: throws the same, as the failure of a task inside that of its region.
[[noreturn]] void rethrow_as_of(const RegionTask& task) {
  const TaskNode& whole = *this_thread().task;
  auto record = std::make_shared<FailureRecord>();
  record->task = message(task.name, "\" of region \"", whole.name);
  record->site = task.site;
  record->push_number = whole.push_number;
  std::rethrow_exception(capture_failure(std::move(record))->exception);
}

}  // namespace

CoreRef::CoreRef(Core& core) noexcept : core_(core) {
  core.retain();
}
CoreRef::~CoreRef() {
  core_.release();
}

std::shared_ptr<RegionGraphs> make_region_graphs(Core& core, Device device) {
  auto& policy = static_cast<StreamPolicy&>(*core.need_gpu());
  return std::make_shared<CudaRegionGraphs>(core, policy.gpu(device), policy.reports());
}

// -- What the variants share --

CudaRegionGraphs::~CudaRegionGraphs() {
  gpu.executables.forget(this);
}

std::shared_ptr<RegionVariant> CudaRegionGraphs::make(RegionProgram program, bool in_order) {
  return std::make_shared<CudaRegionVariant>(std::move(program), in_order, shared_from_this());
}

RegionCounts CudaRegionGraphs::counts() const noexcept {
  return {
      .captured = counted.captured.load(),
      .instantiated = counted.instantiated.load(),
      .updated = counted.updated.load(),
      .launched = counted.launched.load(),
      .in_order = counted.in_order.load()};
}

std::optional<RegionRefusal> CudaRegionGraphs::refusal() const {
  const std::lock_guard hold(mutex_);
  return refusal_;
}

void CudaRegionGraphs::note_capture(bool refused, const RegionTask* task) noexcept {
  const std::lock_guard hold(mutex_);
  refusal_.reset();
  if (!refused)
    return;
  try {
    refusal_ = task == nullptr ? RegionRefusal{} : RegionRefusal{task->name, task->site};
  } catch (...) {  // nobody is told
  }
}

ExecutableCache::Lease CudaRegionGraphs::prepare(GraphShape shape, cudaGraph_t graph, bool alone) {
  ExecutableCache::Lease lease = gpu.executables.take(shape, graph, {.alone = alone, .owner = this});
  count(lease.found() == ExecutableCache::Found::updated ? counted.updated : counted.instantiated);
  return lease;
}

// -- One variant --

void CudaRegionVariant::run(const Queue& queue) {
  if (program.tasks.empty())
    return;
  if (graphs_->reports.is_crowded()) [[unlikely]]
    graphs_->reports.relieve();
  State now = state();
  if (now == State::fresh || now == State::failed) {
    try {
      blamed_ = nullptr;
      now = capture(queue);
      graphs_->note_capture(now == State::spoilt, blamed_);
    } catch (...) {
      become(State::failed);
      throw;
    }
    become(now);
  }
  if (now == State::spoilt || !launch(queue))
    run_in_order(queue);
}

void CudaRegionVariant::call(RegionTask& task, const Queue& queue) {
  const NamedRange range(NamedRange::k_body, task.name);
  task.body(queue);
  // Launches report nothing themselves; a bad one is found here, so that it blames this task and no other.
  cuda_check(cudaGetLastError(), "kernel launch");
}

// False if the capture is spoilt. Throws what a body throws, and nothing else.
bool CudaRegionVariant::capture_all(RegionCapture& capture, const Queue& queue) {
  const Queue inner(queue.engine(), queue.device(), 1, &capture, this_thread().task);
  struct Steps {
    RegionKeeps& keeps;
    ~Steps() { keeps.end_steps(); }
  } const steps{keeps_};
  keeps_.begin_steps(capture);
  return std::all_of(
      program.tasks.begin(), program.tasks.end(), [&](RegionTask& task) { return capture_one(capture, task, inner); });
}

bool CudaRegionVariant::capture_one(RegionCapture& capture, RegionTask& task, const Queue& queue) {
  const auto made = [](auto&& step) {
    try {
      step();
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  const bool begun = made([&] {
    capture.begin_step(program.tasks, task);
    keeps_.begin_step(program.tasks, task);
    if (task.choice)
      capture.begin_choice(*task.choice);
  });
  if (!begun)
    return false;
  blamed_ = &task;
  try {
    const RegionKeepsScope scope(keeps_);
    call(task, queue);
  } catch (...) {
    cudaGetLastError();
    if (!capture.intact())
      return false;
    rethrow_as_of(task);
  }
  if (task.choice && !made([&] { capture.end_choice(*task.choice); }))
    return false;
  if (!capture.end_step())
    return false;
  blamed_ = nullptr;
  return true;
}

bool CudaRegionVariant::has_branches() const noexcept {
  return std::any_of(
      program.tasks.begin(), program.tasks.end(), [](const RegionTask& task) { return task.choice.has_value(); });
}

GraphShape CudaRegionVariant::shape(cudaGraph_t graph) const {
  std::uint64_t structure = program.tasks.size();
  for (const RegionTask& task : program.tasks) {
    structure = mixed(structure, task.name);
    for (int earlier : task.after)
      structure = mixed(structure, static_cast<std::uint64_t>(earlier));
  }
  return shape_of(structure, graph);
}

// Scratch memory of a capture that has come to nothing goes back behind what it had to wait for.
void CudaRegionVariant::undo(const Queue& queue) noexcept {
  try {
    keeps_.pending.add(queue.position());
    queue.wait_for(outside_);
  } catch (...) {  // the device is lost, and with it what lies there
  }
  outside_.clear();
  keeps_.give_back();
  keeps_.pending.clear();
}

CudaRegionVariant::State CudaRegionVariant::capture(const Queue& queue) {
  struct Attempt {
    CudaRegionVariant& variant;
    const Queue& queue;
    bool failed = true;
    ~Attempt() {
      if (failed)
        variant.undo(queue);
    }
  } attempt{*this, queue};
  try {
    RegionCapture capture(graphs_->stream, queue, outside_, words_);
    if (!capture_all(capture, queue))
      return State::spoilt;
    const GraphHandle graph = capture.close();
    if (graph.get() == nullptr)
      return State::spoilt;
    uses_handles_ = capture.used_slots();
    if (const GraphShape made = shape(graph.get()); made.nodes != 0)
      executable_ = graphs_->prepare(made, graph.get(), has_branches());  // CUDA updates no sides of branches
  } catch (const Error& error) {
    if (error.record() != nullptr)  // a body's
      throw;
    return State::spoilt;
  }
  attempt.failed = false;
  count(graphs_->counted.captured);
  return State::captured;
}

// False if CUDA refuses it.
bool CudaRegionVariant::launch(const Queue& queue) {
  queue.wait_for(outside_);
  if (executable_.get() == nullptr)
    return true;
  if (uses_handles_)
    queue.wait_for(graphs_->after_handles);
  keeps_.pending.add(queue.position());
  if (words_.all() != nullptr)
    words_.use(queue);
  if (cudaGraphLaunch(executable_.get(), static_cast<cudaStream_t>(queue.stream())) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  count(graphs_->counted.launched);
  if (uses_handles_) {
    graphs_->after_handles.clear();
    graphs_->after_handles.add(queue.position());
  }
  return true;
}

void CudaRegionVariant::run_in_order(const Queue& queue) {
  count(graphs_->counted.in_order);
  RegionStepStream stream(queue, graphs_->gpu.bodies.stream(), words_);
  const Queue inner(queue.engine(), queue.device(), 1, &stream, this_thread().task);
  run_steps(stream, inner, 0, program.tasks.size());
}

void CudaRegionVariant::run_steps(RegionStepStream& stream, const Queue& queue, std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end;) {
    RegionTask& task = program.tasks[at];
    bool chosen = false;
    stream.begin_step(at);
    try {
      if (task.choice)
        chosen = is_set(task.choice->byte, queue);
      else if (!task.chooses_again)
        call(task, queue);
    } catch (...) {
      cudaGetLastError();
      rethrow_as_of(task);
    }
    if (!task.choice) {
      ++at;
      continue;
    }
    const BranchExtent extent = extent_of(program.tasks, at);
    run_steps(stream, queue, chosen ? at + 1 : extent.middle, chosen ? extent.middle : extent.end);
    if (!chosen || !task.choice->repeats)
      at = extent.end;
  }
}

}  // namespace sluice::detail
