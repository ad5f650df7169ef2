#include <algorithm>
#include <cstring>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/element_size.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/gather/kernels.h>
#include <sluice/operator/gather/resolve.h>
#include <sluice/operator/index_value.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_grain = 16384;

std::int64_t grain_of(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, elements_each));
}

std::int64_t index_at(const char* op, const TensorView& indices, std::int64_t i, const GatherAxis& a) {
  const std::int64_t index = load_index(indices.data, indices.dtype, i);
  const std::int64_t entry = resolve_index(index, a.extent, a.mode);
  require<IndexError>(entry >= 0, [&] {
    return message(op, ": index ", index, " is out of bounds for axis ", a.axis, " with size ", a.extent);
  });
  return entry;
}

// Positions of the indices, sorted by the entry that they name; those of entry e are
// [starts[e], starts[e + 1]). Equal ones keep their order, so that sums have one order.
struct Positions {
  std::vector<std::int64_t> starts;
  std::vector<std::int64_t> at;
};

Positions sort_positions(const TensorView& indices, const GatherAxis& a) {
  Positions sorted;
  sorted.starts.assign(static_cast<std::size_t>(a.extent) + 1, 0);
  sorted.at.resize(static_cast<std::size_t>(indices.size));
  for (std::int64_t i = 0; i < indices.size; ++i)
    ++sorted.starts[index_at("take", indices, i, a) + 1];
  for (std::int64_t e = 0; e < a.extent; ++e)
    sorted.starts[e + 1] += sorted.starts[e];
  std::vector<std::int64_t> next(sorted.starts.begin(), sorted.starts.end() - 1);
  for (std::int64_t i = 0; i < indices.size; ++i)
    sorted.at[next[index_at("take", indices, i, a)]++] = i;
  return sorted;
}

template <class T>
void add_taken(const KernelCall& call) {
  using C = Compute<T>;
  const GatherAxis a = gather_axis(call, call.outputs[0]);
  const TakeLayout at = take_layout(call.inputs[1].shape, call.inputs[0].shape, a);
  const T* dy = call.inputs[1].as<const T>();
  T* dx = call.outputs[0].as<T>();
  const Positions sorted = sort_positions(call.inputs[0], a);
  parallel_for(at.outer * at.n, grain_of(at.inner), [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> total(static_cast<std::size_t>(at.inner));
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t outer = row / at.n, entry = row % at.n;
      std::fill(total.begin(), total.end(), C{0});
      for (std::int64_t p = sorted.starts[entry]; p < sorted.starts[entry + 1]; ++p) {
        const T* from = dy + (outer * at.indices + sorted.at[p]) * at.inner;
        for (std::int64_t i = 0; i < at.inner; ++i)
          total[i] += static_cast<C>(from[i]);
      }
      for (std::int64_t i = 0; i < at.inner; ++i)
        dx[row * at.inner + i] = static_cast<T>(total[i]);
    }
  });
}

template <class U>
void pick_elements(const KernelCall& call) {
  const GatherAxis a = gather_axis(call, call.inputs[0]);
  const AxisLayout at = axis_layout(call.inputs[0].shape, static_cast<int>(a.axis));
  const U* x = call.inputs[0].as<const U>();
  U* y = call.outputs[0].as<U>();
  parallel_for(at.outer * at.inner, k_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t entry = index_at("pick", call.inputs[1], i, a);
      y[i] = x[(i / at.inner * at.n + entry) * at.inner + i % at.inner];
    }
  });
}

template <class U>
void put_picked(const KernelCall& call) {
  const GatherAxis a = gather_axis(call, call.outputs[0]);
  const AxisLayout at = axis_layout(call.outputs[0].shape, static_cast<int>(a.axis));
  const U* dy = call.inputs[1].as<const U>();
  U* dx = call.outputs[0].as<U>();
  parallel_for(at.outer * at.inner, grain_of(at.n), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t entry = index_at("pick", call.inputs[0], i, a);
      U* row = dx + i / at.inner * at.n * at.inner + i % at.inner;
      for (std::int64_t k = 0; k < at.n; ++k)
        row[k * at.inner] = k == entry ? dy[i] : U{0};
    }
  });
}

}  // namespace

void take_cpu(const KernelCall& call) {
  const GatherAxis a = gather_axis(call, call.inputs[0]);
  const TakeLayout at = take_layout(call.outputs[0].shape, call.inputs[1].shape, a);
  const std::size_t bytes = static_cast<std::size_t>(at.inner) * size_of(call.inputs[0].dtype);
  const auto* x = call.inputs[0].as<const std::byte>();
  auto* y = call.outputs[0].as<std::byte>();
  parallel_for(at.outer * at.indices, grain_of(at.inner), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t entry = index_at("take", call.inputs[1], row % at.indices, a);
      const std::int64_t from = row / at.indices * at.n + entry;
      std::memcpy(y + static_cast<std::size_t>(row) * bytes, x + static_cast<std::size_t>(from) * bytes, bytes);
    }
  });
}

void take_backward_cpu(const KernelCall& call) {
  by_floating(call.inputs[1].dtype, [&]<class T>() { add_taken<T>(call); });
}

void one_hot_cpu(const KernelCall& call) {
  const std::int64_t depth = call.attributes.as<OneHotAttributes>().depth;
  const TensorView& indices = call.inputs[0];
  by_dtype(call.outputs[0].dtype, [&]<class T>() {
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

void pick_cpu(const KernelCall& call) {
  by_element_size(size_of(call.inputs[0].dtype), [&]<class U>() { pick_elements<U>(call); });
}

void pick_backward_cpu(const KernelCall& call) {
  by_element_size(size_of(call.outputs[0].dtype), [&]<class U>() { put_picked<U>(call); });
}

}  // namespace sluice::detail
