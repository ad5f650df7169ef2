#pragma once

#include <cstdint>

#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Attributes of pooling and of its gradients; pairs are (height, width), `pad` may be (top, left, bottom, right).
struct PoolAttributes {
  Shape kernel{2, 2}, stride, pad{0, 0};
  bool ceil_mode = false;
  bool count_include_pad = true;
  bool global = false;

  template <class V>
  void visit(V&& v) {
    v.field("kernel", kernel);
    v.field("stride", stride);
    v.field("pad", pad);
    v.field("ceil_mode", ceil_mode);
    v.field("count_include_pad", count_include_pad);
    v.field("global", global);
  }
};

/// Every extent of one pooling; index 0 is height, 1 is width. A kernel parameter on a GPU.
struct PoolGeometry {
  std::int64_t planes = 0;  // images x channels
  std::int64_t in[2] = {}, out[2] = {}, kernel[2] = {}, stride[2] = {};
  std::int64_t pad[2] = {}, pad_end[2] = {};  // before the image and behind it
  bool count_include_pad = true;
};

/// For an input of shape (N, C, H, W). Throws ShapeError and ValueError naming `op` and the values.
PoolGeometry pool_geometry(const char* op, const Shape& x, const PoolAttributes& attributes);

/// (N, C, H, W) -> (N, C, OH, OW).
Shape pooled_shape(const Shape& x, const PoolGeometry& g);

// Kernels of the operators.
// x -> y, where in its plane each maximum is (int32)
void max_pool2d_cpu(const KernelCall& call);
// dy, places of the maxima, x (shape alone) -> dx
void max_pool2d_backward_cpu(const KernelCall& call);
// x, places -> y
void max_pool2d_gather_cpu(const KernelCall& call);
// x -> y
void avg_pool2d_cpu(const KernelCall& call);
// dy, x (shape alone) -> dx
void avg_pool2d_backward_cpu(const KernelCall& call);
void max_pool2d_gpu(const KernelCall& call);
void max_pool2d_backward_gpu(const KernelCall& call);
void max_pool2d_gather_gpu(const KernelCall& call);
void avg_pool2d_gpu(const KernelCall& call);
void avg_pool2d_backward_gpu(const KernelCall& call);

}  // namespace sluice::detail
