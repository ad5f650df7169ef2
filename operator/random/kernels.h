#pragma once

#include <sluice/operator/operator.h>

// The kernels and constants of this family; the registry lists the constants.
namespace sluice {

extern const Operator k_random_uniform, k_random_normal, k_random_randint, k_random_bernoulli, k_random_permutation;
extern const Operator k_dropout, k_dropout_backward;

namespace detail {

/// What a random array is and its distribution: low and high, mean and deviation, or p and nothing.
template <class Number>
struct RandomAttributes {
  Shape shape;
  DType dtype = DType::float32;
  Device device = cpu();
  Number first = 0;
  Number second = 0;

  template <class V>
  void visit(V&& v) {
    v.field("shape", shape);
    v.field("dtype", dtype);
    v.field("device", device);
    v.field("first", first);
    v.field("second", second);
  }
};
using RealAttributes = RandomAttributes<double>;
using IntegerAttributes = RandomAttributes<std::int64_t>;

struct DropoutAttributes {
  double rate = 0.5;

  template <class V>
  void visit(V&& v) {
    v.field("rate", rate);
  }
};

/// Of the gradient: the same mask again, from the counters that forward used.
struct DropoutBackwardAttributes {
  double rate = 0.5;
  std::int64_t seed = 0;
  std::int64_t offset = 0;

  template <class V>
  void visit(V&& v) {
    v.field("rate", rate);
    v.field("seed", seed);
    v.field("offset", offset);
  }
};

/// Scales or drops: the same for forward and backward.
struct DropoutMask {
  std::uint64_t threshold = 0;  // a word below it drops its element
  double scale = 1;
  RandomBlock random;
};
DropoutMask dropout_mask(double rate, const RandomBlock& random);
DropoutMask dropout_mask(const DropoutBackwardAttributes& attributes);

void random_uniform_cpu(const KernelCall& call);
void random_uniform_gpu(const KernelCall& call);
void random_normal_cpu(const KernelCall& call);
void random_normal_gpu(const KernelCall& call);
void random_randint_cpu(const KernelCall& call);
void random_randint_gpu(const KernelCall& call);
void random_bernoulli_cpu(const KernelCall& call);
void random_bernoulli_gpu(const KernelCall& call);
void random_permutation_cpu(const KernelCall& call);

void dropout_cpu(const KernelCall& call);
void dropout_gpu(const KernelCall& call);
void dropout_backward_cpu(const KernelCall& call);
void dropout_backward_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
