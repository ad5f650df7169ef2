// Products of operands of two types: promoted by the rule of elementwise operators, gradients in each operand's own
// type.
#include <algorithm>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

constexpr DType k_types[] = {
    bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64, int16, uint16, uint32, uint64};

// Small whole numbers: exact in every type.
NDArray some(const Shape& shape, std::int64_t first, DType dtype, Device device) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.size(); ++i)
    values.push_back(static_cast<float>((first + i * 3) % 5));
  return array(values, shape, device).astype(dtype);
}

struct Run {
  NDArray y;
  std::vector<NDArray> grads;  // undefined for operands that have none
};

// The product, and the gradients where operands are floating.
template <class Product>
Run run(const Product& product, std::vector<NDArray> operands) {
  for (NDArray& operand : operands) {
    if (is_floating(operand.dtype()))
      operand.attach_grad();
  }
  Run made;
  {
    const autograd::RecordScope record;
    made.y = product(operands);
  }
  const auto floats = [](const NDArray& operand) { return is_floating(operand.dtype()); };
  if (std::none_of(operands.begin(), operands.end(), floats))  // though uint64 with int8 gives float64
    return made;
  made.y.backward();
  for (const NDArray& operand : operands)
    made.grads.push_back(is_floating(operand.dtype()) ? operand.grad() : NDArray());
  return made;
}

template <class Product>
void check_pair(const Product& product, const std::vector<NDArray>& operands, DType common) {
  const Run mixed = run(product, operands);
  std::vector<NDArray> cast;
  for (const NDArray& operand : operands)
    cast.push_back(operand.astype(common).copy());
  const Run same = run(product, cast);
  REQUIRE(mixed.y.dtype() == common);
  CHECK(mixed.y.to_vector<double>() == same.y.to_vector<double>());
  for (std::size_t i = 0; i < mixed.grads.size(); ++i) {
    if (!mixed.grads[i].defined())
      continue;
    REQUIRE(mixed.grads[i].dtype() == operands[i].dtype());
    CHECK(mixed.grads[i].to_vector<double>() == same.grads[i].to_vector<double>());
  }
}

void check_all(Device device) {
  const auto matrix_product = [](const std::vector<NDArray>& v) { return matmul(v[0], v[1]); };
  const auto layer = [](const std::vector<NDArray>& v) { return dense(v[0], v[1], v[2]); };
  const auto relu_layer = [](const std::vector<NDArray>& v) {
    return dense(v[0], v[1], v[2], {.flatten = false, .activation = "relu"});
  };
  for (const DType a : k_types) {
    for (const DType b : k_types) {
      CAPTURE(name_of(a), name_of(b));
      const DType common = promote(a, b);
      const NDArray x = some({2, 3}, 1, a, device), y = some({3, 4}, 2, b, device);
      const NDArray weight = some({4, 3}, 3, b, device), bias = some({4}, 0, a, device);
      if (is_floating(common) || is_integer(common))
        check_pair(matrix_product, {x, y}, common);
      else
        CHECK_THROWS_AS(matmul(x, y), DTypeError);
      if (is_floating(common)) {
        check_pair(layer, {x, weight, bias}, common);
        check_pair(relu_layer, {x, weight, bias}, common);
      } else {
        CHECK_THROWS_AS(dense(x, weight, bias), DTypeError);
      }
    }
  }
}

}  // namespace

TEST_CASE("Products promote operands of every pair of types, and gradients come back in their own") {
  check_all(cpu());
}

TEST_CASE("Products on a GPU promote operands of every pair of types", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all(gpu());
}

TEST_CASE("A bias of a third type is promoted with the rest") {
  const NDArray x = some({2, 3}, 1, float16, cpu()), weight = some({4, 3}, 3, int32, cpu());
  const NDArray bias = some({4}, 0, float64, cpu());
  CHECK(dense(x, weight, bias).dtype() == float64);
  CHECK(dense(x, weight, some({4}, 0, bfloat16, cpu())).dtype() == float32);
}
