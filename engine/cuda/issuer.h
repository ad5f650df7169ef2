#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include <sluice/engine/cuda/batch.h>
#include <sluice/engine/cuda/cuda_stream.h>
#include <sluice/engine/cuda/gpu_trace.h>
#include <sluice/engine/cuda/lane.h>
#include <sluice/engine/cuda/repeats.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

class Core;
class StreamPolicy;

/// How GPU tasks are launched; see EngineOptions.
struct LaunchOptions {
  bool batches = true;
  bool one_stream = false;  // for computation
  bool waits = false;       // the host does, for each task
  int queues = 8;           // of the hardware, between which the driver shares out streams and branches of graphs
};

inline std::int64_t steady_nanoseconds() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

/// Counts of one device's issuing, for any thread.
struct IssueCounts {
  std::atomic<std::uint64_t> stream_waits{0};
  std::atomic<std::uint64_t> batches{0};
  std::atomic<std::uint64_t> batched{0};
  std::atomic<std::uint64_t> repeated{0};
  std::atomic<std::uint64_t> graphs_made{0};
  std::atomic<std::uint64_t> reissued{0};
};

/// Gives the tasks of one GPU to its CUDA streams. One thread at a time issues, whoever pushes first; what others push
/// meanwhile is left in a list, which that thread empties before it goes. Under backlog capturable tasks are gathered
/// in a batch, which is launched as one CUDA graph: when it is full, when somebody waits for it, or when nothing has
/// been added to it for 30 us.
class Issuer {
 public:
  Issuer(Core& core, StreamPolicy& policy, LaneTable& lanes, Device device, LaunchOptions options);
  Issuer(const Issuer&) = delete;
  Issuer& operator=(const Issuer&) = delete;
  ~Issuer();

  // -- Any thread ----------------------------------------------------------------------------------------------------
  void submit(TaskNode* task);
  /// Has the batch that is open launched, now or as soon as the thread that issues is through with its task.
  /// `in_body`: of another issuer, so that no body of a task is called meanwhile that has not been called yet.
  void nudge(bool in_body = false);
  /// Returns once `sequence` of `lane` has been launched. Must not be called by the thread that issues.
  void await_launch(const Lane& lane, std::uint64_t sequence);
  /// For the attendant, again and again: launches a batch that has waited long, goes on with tasks that were put off.
  /// True while there is something to attend to.
  bool attend();
  /// Throws what is wrong with the device, if it is lost.
  void check_alive();
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Is the calling thread in a body that this issuer called?
  bool issuing_here() const noexcept;
  /// To be called in a handler: if the exception says that the device is lost, notes that and throws DeviceLost.
  void rethrow_if_lost();

  const IssueCounts& counts() const noexcept { return counts_; }
  Device device() const noexcept { return device_; }

  // -- A body that is being called -----------------------------------------------------------------------------------
  /// It is about to enqueue something: what it depends on comes first. What goes wrong there is the task's failure.
  void touch() noexcept;
  /// The same; throws what went wrong, so that the body enqueues nothing out of order.
  void touch_or_throw();
  void wait_in_body(const PositionSet& positions, bool captured);
  /// It asks for more than its stream: what it enqueues may depend on that.
  void note_question() noexcept { batch_.lose_script(); }
  /// A body is about to block until the GPU has passed what is being captured with it: the batch is given up and its
  /// tasks, the one that runs among them, are launched one by one. Always throws; what, nobody sees.
  [[noreturn]] void abandon_capture();
  /// A body of this issuer's is about to wait for what may not have been launched yet.
  void launch_in_body(const Lane& lane, std::uint64_t sequence);
  /// A body waits for what it has itself enqueued so far. Throws CudaError.
  void wait_for_own();
  /// Before other CUDA calls are made inside the body: the error that it has left is its own.
  void keep_error() noexcept;

