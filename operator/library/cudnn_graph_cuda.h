#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sluice/ndarray/shape.h>
#include <sluice/operator/library/cudnn_cuda.h>

namespace sluice::detail {

/// Operations that are to become one plan of cuDNN's, and the arrays between which they stand. Numbers that no array
/// in memory holds are float32 unless something else is said. An operation that cuDNN refuses is no error: the graph
/// is refused() then, and what is added to it does not matter.
class CudnnGraph {
 public:
  /// Names an array of the graph.
  using Part = std::size_t;

  /// In memory, where the plan's run says. Alignment in bytes.
  Part array(std::int64_t id, DType dtype, const Shape& extents, const Shape& strides, std::int64_t alignment);
  /// A float of the host's, of so many axes of extent 1, read when the plan is run.
  Part number(std::int64_t id, int axes);
  /// Nowhere in memory; row by row unless strides are given.
  Part between(const Shape& extents, cudnnDataType_t type = CUDNN_DATA_FLOAT, const Shape& strides = {});

  /// y = mode(x, b).
  void pointwise(cudnnPointwiseMode_t mode, Part x, std::optional<Part> b, Part y);
  /// The same into a new array like x.
  Part pointwise(cudnnPointwiseMode_t mode, Part x, std::optional<Part> b = {});
  /// Like x, of int32: where each element stands along `axis`.
  Part places(Part x, int axis);
  /// Like x, x where `chosen`, a comparison of places a >= b, is true, else `other`.
  Part where_not_before(Part a, Part b, Part x, Part other);
  void reduce(cudnnReduceTensorOp_t how, Part x, Part y);
  /// c = a b, matrices in the last two axes; where b's heads are fewer, groups of a's share them.
  void product(Part a, Part b, Part c);
  /// y is x as its strides say.
  void reshape(Part x, Part y);

  bool refused() const noexcept { return refused_; }
  std::vector<CudnnDescriptor> parts, operations;

 private:
  Part keep(CudnnDescriptor part, const Shape& extents = {});
  void add(CudnnDescriptor operation);
  void pointwise(
      cudnnPointwiseMode_t mode,
      Part x,
      std::optional<Part> b,
      std::optional<Part> chosen_by,
      Part y,
      cudnnDataType_t computes_in,
      std::optional<int> axis);

  std::vector<Shape> extents_;  // of parts
  bool refused_ = false;
};

}  // namespace sluice::detail
