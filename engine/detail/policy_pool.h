#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include <boost/thread/thread.hpp>

#include <sluice/engine/detail/policy.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

/// CPU tasks on worker threads. Threads are made when there is work for them. At most `workers` of them run at any
/// time: a task inside parallel_for, a helper of it, and each thread of a library's team count as one.
class PoolPolicy final : public CpuPolicy {
 public:
  PoolPolicy(Core& core, int workers, std::string thread_name);
  ~PoolPolicy() override;

  void submit(TaskNode* task) override;
  void parallel(std::int64_t n, std::int64_t grain, void* context, RangeFunction run) override;
  void before_block() override;
  void after_block() override;
  void stop() override;
  int workers() const noexcept override { return workers_; }

 private:
  /// One parallel_for, on its caller's stack. Ranges are handed out by a counter.
  struct Job {
    Core* core = nullptr;
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
  struct List {
    TaskNode* head = nullptr;
    TaskNode* tail = nullptr;
  };

  void work(int index);
  void look_for_work(std::unique_lock<std::mutex>& hold);
  TaskNode* pick();
  Job* pick_job();
  void wake(int count);  // with the mutex held
  bool may_run() const noexcept { return running_ + reserved_ + resuming_ < workers_; }
  bool has_work() const noexcept;
  void run(TaskNode* task);
  int reserve_team(int threads);
  void leave(std::unique_lock<std::mutex>& hold);

  Core& core_;
  const int workers_;
  const std::string thread_name_;

  std::mutex mutex_;
  std::condition_variable wake_;               // idle workers
  std::condition_variable rested_;             // who waits for others to stop running
  std::condition_variable job_done_;           // callers of parallel()
  std::atomic<std::uint32_t> work_signal_{0};  // raised with every submit: what a spinning worker looks at
  std::array<List, 4> ready_;
  std::uint64_t picks_ = 0;
  Job* jobs_ = nullptr;
  int running_ = 0;   // threads that run a body or a range
  int reserved_ = 0;  // cores lent to a library's team
  int idle_ = 0;
  int blocked_ = 0;
  int resuming_ = 0;  // bodies that were blocked and go first
  int waiting_to_run_ = 0;
  bool stopping_ = false;
  std::vector<boost::thread> threads_;
  std::atomic<int> spinners_{0};
};

}  // namespace sluice::detail