 private:
  static constexpr int k_compute = 4, k_urgent = 2, k_width = 4, k_wide = Batch::k_most_lanes, k_unmarked = 32;
  static constexpr int k_tries = 3;  // of a call without which nobody knows when work is done
  static constexpr int k_off_at_first = 1000, k_narrow_at_first = 64, k_rest_at_first = 1 << 15;
  enum Class : std::uint8_t { urgent, normal, background, copy_in, copy_out, collective };
  struct Route {  // a CUDA stream, the lane of what is launched on it directly, those of what is captured for it
    std::unique_ptr<CudaStream> stream;
    Lane* lane = nullptr;
    std::array<Lane*, k_wide> captured{};  // made as they are needed
    int unmarked = 0;                      // tasks launched directly since the latest milestone
    bool in_use = false;
  };
  struct Call {  // the body that is being called
    Route* route = nullptr;
    Lane* lane = nullptr;
    const PositionSet* needs = nullptr;
    TaskNode* task = nullptr;
    const char* name = "";
    bool captured = false;
    bool touched = false;
    GpuTrace::Span* span = nullptr;
    std::exception_ptr failure = {};  // of what should have come before
    FailureRef input = {};            // of an input, since the task was begun: it is skipped
    cudaError_t error = cudaSuccess;  // that the body has left, seen before its end
  };
  struct BatchEnd {
    const Milestone* milestone = nullptr;
    std::uint64_t number = 0;
  };
  struct List {
    TaskNode* head = nullptr;
    TaskNode* tail = nullptr;
    void append(TaskNode* task) noexcept;
    TaskNode* take() noexcept;
  };

  // issuer.cpp: who issues
  void launch_far_needs(const TaskNode& task);
  void hand_over();
  void drain(TaskNode* first, bool tired = false);
  TaskNode* next_or_give_up(bool tired);
  void issue(TaskNode* task);
  FailureRef failed_meanwhile(const TaskNode& task);
  void refuse(TaskNode* task, FailureRef failure, bool ran);
  bool launch_stale();

  // issue_body.cpp: the body is called
  TracedStream traced_on(const Route& route) const noexcept;
  void call_body(const Call& call, Closure& body);
  void call_among_legacy(const Call& call, Closure& body);
  bool run_body(const Call& call, FailureRef& failure);
  void await_far_launch(const Lane& lane, std::uint64_t sequence);

  // issue_direct.cpp: one task by itself
  static Class class_of(const TaskNode& task) noexcept;
  void make_routes();
  Lane& add_lane(StreamKind kind, const CudaStream& stream);
  Route* continued(Route* routes, int count, Position need);
  Route& pick_of(Route* routes, int count, const PositionSet& needs);
  Route& choose_route(const TaskNode& task, const PositionSet& needs);
  void settle(const Route& route, const PositionSet& needs);
  void order(Route& route, const PositionSet& needs);
  Milestone* record(Route& route) noexcept;
  void mark(Route& route, Lane& lane, std::uint64_t sequence, Milestone* milestone) noexcept;
  void mark(Route& route) noexcept;
  void mark_all() noexcept;
  Position place(Route& route, const TaskNode& task) noexcept;
  void issue_direct(TaskNode* task, const PositionSet& needs);
  void look_behind(Route& route) noexcept;
  void look_at_backlog();

  // issue_batch.cpp: many as one graph
  bool belongs_in_batch(const TaskNode& task);
  void issue_in_batch(TaskNode* task, const PositionSet& needs);
  void issue_captured(TaskNode* task, const PositionSet& needs, std::uint64_t description);
  Batch::Step step_of(const TaskNode& task, const PositionSet& needs);
  void join_batch(TaskNode* task, Batch::Step&& step, FailureRef failure, std::uint64_t content);
  bool prepare_batch(const PositionSet& needs, bool capture) noexcept;
  void void_place(Lane& lane, const TaskNode& task) noexcept;
  bool waits_for_others(const PositionSet& needs) const;
  bool is_full() const noexcept;
  int growth() const noexcept;
  void launch_batch() noexcept;
  bool is_intact(const char* name, bool failed) noexcept;
  void mark_batch(Route& route) noexcept;
  void launch_one_by_one() noexcept;
  void await(Position need) noexcept;
  void order_or_await(Route& route, const PositionSet& needs) noexcept;
  void launch_again(std::span<Batch::Step> steps) noexcept;
  void launch_again(Batch::Step& step) noexcept;
  void fail_late(Batch::Step& step, const FailureRef& failure, bool ran) noexcept;
  bool skip_late(Batch::Step& step) noexcept;
  void reset_pace() noexcept;

