#pragma once

#include <sluice/operator/sink.h>

namespace sluice::detail {

/// Who takes the calls of this thread; null: they run. Looked at by every call: reached without the loader.
extern constinit thread_local CallSink* t_sink [[gnu::tls_model("initial-exec")]];

/// The call's results from `sink`, checked against what inference says; the destinations where there are some.
Arrays offer(CallSink& sink, const OperatorCall& call);

/// How an array lies in its memory.
Geometry geometry_of(const NDArray& array);

}  // namespace sluice::detail
