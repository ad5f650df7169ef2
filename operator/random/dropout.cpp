#include <algorithm>
#include <type_traits>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/detail/families.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/random/blocks_cpu.h>
#include <sluice/operator/random/draw.h>
#include <sluice/operator/random/drawn.h>
#include <sluice/operator/random/dropout.h>
#include <sluice/operator/random/kernels.h>

namespace sluice {

namespace detail {

DropoutMask dropout_mask(const KernelCall& call) {
  const double rate = call.attributes.as<DropoutAttributes>().rate;
  return {probability_threshold(rate), rate < 1 ? 1 / (1 - rate) : 0, random_source(call)};
}

namespace {

// In vectors, through floats of whole groups unless x and y are that.
template <class T>
void drop_in_vectors(const BlocksAtATime& blocks, const DropoutMask& mask, const T* x, std::int64_t n, T* y) {
  const simd::RandomRows& rows = *blocks.rows();
  const auto scale = static_cast<float>(mask.scale);
  const std::int64_t whole = whole_groups(n);
  float numbers[BlocksAtATime::k_words];
  std::fill(numbers + n, numbers + whole, 0.0f);
  if constexpr (!std::is_same_v<T, float>) {
    simd::convert(x, numbers, n);
    rows.drop(blocks.words(), mask.threshold, numbers, scale, whole, numbers);
    simd::convert(numbers, y, n);
  } else if (whole == n) {
    rows.drop(blocks.words(), mask.threshold, x, scale, n, y);
  } else {
    std::copy_n(x, n, numbers);
    rows.drop(blocks.words(), mask.threshold, numbers, scale, whole, numbers);
    std::copy_n(numbers, n, y);
  }
}

// n elements, of as many words.
template <class T>
void drop_some(const BlocksAtATime& blocks, const DropoutMask& mask, const T* x, std::int64_t n, T* y) {
  using C = Compute<T>;
  if constexpr (!std::is_same_v<T, double>) {
    if (blocks.rows() != nullptr)
      return drop_in_vectors(blocks, mask, x, n, y);
  }
  const C scale = static_cast<C>(mask.scale);
  const std::uint32_t* const words = blocks.words();
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = static_cast<T>(words[i] < mask.threshold ? C{0} : static_cast<C>(x[i]) * scale);
}

/// `count` elements of images from `first` on, as they are counted row by row, where channels are neighbours.
template <class T>
void gather_turned(const TensorView& images, std::int64_t first, std::int64_t count, T* to) {
  const std::int64_t channels = images.shape[1], plane = images.shape[2] * images.shape[3];
  const T* const from = images.as<const T>();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t planes = (first + i) / plane, pixel = (first + i) % plane;
    to[i] = from[(planes / channels * plane + pixel) * channels + planes % channels];
  }
}

template <class T>
void apply_mask(const TensorView& input, const TensorView& output, const DropoutMask& mask) {
  const T* x = input.as<const T>();
  const bool is_turned = order_of(input.shape, input.strides) == MemoryOrder::channels_last;
  T* y = output.as<T>();
  const std::int64_t size = output.size;
  const RandomBlock random = mask.random.read();
  parallel_for((size + 3) / 4, 2048, [&](std::int64_t begin, std::int64_t end) {
    BlocksAtATime blocks(random);
    for (std::int64_t first = begin; first < end; first += BlocksAtATime::k_most) {
      const std::int64_t count = std::min(BlocksAtATime::k_most, end - first), at = 4 * first;
      blocks.make(first, count);
      const std::int64_t elements = std::min(4 * count, size - at);
      if (is_turned) {
        T gathered[BlocksAtATime::k_words];
        gather_turned(input, at, elements, gathered);
        drop_some(blocks, mask, gathered, elements, y + at);
      } else {
        drop_some(blocks, mask, x + at, elements, y + at);
      }
    }
  });
}

}  // namespace

void dropout_cpu(const KernelCall& call) {
  const DropoutMask mask = dropout_mask(call);
  *call.outputs[1].as<RandomBlock>() = mask.random.read();
  by_floating(call.inputs[0].dtype, [&]<class T>() { apply_mask<T>(call.inputs[0], call.outputs[0], mask); });
}

void dropout_backward_cpu(const KernelCall& call) {
  const DropoutMask mask = dropout_mask(call);
  by_floating(call.inputs[0].dtype, [&]<class T>() { apply_mask<T>(call.inputs[0], call.outputs[0], mask); });
}

}  // namespace detail

