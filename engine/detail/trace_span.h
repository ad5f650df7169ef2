#pragma once

#include <memory>
#include <string>

#include <sluice/engine/engine.h>

namespace sluice::detail {

struct TraceRecord;

/// A stretch of time in the engine's trace beside those of tasks: it is none, so that nobody waits for it.
class TraceSpan {
 public:
  /// Null if the engine is not traced.
  static std::unique_ptr<TraceSpan> begin(Engine& engine, const std::string& name, SourceLocation site) noexcept;
  explicit TraceSpan(Var engine) noexcept;
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  /// On any thread: there it ends.
  ~TraceSpan();

 private:
  const Var of_engine_;  // keeps what records
  TraceRecord* record_ = nullptr;
};

}  // namespace sluice::detail
