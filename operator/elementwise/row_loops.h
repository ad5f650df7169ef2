#pragma once

#include <span>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/operator/elementwise/run.h>

// The loops of rows without their kernels, for who runs several of them on the same elements.
namespace sluice::detail {

/// What a call of a row reads; of the arrays the types count.
struct RowInputs {
  std::span<const TensorView> inputs;
  const Attributes& attributes;
};

/// One call as its loop takes it: operands of their compute types, in order; views are those of the inputs.
struct RowLoop {
  PointwiseLoop loop = nullptr;  // null: the row does not take the type
  boost::container::small_vector<PointwiseOperand, 5> operands = {};
  DType dtype = DType::float32;  // of numbers among the operands
};

template <std::size_t N>
RowLoop row_loop(PointwiseLoop loop, const std::array<PointwiseOperand, N>& operands, DType dtype) {
  return {loop, {operands.begin(), operands.end()}, dtype};
}

struct RowOperator {
  const Operator* op;
  RowLoop (*loop_of)(const RowInputs& call);
};

void list_unary_rows(std::vector<RowOperator>& all);
void list_binary_rows(std::vector<RowOperator>& all);
void list_where_rows(std::vector<RowOperator>& all);

}  // namespace sluice::detail
