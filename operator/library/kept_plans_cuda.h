#pragma once

#include <string>

#include <sluice/operator/library/autotune.h>
#include <sluice/operator/library/cudnn_cuda.h>

// Plans with kernels that cuDNN compiles when it makes them (a quarter of a second each), kept on disk from process to
// process as cuDNN writes them: files `plans` in the folder that autotune.h names.
namespace sluice::detail {

/// All that such a plan depends on beside `problem`, which says the operations and how they make up a graph: cuDNN,
/// GPU, limits, how it is chosen.
std::string kept_plan_key(const std::string& problem, CudnnLimits limits, Autotune how);
/// Gives `into` its plan. False, and nothing has changed, where none is kept or cuDNN does not take it.
bool find_kept_plan(const CudnnMaker& maker, const std::string& key, CudnnPlan& into);
/// Does nothing where cuDNN writes no such plan: its kernels are in the library then.
void keep_plan(const std::string& key, const CudnnPlan& made) noexcept;

}  // namespace sluice::detail
