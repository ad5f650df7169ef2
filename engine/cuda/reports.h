#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include <sluice/engine/cuda/logical_stream.h>
#include <sluice/engine/detail/late_failures.h>
#include <sluice/engine/queue.h>
#include <sluice/engine/task_name.h>

namespace sluice::detail {

class Core;

/// What kernels report of bad data: a task that asks gets an error word of its own. Before the host takes a position
/// for passed, look() reads the words; what it finds is a late failure of the task that was given the word, and of all
/// tasks issued since that read what it wrote: those have run on values that are defined, but not the program's. For
/// them GPU tasks are noted while any word is given out, and no longer. Owned by StreamPolicy; for any thread.
class Reports {
 public:
  /// Who reports.
  struct Asker {
    Position at;
    const char* name = "";
    SourceLocation site = {};
    std::uint64_t push_number = 0;
    LateFailures::Uses uses;
  };
  /// An error word and what keeps it from others.
  struct Word {
    ErrorWord* word = nullptr;
    int askers = 0;
    bool kept = false;
    bool handed_over = false;
    // Of a region's task: which one it is, and the word of the next one that reports.
    bool of_region = false;
    TaskName task = {};
    SourceLocation site = {};
    Word* next = nullptr;
  };

  /// Throws std::bad_alloc.
  Reports(Core& core, LogicalStreamTable& table) : core_(core), table_(table) {}
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;
  ~Reports();

  /// Some words, while nothing is being captured. Throws CudaError.
  void make_first();

  // -- For those who issue -------------------------------------------------------------------------------------------
  /// The word of the task at that place; the same one if it asks again. Throws CudaError.
  ErrorWord* word_for(Asker asker);
  /// True if something must be done for a task that is issued now.
  bool concerns_issue() const noexcept { return any() || !core_late().none(); }
  /// Notes a task that has been issued, before it is finished, or says of which input it has failed.
  void follow(const TaskNode& task, Position at, FailureRef& failure) noexcept;
  /// Nobody has looked for long: relieve() asks the driver.
  bool is_crowded() const noexcept { return crowded_.load(std::memory_order_relaxed); }
  void relieve() noexcept;

  // -- For what is launched again and again --------------------------------------------------------------------------
  /// A word for a task of a region, behind those that `words` starts with, or the first of them. Throws CudaError.
  ErrorWord* keep(Word*& words, const TaskName& task, SourceLocation site);
  /// The launch at that place reports to kept words, of which this is the first. What is reported concerns all launches
  /// that may have done so, and blames the first of their tasks that reports.
  void use(Word& words, Asker asker);
  /// From now on who keeps them launches by himself, reads and clears them: nobody else does.
  void hand_over(Word& words) noexcept;
  void give_back(Word& words) noexcept;
  /// Of words that were handed over: did kernels report there? Once.
  static bool take_report(Word& words) noexcept;

  // -- For who waits -------------------------------------------------------------------------------------------------
  bool any() const noexcept { return any_.load(std::memory_order_acquire); }
  /// The GPU has passed `sequence` of that stream: to be called before others are told.
  void look(const LogicalStream& stream, std::uint64_t sequence) noexcept;

 private:
  static constexpr std::size_t k_chunk = 256;  // words
  static constexpr std::size_t k_crowd = 1024;

  struct Asked {
    Asker who;
    Word* word;
    std::uint64_t logged_before;  // its successors come later
    bool published = false;
    bool over = false;
  };
  struct Issued {
    Position at;
    LateFailures::Uses uses;
    bool failed = false;
  };

  const LateFailures& core_late() const noexcept;
  void grow();
  Word& take();
  void note(Asker&& asker, Word& word);
  void release(Word& word) noexcept;
  void publish(Asked& asked, const Word& reported) noexcept;
  void clear_kept() noexcept;
  void forget_log() noexcept;
  bool passes(Position place) noexcept;
  void judge_crowd() noexcept;

  Core& core_;
  LogicalStreamTable& table_;
  std::mutex mutex_;
  std::vector<void*> chunks_;
  std::deque<Word> words_;
  std::vector<Word*> free_;    // has room for all
  std::vector<Asked> asked_;   // in the order of issue
  std::deque<Issued> issued_;  // since the oldest of them
  std::uint64_t issued_begin_ = 0;
  std::size_t crowd_ = k_crowd;
  std::atomic<bool> any_{false};
  std::atomic<bool> crowded_{false};
};

}  // namespace sluice::detail
