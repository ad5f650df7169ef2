#include <algorithm>
#include <cmath>
#include <limits>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/index_value.h>
#include <sluice/operator/simd/softmax_rows.h>
#include <sluice/operator/softmax/kernels.h>
#include <sluice/operator/softmax/row_cpu.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_grain = 8192;

std::int64_t label_at(const char* op, const TensorView& labels, std::int64_t row, std::int64_t classes) {
  const std::int64_t label = load_index(labels.data, labels.dtype, row);
  require<IndexError>(label >= 0 && label < classes, [&] {
    return message(op, ": label ", label, " of row ", row, " is outside [0, ", classes, ")");
  });
  return label;
}

// For rows of neighbouring floats; null for others.
template <class T>
const simd::SoftmaxRows* row_vectors(const AxisLayout& at) noexcept {
  return std::is_same_v<T, float> && at.inner == 1 ? simd::softmax_rows() : nullptr;
}

// Calls body(row, offset of the row's first element) in parallel.
template <class Body>
void for_rows(const AxisLayout& at, const Body& body) {
  parallel_for(
      at.outer * at.inner,
      std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, at.n)),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row)
          body(row, row / at.inner * at.n * at.inner + row % at.inner);
      });
}

template <class T>
void cross_entropy(const KernelCall& call) {
  using C = Compute<T>;
  const AxisLayout at = softmax_layout(call);
  const T* logits = call.inputs[0].as<const T>();
  T* loss = call.outputs[0].as<T>();
  C* log_sum = call.outputs[1].as<C>();
  const std::int64_t rows = at.outer * at.inner;
  const simd::SoftmaxRows* const vectors = row_vectors<T>(at);
  for_rows(at, [&](std::int64_t row, std::int64_t offset) {
    const std::int64_t label = label_at("softmax_cross_entropy", call.inputs[1], row, at.n);
    const T* x = logits + offset;
    C largest = -std::numeric_limits<C>::infinity();
    double sum = 0;
    if constexpr (std::is_same_v<T, float>) {
      if (vectors != nullptr) {
        largest = vectors->largest(x, at.n);
        sum = vectors->exp_sum(x, largest, at.n, nullptr);
      }
    }
    for (std::int64_t i = 0; vectors == nullptr && i < at.n; ++i)
      largest = std::max(largest, static_cast<C>(x[i * at.inner]));
    for (std::int64_t i = 0; vectors == nullptr && i < at.n; ++i)
      sum += vector_exp(static_cast<C>(x[i * at.inner]) - largest);
    const C log_of_sum = static_cast<C>(std::log(sum));
    // Apart and in this order: a large common offset of the logits does not eat the digits of loss and gradient.
    log_sum[row] = largest;
    log_sum[rows + row] = log_of_sum;
    loss[row] = static_cast<T>(log_of_sum - (static_cast<C>(x[label * at.inner]) - largest));
  });
}

template <class T>
void cross_entropy_backward(const KernelCall& call) {
  using C = Compute<T>;
  const AxisLayout at = softmax_layout(call);
  const T* logits = call.inputs[0].as<const T>();
  const C* log_sum = call.inputs[2].as<const C>();
  const std::int64_t rows = at.outer * at.inner;
  const T* dy = call.inputs[3].as<const T>();
  T* dx = call.outputs[0].as<T>();
  const simd::SoftmaxRows* const vectors = row_vectors<T>(at);
  for_rows(at, [&](std::int64_t row, std::int64_t offset) {
    const std::int64_t label = label_at("softmax_cross_entropy", call.inputs[1], row, at.n);
    const C scale = static_cast<C>(dy[row]), largest = log_sum[row], log_of_sum = log_sum[rows + row];
    if constexpr (std::is_same_v<T, float>) {
      if (vectors != nullptr) {
        float of_label;
        vectors->probability(logits + offset + label, largest, log_of_sum, 1, 1, &of_label);
        vectors->probability(logits + offset, largest, log_of_sum, scale, at.n, dx + offset);
        dx[offset + label] = (of_label - 1) * scale;
        return;
      }
    }
    for (std::int64_t i = 0; i < at.n; ++i) {
      const std::int64_t element = offset + i * at.inner;
      const C probability = vector_exp((static_cast<C>(logits[element]) - largest) - log_of_sum);
      dx[element] = static_cast<T>((probability - (i == label ? C{1} : C{0})) * scale);
    }
  });
}

template <class T>
void likelihood(const KernelCall& call) {
  const AxisLayout at = softmax_layout(call);
  const T* log_probs = call.inputs[0].as<const T>();
  T* loss = call.outputs[0].as<T>();
  for_rows({at.outer, 1, at.inner}, [&](std::int64_t row, std::int64_t) {
    const std::int64_t label = label_at("negative_log_likelihood", call.inputs[1], row, at.n);
    const std::int64_t element = (row / at.inner * at.n + label) * at.inner + row % at.inner;
    loss[row] = static_cast<T>(-static_cast<Compute<T>>(log_probs[element]));
  });
}

template <class T>
void likelihood_backward(const KernelCall& call) {
  const auto& a = call.attributes.as<SoftmaxAttributes>();
  const AxisLayout at = axis_layout(call.outputs[0].shape, static_cast<int>(a.axis));
  const T* dy = call.inputs[1].as<const T>();
  T* dx = call.outputs[0].as<T>();
  for_rows(at, [&](std::int64_t row, std::int64_t offset) {
    const std::int64_t label = label_at("negative_log_likelihood", call.inputs[0], row, at.n);
    for (std::int64_t i = 0; i < at.n; ++i)
      dx[offset + i * at.inner] = static_cast<T>(i == label ? -static_cast<Compute<T>>(dy[row]) : Compute<T>{0});
  });
}

}  // namespace

void softmax_cross_entropy_cpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { cross_entropy<T>(call); });
}

void softmax_cross_entropy_backward_cpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { cross_entropy_backward<T>(call); });
}

void softmax_cross_entropy_both_cpu(const KernelCall& call) {
  cross_entropy_in_two(call, softmax_cross_entropy_cpu, softmax_cross_entropy_backward_cpu);
}

void negative_log_likelihood_cpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() { likelihood<T>(call); });
}

void negative_log_likelihood_backward_cpu(const KernelCall& call) {
  by_floating(call.outputs[0].dtype, [&]<class T>() { likelihood_backward<T>(call); });
}

}  // namespace sluice::detail
