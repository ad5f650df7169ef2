#pragma once

#include <cstdint>

#include <sluice/operator/attention/fused.h>
#include <sluice/operator/library/cudnn_graph_cuda.h>

namespace sluice::detail {

/// The names that arrays have in plans of attention.
struct AttentionId {
  enum : std::int64_t {
    q = 1,
    k,
    v,
    y,
    statistics,
    mask,
    head,
    dq,
    dk,
    dv,
    row_sums,  // of each query, the sum of y times its gradient: scratch
    scale,
    hidden,
    one,  // numbers of the host: the second is what hides a score, -inf
  };
};

/// The pass as a graph.
CudnnGraph attention_graph(const AttentionProblem& problem);

}  // namespace sluice::detail
