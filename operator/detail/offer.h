#pragma once

#include <sluice/operator/sink.h>

namespace sluice::detail {

/// The sink that this thread's innermost scope names. Looked at by every call: reached without the loader.
extern constinit thread_local CallSink* t_sink [[gnu::tls_model("initial-exec")]];
/// It, unless a body runs here that the scope was not opened in.
CallSink* sink_of_this_body() noexcept;
/// Who takes the calls that are made here; null: they run.
inline CallSink* sink_here() noexcept {
  return t_sink == nullptr ? nullptr : sink_of_this_body();
}

/// The call's results from `sink`, checked against what inference says; the destinations where there are some.
Arrays offer(CallSink& sink, const OperatorCall& call);

/// How an array lies in its memory.
Geometry geometry_of(const NDArray& array);

}  // namespace sluice::detail
