#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include <sluice/engine/queue.h>
#include <sluice/ndarray/dtype.h>

// One optimizer step as the kernels see it: a table of parameters, and the rule that all of them follow.
namespace sluice::detail {

/// One parameter. States that the rule does not use are null.
struct UpdatePiece {
  void* weight = nullptr;
  const void* grad = nullptr;
  void* state[2] = {nullptr, nullptr};
  std::int64_t size = 0;
  double learning_rate = 0;
  double weight_decay = 0;
  DType dtype = DType::float32;
  std::int64_t number = 0;  // which parameter it is
};

/// The numbers that all parameters share, in the type that the step computes in.
template <class C>
struct UpdateRule {
  bool adam = false;
  C beta1 = 0;  // SGD: the momentum
  C beta2 = 0;
  C epsilon = 0;
  C rescale = 1;
  C clip = -1;
  C rest1 = C{1} - beta1;  // from the numbers as they were given: 1 - 0.999f has lost half its digits
  C rest2 = C{1} - beta2;

  template <class D>
  UpdateRule<D> as() const noexcept {
    return {
        adam,
        static_cast<D>(beta1),
        static_cast<D>(beta2),
        static_cast<D>(epsilon),
        static_cast<D>(rescale),
        static_cast<D>(clip),
        static_cast<D>(rest1),
        static_cast<D>(rest2)};
  }

  /// The new weight; states change in place. One arithmetic for CPU and GPU.
  SLUICE_HD C step(C weight, C grad, C* first, C* second, C learning_rate, C weight_decay) const noexcept {
    C g = grad * rescale;
    if (clip >= C{0})
      g = g > clip ? clip : g < -clip ? -clip : g;
    g += weight_decay * weight;
    if (adam) {
      *first = beta1 * *first + rest1 * g;
      *second = beta2 * *second + rest2 * g * g;
      return weight - learning_rate * *first / (std::sqrt(*second) + epsilon);
    }
    if (first == nullptr)
      return weight - learning_rate * g;
    *first = beta1 * *first - learning_rate * g;
    return weight + *first;
  }
};

/// What one task does.
struct UpdateWork {
  std::vector<UpdatePiece> pieces;
  UpdateRule<double> rule;
  const double* numbers = nullptr;  // set: where learning rates, by parameter, and then rescale are read
  std::int64_t count = 0;           // of parameters
};

void update_cpu(const UpdateWork& work);
void update_gpu(const UpdateWork& work, const Queue& queue);

}  // namespace sluice::detail
