#pragma once

#include <cstdint>

#include <sluice/operator/floating.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

/// Losses of logits of type T, or their gradients: of that type, or of half logits float32 (CrossEntropyAttributes).
template <class T>
class LossValues {
 public:
  explicit LossValues(const TensorView& values) : data_(values.data), wide_(values.dtype != dtype_of<T>) {}

  SLUICE_HD Compute<T> get(std::int64_t row) const {
    return wide_ ? static_cast<Compute<T>>(static_cast<const float*>(data_)[row])
                 : static_cast<Compute<T>>(static_cast<const T*>(data_)[row]);
  }
  SLUICE_HD void put(std::int64_t row, Compute<T> value) const {
    if (wide_)
      static_cast<float*>(data_)[row] = static_cast<float>(value);
    else
      static_cast<T*>(data_)[row] = static_cast<T>(value);
  }

 private:
  void* data_;
  bool wide_;
};

}  // namespace sluice::detail