  // issue_lanes.cpp: where in a batch
  Lane& choose_lane(const PositionSet& needs);
  Lane& batch_lane(int i);
  int choose_width() noexcept;
  int repeat_width() const noexcept;
  Route& choose_batch_route(const PositionSet& needs);
  static bool is_running(BatchEnd& end) noexcept;
  void learn_from(bool made) noexcept;

  // issue_repeat.cpp: what was captured before is not captured again
  bool capture_put_off() noexcept;
  bool capture_again(Batch::Step& step);
  void learn_repeated(bool found) noexcept;
  cudaGraphExec_t executable_of(const GraphHandle& graph, const Route& route);

  // device_loss.cpp
  static std::shared_ptr<FailureRecord> record_named(const char* name, SourceLocation, std::uint64_t push_number);
  FailureRef caught(std::shared_ptr<FailureRecord> record);
  FailureRef lost_failure(std::shared_ptr<FailureRecord> record);
  void lose(const CudaError& error);
  void lose(const FailureRef& why) noexcept;

  Core& core_;
  StreamPolicy& policy_;
  LaneTable& lanes_;
  const Device device_;
  const LaunchOptions options_;
  IssueCounts counts_;

  SpinLock lock_;  // guards what follows, up to the blank line
  bool leased_ = false;
  bool launch_wanted_ = false;
  std::array<List, 3> left_;  // by class: urgent, normal and copies, background

  std::atomic<const void*> issuing_{nullptr};  // the thread that issues
  std::atomic<bool> put_off_{false};           // a stream is far behind: normal tasks stay in their list
  std::atomic<bool> handed_over_{false};       // the attendant goes on with what others have left
  std::atomic<std::uint64_t> captured_{0};     // number of the latest step; 0: no batch is open
  std::atomic<bool> lost_{false};
  std::mutex lost_mutex_;
  std::string lost_text_;
  int lost_code_ = 0;

  // The attendant's: what it saw last.
  std::uint64_t seen_captured_ = 0;
  std::int64_t seen_at_ = 0;

  // The rest is the issuing thread's.
  bool made_ = false;
  std::array<Route, k_compute> compute_;
  std::array<Route, k_urgent> urgent_;
  std::array<Route, 4> others_;  // background, copy_in, copy_out, collective
  unsigned turn_ = 0;
  Route* behind_ = nullptr;
  Call call_;
  ErrorWord* error_words_ = nullptr;
  int lane_count_ = 0;
  cuda::StreamHandle capture_stream_;
  Route* batch_route_ = nullptr;
  int in_use_ = 0;  // CUDA streams
  Batch batch_;
  TracedBatch traced_;
  GraphCache graphs_;
  Repeats repeats_;
  bool abandon_ = false;  // the body that is being captured must not be
  int in_a_row_ = 0;      // tasks since a host waited
  std::uint64_t steps_captured_ = 0;
  int level_ = 0;                             // how large batches may be by now
  std::uint64_t before_last_ = 0, last_ = 0;  // what the latest captured tasks were
  int batches_off_ = 0;                       // tasks for which batching is left alone, because it did not pay
  int off_for_ = k_off_at_first;
  int strangers_ = 0;     // batches in a row that were put off in vain
  int put_off_rest_ = 0;  // tasks that are not put off, because that did not pay
  int put_off_rests_ = k_rest_at_first;
  int width_ = 1;   // lanes that the batch may have
  int narrow_ = 0;  // batches that get one lane, because graphs of several were not found again
  int narrow_for_ = k_narrow_at_first;
  int lost_shapes_ = 0;           // how often, of late
  std::array<BatchEnd, 2> ends_;  // of the last two batches, the older one first
  std::set<const char*> uncapturable_;
  std::array<const char*, 64> harmless_{};  // names of tasks that have been seen to leave a capture intact
};

}  // namespace sluice::detail
