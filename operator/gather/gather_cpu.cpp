#include <algorithm>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/gather/entries_cpu.h>
#include <sluice/operator/gather/resolve.h>
#include <sluice/operator/index_value.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_grain = 16384;

std::int64_t index_at(const KernelCall& call, const TensorView& indices, std::int64_t i, const GatherAxis& a) {
  const std::int64_t index = load_index(indices.data, indices.dtype, i);
  const std::int64_t entry = resolve_index(index, a.extent, a.mode);
  require<IndexError>(entry >= 0 || a.mode != k_label_mode, [&] {
    return message(call.op.name, ": label ", index, " of row ", i, " is outside [0, ", a.extent, ")");
  });
  require<IndexError>(entry >= 0, [&] {
    return message(call.op.name, ": index ", index, " is out of bounds for axis ", a.axis, " with size ", a.extent);
  });
  return entry;
}

// The entry that a row's index names, or -1 of one that is ignored.
std::int64_t picked_at(
    const KernelCall& call, const TensorView& indices, std::int64_t i, const GatherAxis& a, const PickRule& rule) {
  if (rule.ignored.is_given && rule.ignored.is(load_index(indices.data, indices.dtype, i)))
    return -1;
  return index_at(call, indices, i, a);
}

template <class U>
void pick_elements(const KernelCall& call, const PickRule& rule) {
  const GatherAxis a = rule.of(call.inputs[0]);
  const AxisLayout at = axis_layout(call.inputs[0].shape, static_cast<int>(a.axis));
  const U* x = call.inputs[0].as<const U>();
  U* y = call.outputs[0].as<U>();
  const U flipped = rule.flipped_bits<U>();
  parallel_for(at.outer * at.inner, k_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t entry = picked_at(call, call.inputs[1], i, a, rule);
      y[i] = entry < 0 ? U{0} : static_cast<U>(x[(i / at.inner * at.n + entry) * at.inner + i % at.inner] ^ flipped);
    }
  });
}

template <class U>
void put_picked(const KernelCall& call, const PickRule& rule) {
  const GatherAxis a = rule.of(call.outputs[0]);
  const AxisLayout at = axis_layout(call.outputs[0].shape, static_cast<int>(a.axis));
  const U* dy = call.inputs[1].as<const U>();
  U* dx = call.outputs[0].as<U>();
  const U flipped = rule.flipped_bits<U>();
  parallel_for(at.outer * at.inner, grain_of(at.n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t entry = picked_at(call, call.inputs[0], i, a, rule);
      U* row = dx + i / at.inner * at.n * at.inner + i % at.inner;
      for (std::int64_t k = 0; k < at.n; ++k)
        row[k * at.inner] = k == entry ? static_cast<U>(dy[i] ^ flipped) : U{0};
    }
  });
}

}  // namespace

void one_hot_cpu(const KernelCall& call) {
  const std::int64_t depth = call.attributes.as<OneHotAttributes>().depth;
  const TensorView& indices = call.inputs[0];
  by_any_dtype(call.outputs[0].dtype, [&]<class T>() {
    T* y = call.outputs[0].as<T>();
    parallel_for(indices.size, grain_of(depth), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t index = load_index(indices.data, indices.dtype, row);
        require<IndexError>(index >= 0 && index < depth, [&] {
          return message("one_hot: index ", index, " is outside [0, ", depth, ")");
        });
        std::fill_n(y + row * depth, depth, static_cast<T>(0.0f));
        y[row * depth + index] = static_cast<T>(1.0f);
      }
    });
  });
}

void pick_cpu(const KernelCall& call, const PickRule& rule) {
  by_element_size(size_of(call.inputs[0].dtype), [&]<class U>() { pick_elements<U>(call, rule); });
}

void pick_backward_cpu(const KernelCall& call, const PickRule& rule) {
  by_element_size(size_of(call.outputs[0].dtype), [&]<class U>() { put_picked<U>(call, rule); });
}

}  // namespace sluice::detail
