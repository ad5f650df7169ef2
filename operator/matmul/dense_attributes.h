#pragma once

#include <sluice/operator/operator.h>

namespace sluice::detail {

struct DenseAttributes {
  bool flatten = true;
  bool relu = false;

  template <class V>
  void visit(V&& v) {
    v.field("flatten", flatten);
    v.field("relu", relu);
  }
};

struct DenseWeightsAttributes {
  bool bias = true;  // a second output: the gradient of the bias

  template <class V>
  void visit(V&& v) {
    v.field("bias", bias);
  }
};

}  // namespace sluice::detail
