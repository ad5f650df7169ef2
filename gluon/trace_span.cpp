#include <utility>

#include <sluice/gluon/detail/trace_span.h>

namespace sluice::gluon::detail {

std::shared_ptr<TraceSpan> TraceSpan::begin(Engine& engine, const std::string& name, SourceLocation site) noexcept {
  if (!engine.tracing())
    return nullptr;
  try {
    auto span = std::make_shared<TraceSpan>();
    engine.push(
        {.name = name}, [span](Queue queue) { span->begun(queue.complete_later()); }, site);
    return span;
  } catch (...) {  // a trace is worth no request
    return nullptr;
  }
}

// The end may come first.
void TraceSpan::begun(TaskCompletion completion) {
  {
    const std::lock_guard hold(mutex_);
    if (!ended_) {
      completion_ = std::move(completion);
      return;
    }
  }
  completion.complete();
}

void TraceSpan::end() noexcept {
  TaskCompletion completion;
  {
    const std::lock_guard hold(mutex_);
    ended_ = true;
    completion = std::move(completion_);
  }
  try {
    if (completion)
      completion.complete();
  } catch (...) {  // dropped: the task has failed, which only a trace tells
  }
}

}  // namespace sluice::gluon::detail
