#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <boost/thread/thread.hpp>

#include <sluice/engine/detail/policy.h>
#include <sluice/engine/detail/random.h>
#include <sluice/engine/detail/ring.h>
#include <sluice/engine/detail/shards.h>
#include <sluice/engine/detail/spin_lock.h>
#include <sluice/engine/detail/task_node.h>
#include <sluice/engine/detail/this_thread.h>

namespace sluice::detail {

/// CPU tasks on worker threads, which are made when there is work for them. Ready tasks of the normal class lie in
/// the ring of the thread that made them ready, everything else in one list a class; idle workers steal. At most
/// `workers` threads run at any time: a worker that is not parked, a body that is not blocked and each thread of a
/// library's team hold one permit each. A user's thread that attached itself runs tasks without one.
class PoolPolicy final : public CpuPolicy {
 public:
  static constexpr int k_max_threads = 1024;

  PoolPolicy(Core& core, const EngineOptions& options, int workers, bool chaos);
  ~PoolPolicy() override;

  void submit(TaskNode* task) noexcept override;
  bool submit_again(TaskNode* task) noexcept override;
  bool run_ahead(TaskNode* task) override;
  bool runs_ahead() const noexcept override { return true; }
  void visit_readers(const VarCore* var, Priority wanted, const std::function<void(TaskNode*)>& visit) override;
  void parallel(std::int64_t n, std::int64_t grain, void* context, RangeFunction run) override;
  void before_block() override;
  void after_block() override;
  void stop() override;
  void restart() override;
  bool short_tasks() const noexcept override { return !long_tasks(); }
  int workers() const noexcept override { return workers_; }
  std::string_view thread_name() const noexcept override { return std::string_view(thread_name_).substr(0, 11); }
  bool need_thread() override;
  void while_waiting() override;
  void after_push() override;
  bool begin_at_once() noexcept override { return !chaos_; }
  int all_blocked() override;
  int worker_here() const noexcept override;
  bool works_here() const noexcept override;
  std::chrono::nanoseconds slice() const noexcept override;
  bool attach() override;
  void detach() override;
  int help(int limit) override;
  void add_counters(EngineCounters& sum) const noexcept override;
  void visit_runners(const std::function<void(Runner)>& visit) override;

 private:
  static constexpr int k_classes = 4;
  /// Clock ticks: about what it costs to run a task away from its data.
  static constexpr std::uint64_t k_long_task = 600;
  static constexpr std::uint64_t k_pace_unknown = ~std::uint64_t{0};

  /// Ready tasks of one class that are in no ring.
  struct alignas(64) List {
    TaskNode* TaskNode::*link = &TaskNode::next;
    SpinLock lock;
    TaskNode* head = nullptr;
    TaskNode* tail = nullptr;
    std::atomic<int> size{0};
  };
  struct Worker;
  /// A thread's ready tasks, open to thieves.
  struct WorkQueue {
    Ring ring;
    std::atomic<bool> owner_runs{false};  // the owner takes tasks too: not a thread that only pushes
    // When a thief last saw the head move; for tasks too short to be worth stealing from an owner that runs them.
    std::atomic<std::uint64_t> seen_head{0}, seen_at{0};
    // Who took from it last, and when: short tasks of a thread that only pushes are for one worker.
    std::atomic<const Worker*> server{nullptr};
    std::atomic<std::uint64_t> served_at{0};
  };
  struct alignas(64) Worker {
    WorkQueue* queue = nullptr;
    TaskNode* next = nullptr;  // a successor of the task just finished: runs next, on warm data
    int next_in_a_row = 0;
    bool running = false;  // inside run(), the body's end included
    bool searching = false;
    bool attached = false;        // a user's thread
    std::uint32_t jobs_seen = 0;  // of jobs_begun_: none of those wants its help
    bool ahead = false;           // what it picked still lies in its own queue
    Worker* next_attached = nullptr;
    int pushes = 0;  // attached: since it last ran some itself
    std::uint64_t picks = 0;
    Random random{1};
    std::uint64_t patience = 0;     // clock ticks of its next search
    std::uint64_t pace = 0;         // of the workers, about, here
    std::uint64_t batch_began = 0;  // clock and picks when the pace was last taken
    std::uint64_t batch_picks = 0;
    int index = 0;
    AtomicRunner runner{Runner::to_come()};
    std::unique_ptr<WorkQueue> own_queue;
    boost::thread thread;
  };
  /// One parallel_for, on its caller's stack. Ranges are handed out by a counter.
  struct Job {
    Work caller = {};
    LoopMode mode = {};
    std::int64_t n = 0, chunk = 1;
    void* context = nullptr;
    RangeFunction run = nullptr;
    std::atomic<std::int64_t> next{0};
    int helpers = 0;  // under the pool's mutex
    int wanted = 0;
    std::exception_ptr error = {};
    std::mutex error_mutex = {};
    Job* next_job = nullptr;

