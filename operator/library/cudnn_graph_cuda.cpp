#include <sluice/operator/library/cudnn_graph_cuda.h>

namespace sluice::detail {
namespace {

// The names of arrays that are nowhere in memory.
constexpr std::int64_t k_first_between = 1000;

CudnnDescriptor host_number(std::int64_t id, int axes) {
  const std::vector<std::int64_t> ones(static_cast<std::size_t>(axes), 1);
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{alignof(float)});
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, ones);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, ones);
  tensor.set_flag(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  tensor.finalize("cudnnBackendFinalize (number)");
  return tensor;
}

}  // namespace

CudnnGraph::Part CudnnGraph::keep(CudnnDescriptor part, const Shape& extents) {
  parts.push_back(std::move(part));
  extents_.push_back(extents);
  return parts.size() - 1;
}

void CudnnGraph::add(CudnnDescriptor operation) {
  operations.push_back(std::move(operation));
  refused_ = refused_ || operations.back().try_finalize() != CUDNN_STATUS_SUCCESS;
}

CudnnGraph::Part CudnnGraph::array(
    std::int64_t id, DType dtype, const Shape& extents, const Shape& strides, std::int64_t alignment) {
  return keep(
      cudnn_tensor(id, dtype, {extents.begin(), extents.end()}, {strides.begin(), strides.end()}, alignment), extents);
}

CudnnGraph::Part CudnnGraph::number(std::int64_t id, int axes) {
  return keep(host_number(id, axes));
}

CudnnGraph::Part CudnnGraph::between(const Shape& extents, cudnnDataType_t type, const Shape& given) {
  const Shape strides = given.empty() ? contiguous_strides(extents) : given;
  const auto id = k_first_between + static_cast<std::int64_t>(parts.size());
  return keep(cudnn_between(id, type, {extents.begin(), extents.end()}, {strides.begin(), strides.end()}), extents);
}

void CudnnGraph::pointwise(
    cudnnPointwiseMode_t mode,
    Part x,
    std::optional<Part> b,
    std::optional<Part> chosen_by,
    Part y,
    cudnnDataType_t computes_in,
    std::optional<int> axis) {
  CudnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, computes_in);
  if (axis)
    how.set(CUDNN_ATTR_POINTWISE_AXIS, std::int64_t{*axis});
  refused_ = refused_ || how.try_finalize() != CUDNN_STATUS_SUCCESS;
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, parts[x]);
  if (b)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, parts[*b]);
  if (chosen_by)
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, parts[*chosen_by]);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, parts[y]);
  keep(std::move(how));
  add(std::move(operation));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Part x, std::optional<Part> b, Part y) {
  pointwise(mode, x, b, {}, y, CUDNN_DATA_FLOAT, {});
}

CudnnGraph::Part CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Part x, std::optional<Part> b) {
  const Part y = between(extents_[x]);
  pointwise(mode, x, b, y);
  return y;
}

CudnnGraph::Part CudnnGraph::places(Part x, int axis) {
  const Part y = between(extents_[x], CUDNN_DATA_INT32);
  pointwise(CUDNN_POINTWISE_GEN_INDEX, x, {}, {}, y, CUDNN_DATA_FLOAT, axis);
  return y;
}

CudnnGraph::Part CudnnGraph::where_not_before(Part a, Part b, Part x, Part other) {
  const Part chosen = between(extents_[x], CUDNN_DATA_BOOLEAN), y = between(extents_[x]);
  pointwise(CUDNN_POINTWISE_CMP_GE, a, b, {}, chosen, CUDNN_DATA_BOOLEAN, {});
  pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, other, chosen, y, CUDNN_DATA_FLOAT, {});
  return y;
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t how, Part x, Part y) {
  CudnnDescriptor reduction(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  reduction.set(CUDNN_ATTR_REDUCTION_OPERATOR, how);
  reduction.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  refused_ = refused_ || reduction.try_finalize() != CUDNN_STATUS_SUCCESS;
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, parts[x]);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, parts[y]);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
  keep(std::move(reduction));
  add(std::move(operation));
}

void CudnnGraph::product(Part a, Part b, Part c) {
  CudnnDescriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  refused_ = refused_ || how.try_finalize() != CUDNN_STATUS_SUCCESS;
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, parts[a]);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, parts[b]);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, parts[c]);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  keep(std::move(how));
  add(std::move(operation));
}

void CudnnGraph::reshape(Part x, Part y) {
  CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, parts[x]);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, parts[y]);
  add(std::move(operation));
}

}  // namespace sluice::detail
