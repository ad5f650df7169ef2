#pragma once

#include <span>

#include <sluice/operator/reduce/form.h>

namespace sluice::detail {

/// Terms of a reduction on a GPU that lie in no memory: there are kernels that make them where those of
/// reduce_kernels.cuh read them, for elements as they would lie row by row.
class MadeOnGpu {
 public:
  virtual ~MadeOnGpu() = default;
  /// Enqueues the kernel of that form. `own`: its arguments but for `x`, in order.
  virtual void launch(const ReduceForm& form, std::span<void* const> own) const = 0;
};

}  // namespace sluice::detail
