#pragma once

#include <memory>
#include <utility>

#include <sluice/engine/export.h>
#include <sluice/gluon/nn/sequential.h>

namespace sluice::gluon::nn {

/// Gives what it is given (Gluon's nn.Identity).
class SLUICE_API Identity : public Block {
 protected:
  NDArray forward(const NDArray& x) const override { return x; }
};

/// What all its blocks give of the same input, one beside the other along `axis` (Gluon's nn.Concatenate, which was
/// HybridConcurrent). Called, it throws ValueError without blocks, ShapeError for results that do not fit.
class SLUICE_API Concurrent : public Sequential {
 public:
  explicit Concurrent(int axis = -1);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  int axis_;
};

/// relu(body(x) + shortcut(x)) or, without relu, the sum alone: `shortcut` is Identity unless given. Children "body"
/// and, where there is one, "shortcut" (He et al., "Deep residual learning", 2016).
class SLUICE_API Residual : public Block {
 public:
  /// Throws ValueError for a body that is null.
  explicit Residual(std::shared_ptr<Block> body, std::shared_ptr<Block> shortcut = {}, bool relu = true);

 protected:
  NDArray forward(const NDArray& x) const override;

 private:
  Child<> body_, shortcut_;
  bool has_shortcut_, relu_;
};

}  // namespace sluice::gluon::nn
