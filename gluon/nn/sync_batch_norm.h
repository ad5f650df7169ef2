#pragma once

#include <cstddef>
#include <span>

#include <sluice/gluon/nn/batch_norm.h>

namespace sluice::gluon::nn {

/// BatchNorm of a batch whose parts lie on several devices (Gluon's nn.SyncBatchNorm on one machine). One layer, with
/// one set of parameters wherever they are, is called with the parts of all replicas and gives one result a part, on
/// the part's device:
///
///     nn::SyncBatchNorm norm(2);
///     const Arrays y = norm({conv0(x0), conv1(x1)});   // x0 and x1 on devices of their own
///
/// In training all are normalised by the mean and variance of all their elements, of parts of different sizes too;
/// results, gradients and running statistics are those of BatchNorm of the parts as one batch, up to rounding. Between
/// devices go vectors of channels alone. Only all parts say what any result is, so that the layer takes them in one
/// call: nobody waits for a replica that does not come, and an error of one part is the error of all results. So are
/// gradients of all: backward() of the sum of the losses, or autograd::backward() of several heads. Otherwise, and with
/// use_global_stats, it takes any number of parts, each of which is BatchNorm's business alone. Hybridized
/// blocks may hold it.
class SLUICE_API SyncBatchNorm : public BatchNorm {
 public:
  /// Throws ValueError for num_devices < 1 and as BatchNorm does.
  explicit SyncBatchNorm(std::size_t num_devices, BatchNormOptions options = {});

 protected:
  /// Parts of one type with the same channels; empty ones count for nothing. Throws ValueError for another number of
  /// parts than num_devices, ShapeError and DTypeError for parts that do not go together, and as batch_norm().
  Arrays forward_all(std::span<const NDArray> parts) const override;

 private:
  struct Moments;
  void check(std::span<const NDArray> parts) const;
  Moments moments_of(std::span<const NDArray> parts) const;
  NDArray normalised(const NDArray& part, const Moments& moments) const;
  NDArray by_itself(const NDArray& part) const;
  void follow(const Moments& batch) const;

  std::size_t num_devices_;
};

}  // namespace sluice::gluon::nn
