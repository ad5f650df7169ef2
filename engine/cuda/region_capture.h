#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <sluice/engine/cuda/early_starts.h>
#include <sluice/engine/cuda/graph_capture.h>
#include <sluice/engine/cuda/reports.h>
#include <sluice/engine/detail/region.h>
#include <sluice/engine/detail/stream.h>

namespace sluice::detail {

/// A region's own streams for captures, and the library handles that are bound to them. Tasks that may run side by side
/// have different tables of handles: a handle may own memory that its calls use. Sides of branches are captured on
/// streams of their own, one for each depth, and a handle enqueues on the stream that it was made for: so each depth
/// has handles of its own in a table.
struct RegionStream {
  static constexpr std::size_t k_most_tables = 32;
  using Handles = std::array<std::shared_ptr<void>, k_max_slots>;
  using Table = std::vector<std::unique_ptr<Handles>>;  // by depth

  GraphCapture capture;
  std::vector<std::unique_ptr<GraphCapture>> of_sides;  // of a branch, of a branch in its side, ..
  std::vector<Table> tables;                            // destroyed before the streams
};

/// Where the kernels of a region's tasks report bad data, in all its runs: each task has a word of its own, so that an
/// error names the task and its line. For bodies of the device's tasks only.
class RegionWords {
 public:
  /// `tasks` must outlive this.
  RegionWords(Reports& reports, const std::vector<RegionTask>& tasks) : reports_(reports), tasks_(tasks) {}
  RegionWords(const RegionWords&) = delete;
  RegionWords& operator=(const RegionWords&) = delete;
  ~RegionWords();

  /// Of the task of that number. Throws CudaError.
  ErrorWord* of(std::size_t task);
  /// What this thread's task launches now may report. Throws CudaError.
  void use(const Queue& queue);
  /// Null if no task has asked.
  Reports::Word* all() const noexcept { return all_; }
  Reports& reports() const noexcept { return reports_; }

 private:
  Reports& reports_;
  const std::vector<RegionTask>& tasks_;
  std::vector<ErrorWord*> words_;  // by task
  Reports::Word* all_ = nullptr;
};

/// A capture under way: the stream of the bodies that are being captured. Ended with the object.
class RegionCapture final : public Stream, public RegionSteps {
 public:
  /// Begins on `where`; `outer` is the Queue of the region's own task. What bodies wait for, and the launch then has
  /// to, is added to `outside`; they report to `words`. Throws CudaError.
  RegionCapture(RegionStream& where, const Queue& outer, PositionSet& outside, RegionWords& words);
  RegionCapture(const RegionCapture&) = delete;
  RegionCapture& operator=(const RegionCapture&) = delete;
  ~RegionCapture() override;

  /// What is enqueued next is a task's: in its side behind what stands there already, otherwise after those steps, and
  /// nothing else. Throws CudaError.
  void begin_step(const std::vector<RegionTask>& tasks, const RegionTask& task);
  /// The step under way chooses a side: what is enqueued for it sets the condition. Throws CudaError.
  void begin_choice(RegionChoice& choice);
  /// The branch is there. Throws CudaError.
  void end_choice(const RegionChoice& choice);
  /// False if something has spoilt the capture.
  bool end_step();
  bool intact() const noexcept { return !failed_ && where_.capture.intact() && here().intact(); }
  /// Null if it was spoilt.
  GraphHandle close() noexcept;

  bool used_slots() const noexcept { return used_slots_; }

  void* native() override { return here().stream(); }
  Position current_position() override { return outer_.position(); }
  void wait_for(const PositionSet& positions) override;
  ErrorWord* error_word() override;
  std::shared_ptr<void>& slot(std::size_t id) noexcept override;
  bool follow(std::size_t step) noexcept override;

 private:
  /// Of each table: the step, from 1, that used it last among those that something comes after.
  using TableUses = std::array<std::uint32_t, RegionStream::k_most_tables>;
  struct Step {
    CaptureEnds ends;
    TableUses uses;
    int table = -1;
    std::array<cudaGraph_t, 2> sides = {};  // of one that chooses
  };

  GraphCapture& here() const noexcept { return open_.empty() ? where_.capture : *where_.of_sides[open_.size() - 1]; }
  void go_to(const std::vector<RegionSide>& sides);
  void leave_sides(std::size_t depth) noexcept;
  void begin_in_side(const Step& branch) noexcept;
  void merge(const TableUses& other) noexcept;
  std::size_t choose_table();
  void take_table();
  RegionStream::Handles& handles_here();

  RegionStream& where_;
  const EarlyStarts early_starts_;
  const Queue outer_;
  PositionSet& outside_;
  RegionWords& words_;
  bool failed_ = false;
  bool used_slots_ = false;
  std::vector<Step> steps_;
  TableUses uses_{};  // of the step under way
  TableUses latest_{};
  int table_ = -1;  // of the step under way
  std::array<cudaGraph_t, 2> sides_{};
  std::vector<RegionSide> open_;   // the side that is captured, and those around it
  RegionStream::Handles spare_{};  // where no table can be had
};

/// The stream of a region's own task while it calls its tasks one by one: each reports for itself.
class RegionStepStream final : public Stream {
 public:
  RegionStepStream(const Queue& outer, Stream& stream, RegionWords& words) noexcept
      : outer_(outer), stream_(&stream), words_(words) {}
  void begin_step(std::size_t task) noexcept { task_ = task; }

  void* native() override { return stream_->native(); }
  Position current_position() override { return stream_->current_position(); }
  void wait_for(const PositionSet& positions) override { stream_->wait_for(positions); }
  ErrorWord* error_word() override;
  std::shared_ptr<void>& slot(std::size_t id) override { return stream_->slot(id); }

 private:
  const Queue outer_;
  Stream* const stream_;
  RegionWords& words_;
  std::size_t task_ = 0;
  bool noted_ = false;
};

}  // namespace sluice::detail
