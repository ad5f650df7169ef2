#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <sluice/engine/completion.h>
#include <sluice/engine/engine.h>

namespace sluice::gluon::detail {

/// A stretch of time in the engine's trace: a task that touches nothing and lasts until end().
class TraceSpan {
 public:
  /// Null if the engine is not traced, or takes no tasks.
  static std::shared_ptr<TraceSpan> begin(Engine& engine, const std::string& name, SourceLocation site) noexcept;
  /// Once, on any thread.
  void end() noexcept;

 private:
  void begun(TaskCompletion completion);

  std::mutex mutex_;
  TaskCompletion completion_;
  bool ended_ = false;
};

}  // namespace sluice::gluon::detail