    bool finished() const noexcept { return next.load(std::memory_order_relaxed) >= n; }
    void work() noexcept;
  };

  /// What each thread counts in its slot.
  struct alignas(64) Counters {
    Count run_next, stolen, overflowed, parked, run_ahead;
  };
  void count(Count Counters::*what, std::uint64_t by = 1) noexcept;

  // Work comes in (policy_pool.cpp)
  void append(List& list, TaskNode* task);
  TaskNode* take_from(List& list);
  TaskNode* take_class(Worker& me, Priority priority);
  TaskNode* take_raised(Worker& me, std::size_t index);
  void forget_claimed();
  void sweep();
  void share_next(Worker& me);
  void give_away_next(Worker& me);
  WorkQueue* outside_queue() noexcept;
  void announce(const WorkQueue* queue);
  bool long_tasks() const noexcept;
  // With the mutex held.
  void wake(int count) noexcept;
  void add_worker(int index);
  void tell_of_shortage(int had, const ThreadError& error) noexcept;
  void run_claimed(TaskNode* task);
  int reserve_team(int threads);
  Worker* mine() const noexcept;

  // A worker's life (pool_worker.cpp)
  void name_and_place(const Worker& me) const;
  void live(Worker& me);
  void work(Worker& me);
  TaskNode* pick(Worker& me);
  TaskNode* pick_aged();
  TaskNode* pick_background(Worker& me);
  TaskNode* take_shared(Worker& me);
  TaskNode* steal(Worker& me, bool however_short);
  TaskNode* steal_from(Worker& me, WorkQueue& victim, int most);
  bool worth_stealing(const Worker& me, WorkQueue& victim) const noexcept;
  template <class Visit>
  bool any_queue(Visit visit) const;
  static void take_pace(Worker& me, std::uint64_t ticks) noexcept;
  void end_batch(Worker& me);
  bool help_job(Worker& me);
  bool new_job(const Worker& me) const noexcept;
  void run_for(Worker& me, TaskNode* task);
  bool search(Worker& me);
  void stop_searching(Worker& me, bool found);
  bool work_in_sight(const Worker& me) noexcept;
  bool anything_listed() const noexcept;
  bool anything_left() const noexcept;
  bool job_in_sight() const noexcept;
  void park(std::unique_lock<std::mutex>& hold, Worker& me);

  bool may_run() const noexcept { return running_ + reserved_ + resuming_ < workers_; }
  int threads() const noexcept { return threads_.load(std::memory_order_acquire); }

  Core& core_;
  const int workers_;
  const std::string thread_name_;
  const std::vector<int> cores_;
  const bool chaos_;  // each worker dawdles and strays, by a seed of its own
  const std::uint64_t chaos_seed_;
  std::array<List, k_classes> lists_;
  std::array<List, k_classes> raised_;  // tasks that became more urgent, which lie somewhere else too
  std::array<Counters, k_slots> counters_;
  std::array<std::unique_ptr<Worker>, k_max_threads> all_;
  std::atomic<int> threads_{0};
  /// Queues of user threads that push, by thread slot; made at the first push, kept.
  std::array<std::atomic<WorkQueue*>, k_slots> outside_{};
  std::atomic<int> outside_count_{0};

  alignas(64) std::atomic<int> searching_{0};  // workers that look for work
  std::atomic<int> sleepers_{0};               // parked, or not made yet
  std::atomic<int> attention_{0};              // > 0: workers come to the mutex between two tasks
  std::atomic<int> job_count_{0};
  std::atomic<std::uint32_t> jobs_begun_{0};         // changed under the mutex
  std::atomic<bool> watched_{false};                 // a parked worker looks by itself every millisecond
  std::atomic<std::uint64_t> pace_{k_pace_unknown};  // clock ticks that a body took lately

  alignas(64) std::mutex mutex_;
  std::condition_variable wake_;      // parked workers
  std::condition_variable rested_;    // who waits for others to stop running
  std::condition_variable job_done_;  // callers of parallel()
  Job* jobs_ = nullptr;
  Worker* attached_ = nullptr;   // users' threads
  std::atomic<int> running_{0};  // permits held; changed under the mutex
  int reserved_ = 0;             // permits lent to a library's team
  int resuming_ = 0;             // bodies that were blocked and want a permit back
  int resting_waiters_ = 0;
  int blocked_ = 0;
  int parked_ = 0;
  std::atomic<int> run_ahead_{0};  // tasks since the last sweep
  int wake_tokens_ = 0;            // workers woken that have not come yet
  bool stopping_ = false;
  bool told_of_shortage_ = false;
  std::atomic<bool> short_of_threads_{false};  // one that was wanted could not be had
};

}  // namespace sluice::detail
