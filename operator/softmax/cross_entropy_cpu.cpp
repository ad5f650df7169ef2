#include <algorithm>
#include <cmath>
#include <limits>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/index_value.h>
#include <sluice/operator/simd/softmax_rows.h>
#include <sluice/operator/softmax/kernels.h>
#include <sluice/operator/softmax/loss_values.h>
#include <sluice/operator/softmax/row_cpu.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_grain = 8192;

// -1 where it is ignored.
std::int64_t label_at(
    const char* op, const TensorView& labels, std::int64_t row, std::int64_t classes, const IgnoredLabel& ignored) {
  const std::int64_t label = load_index(labels.data, labels.dtype, row);
  if (ignored.is(label))
    return -1;
  require<IndexError>(label >= 0 && label < classes, [&] {
    return message(op, ": label ", label, " of row ", row, " is outside [0, ", classes, ")");
  });
  return label;
}

// For rows of neighbours that are computed with as floats; null for others, and for those too short to be converted.
template <class T>
const simd::SoftmaxRows* row_vectors(const AxisLayout& at) noexcept {
  const bool worth_it = std::is_same_v<T, float> || at.n >= k_worth_converting;
  return std::is_same_v<Compute<T>, float> && at.inner == 1 && worth_it ? simd::softmax_rows() : nullptr;
}

// A row of a range, the offset of its first element, and room for a converted row where one is asked for.
struct RowOfRange {
  std::int64_t row, offset, end;
  float* buffer;
};

// Calls body(RowOfRange) in parallel, with room for `buffered` floats.
template <class Body>
void for_rows(const AxisLayout& at, std::int64_t buffered, const Body& body) {
  parallel_for(
      at.outer * at.inner,
      std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, at.n)),
      [&](std::int64_t begin, std::int64_t end) {
        const RowBuffer buffer(buffered);
        for (std::int64_t row = begin; row < end; ++row)
          body(RowOfRange{row, row / at.inner * at.n * at.inner + row % at.inner, end, buffer.get()});
      });
}

template <class T>
constexpr bool k_converted = !std::is_same_v<T, Compute<T>>;

// n floats: of the row itself, or of what it converts to.
template <class T>
const float* as_floats(const T* x, std::int64_t n, float* buffer) {
  if constexpr (k_converted<T>) {
    simd::convert(x, buffer, n);
    return buffer;
  } else {
    return x;
  }
}

template <class T>
void cross_entropy(const KernelCall& call) {
  using C = Compute<T>;
  const AxisLayout at = cross_entropy_layout(call);
  const T* logits = call.inputs[0].as<const T>();
  const LossValues<T> losses(call.outputs[0]);
  C* log_sum = call.outputs[1].as<C>();
  const std::int64_t rows = at.outer * at.inner;
  const IgnoredLabel ignored = call.attributes.as<CrossEntropyAttributes>().ignored();
  const simd::SoftmaxRows* const vectors = row_vectors<T>(at);
  for_rows(at, vectors != nullptr && k_converted<T> ? at.n : 0, [&](const RowOfRange& here) {
    const std::int64_t label = label_at("softmax_cross_entropy", call.inputs[1], here.row, at.n, ignored);
    if (label < 0) {
      log_sum[here.row] = log_sum[rows + here.row] = C{0};
      losses.put(here.row, C{0});
      return;
    }
    const T* x = logits + here.offset;
    C largest = -std::numeric_limits<C>::infinity();
    double sum = 0;
    if constexpr (std::is_same_v<C, float>) {
      if (vectors != nullptr) {
        const float* const values = as_floats(x, at.n, here.buffer);
        largest = vectors->largest(values, at.n);
        sum = vectors->exp_sum(values, largest, at.n, nullptr, row_ahead(logits, here.row + 1, here.end, at.n));
      }
    }
    for (std::int64_t i = 0; vectors == nullptr && i < at.n; ++i)
      largest = std::max(largest, static_cast<C>(x[i * at.inner]));
    for (std::int64_t i = 0; vectors == nullptr && i < at.n; ++i)
      sum += vector_exp(static_cast<C>(x[i * at.inner]) - largest);
    const C log_of_sum = static_cast<C>(std::log(sum));
    // Apart and in this order: a large common offset of the logits does not eat the digits of loss and gradient.
    log_sum[here.row] = largest;
    log_sum[rows + here.row] = log_of_sum;
    losses.put(here.row, log_of_sum - (static_cast<C>(x[label * at.inner]) - largest));
  });
}

template <class T>
void cross_entropy_backward(const KernelCall& call) {
  using C = Compute<T>;
  const AxisLayout at = cross_entropy_layout(call);
  const T* logits = call.inputs[0].as<const T>();
  const C* log_sum = call.inputs[2].as<const C>();
  const std::int64_t rows = at.outer * at.inner;
  const LossValues<T> dy(call.inputs[3]);
  T* dx = call.outputs[0].as<T>();
  const IgnoredLabel ignored = call.attributes.as<CrossEntropyAttributes>().ignored();
  const simd::SoftmaxRows* const vectors = row_vectors<T>(at);
  for_rows(at, vectors != nullptr && k_converted<T> ? at.n : 0, [&](const RowOfRange& here) {
    const std::int64_t label = label_at("softmax_cross_entropy", call.inputs[1], here.row, at.n, ignored);
    if (label < 0) {
      for (std::int64_t i = 0; i < at.n; ++i)
        dx[here.offset + i * at.inner] = static_cast<T>(0.0F);
      return;
    }
    const C scale = dy.get(here.row), largest = log_sum[here.row], log_of_sum = log_sum[rows + here.row];
    if constexpr (std::is_same_v<C, float>) {
      if (vectors != nullptr) {
        const float* const values = as_floats(logits + here.offset, at.n, here.buffer);
        float of_label;
        vectors->probability(values + label, largest, log_of_sum, 1, 1, &of_label);
        T* const target = dx + here.offset;
        if constexpr (k_converted<T>) {
          vectors->probability(values, largest, log_of_sum, scale, at.n, here.buffer);
          simd::convert(here.buffer, target, at.n);
        } else {
          vectors->probability(values, largest, log_of_sum, scale, at.n, target);
        }
        target[label] = static_cast<T>((of_label - 1) * scale);
        return;
      }
    }
    for (std::int64_t i = 0; i < at.n; ++i) {
      const std::int64_t element = here.offset + i * at.inner;
      const C probability = vector_exp((static_cast<C>(logits[element]) - largest) - log_of_sum);
      dx[element] = static_cast<T>((probability - (i == label ? C{1} : C{0})) * scale);
    }
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

}  // namespace sluice::detail
