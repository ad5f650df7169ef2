#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/trace_span.h>
#include <sluice/engine/detail/tracer.h>

namespace sluice::detail {

std::unique_ptr<TraceSpan> TraceSpan::begin(Engine& engine, const std::string& name, SourceLocation site) noexcept {
  Tracer* const tracer = EngineAccess::core(engine).tracing();
  if (tracer == nullptr)
    return nullptr;
  try {
    auto made = std::make_unique<TraceSpan>(engine.new_var());
    made->record_ = tracer->begin_span(TaskName(name), site);
    return made;
  } catch (...) {  // a trace is worth no request
    return nullptr;
  }
}

TraceSpan::TraceSpan(Var engine) noexcept : of_engine_(std::move(engine)) {}

TraceSpan::~TraceSpan() {
  if (record_ != nullptr)
    Tracer::end_span(*record_);
}

}  // namespace sluice::detail
