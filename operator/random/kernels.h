#pragma once

#include <sluice/ndarray/half.h>
#include <sluice/operator/operator.h>

// The kernels and constants of this family; the registry lists the constants.
namespace sluice {

extern const Operator k_random_uniform, k_random_normal, k_random_randint, k_random_bernoulli;
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

/// Where a kernel finds the numbers that the engine handed out, or others in the memory of an input, which are read
/// when it runs: a recorded call draws anew each time that it is run again.
struct RandomSource {
  RandomBlock block;
  const RandomBlock* state = nullptr;

  SLUICE_HD RandomBlock read() const noexcept { return state != nullptr ? *state : block; }
};
static_assert(sizeof(RandomBlock) == 2 * sizeof(std::int64_t));

inline RandomSource random_source(const KernelCall& call) noexcept {
  const auto i = static_cast<std::size_t>(call.op.state_input);
  return {call.random, call.inputs.size() > i ? call.inputs[i].as<const RandomBlock>() : nullptr};
}

/// Seed and offset as an array: (2,) of int64. Throws ValueError, ShapeError, DTypeError and DeviceError for inputs
/// behind the `others` of a call on `device` that are not one of that kind.
void check_state(const char* op, std::span<const ArraySpec> inputs, std::size_t others, Device device);

/// Scales or drops: the same for forward and backward.
struct DropoutMask {
  std::uint64_t threshold = 0;  // a word below it drops its element
  double scale = 1;
  RandomSource random;
};
DropoutMask dropout_mask(const KernelCall& call);

void random_uniform_cpu(const KernelCall& call);
void random_uniform_gpu(const KernelCall& call);
void random_normal_cpu(const KernelCall& call);
void random_normal_gpu(const KernelCall& call);
void random_randint_cpu(const KernelCall& call);
void random_randint_gpu(const KernelCall& call);
void random_bernoulli_cpu(const KernelCall& call);
void random_bernoulli_gpu(const KernelCall& call);

// x -> y, the state that the mask was drawn from
void dropout_cpu(const KernelCall& call);
void dropout_gpu(const KernelCall& call);
// dy, that state -> dx
void dropout_backward_cpu(const KernelCall& call);
void dropout_backward_gpu(const KernelCall& call);

}  // namespace detail
}  // namespace sluice