namespace {

// x, maybe the state of the random numbers -> y, the state that was used.
void check_floating(const Operator& op, const ArraySpec& input) {
  require<DTypeError>(
      is_floating(input.dtype), [&] { return message(op.name, ": takes floating types, not ", input.dtype); });
}

void check_rate(const char* op, double rate) {
  require<ValueError>(rate >= 0 && rate <= 1, [&] { return message(op, ": ", rate, " is no probability"); });
}

Specs infer_dropout(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  require<ValueError>(!inputs.empty(), [&] { return message(op.name, ": has no input"); });
  check_floating(op, inputs[0]);
  check_rate(op.name, attributes.as<detail::DropoutAttributes>().rate);
  detail::check_state(op.name, inputs, 1, inputs[0].device);
  return {inputs[0], {{2}, int64, inputs[0].device}};
}

Specs infer_dropout_backward(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  check_floating(op, inputs[0]);
  check_rate(op.name, attributes.as<detail::DropoutAttributes>().rate);
  detail::check_state(op.name, inputs, 1, inputs[0].device);
  return {inputs[0]};
}

std::uint64_t blocks_of(std::span<const ArraySpec> outputs, const Attributes&) {
  return (static_cast<std::uint64_t>(outputs[0].shape.size()) + 3) / 4;
}

Arrays dropout_gradient(const GradientCall& call) {
  Arrays grads(call.wanted.size());
  if (call.output_grads[0].defined())
    grads[0] = invoke_one(k_dropout_backward, {call.output_grads[0], call.outputs[1]}, call.attributes, {});
  return grads;
}

// Masks are drawn in the order of the elements, whichever way these lie: what convolutions give is read where it is.
bool takes_images(std::size_t, const Shape& shape, const Shape& strides) {
  return detail::order_of(shape, strides) == MemoryOrder::channels_last;
}

// Linear in dy: its gradient is itself.
Arrays dropout_backward_gradient(const GradientCall& call) {
  return {invoke_one(k_dropout_backward, {call.output_grads[0], call.inputs[1]}, call.attributes, {}), NDArray()};
}

}  // namespace

constinit const Operator k_dropout = {
    .name = "dropout",
    .inputs = -1,
    .outputs = 2,
    .attributes = &attribute_type<detail::DropoutAttributes>,
    .infer = infer_dropout,
    .kernels = {on_cpu(detail::dropout_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::dropout_gpu))},
    .gradient = dropout_gradient,
    .saved_outputs = 0b10,
    .strided_inputs = 0b1,
    .random = blocks_of,
    .takes_strides = takes_images,
    .state_input = 1,
};
constinit const Operator k_dropout_backward = {
    .name = "dropout_backward",
    .inputs = 2,
    .attributes = &attribute_type<detail::DropoutAttributes>,
    .infer = infer_dropout_backward,
    .kernels = {on_cpu(detail::dropout_backward_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::dropout_backward_gpu))},
    .gradient = dropout_backward_gradient,
    .saved_inputs = 0b10,
    .state_input = 1,
};

NDArray dropout(const NDArray& x, double rate, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_rate("dropout", rate);
    require<DTypeError>(is_floating(detail::object_of(x, "dropout").dtype), [&] {
      return message("dropout: takes floating types, not ", x.dtype());
    });
    if (!autograd::is_training() || rate == 0)
      return x;
    return invoke(k_dropout, {&x, 1}, Attributes::of(detail::DropoutAttributes{rate}), site)[0];
  });
}

detail::OperatorList detail::random_operators() noexcept {
  static constexpr const Operator* list[] = {
      &k_random_uniform,
      &k_random_normal,
      &k_random_randint,
      &k_random_bernoulli,
      &k_random_exponential,
      &k_random_laplace,
      &k_random_gumbel,
      &k_random_truncated_normal,
      &k_random_gamma,
      &k_random_beta,
      &k_random_poisson,
      &k_sample_gamma,
      &k_sample_poisson,
      &k_sample_categorical,
      &k_random_permutation,
      &k_random_choice,
      &k_sample_multinomial,
      &k_dropout,
      &k_dropout_backward};
  return list;
}

}  // namespace sluice
