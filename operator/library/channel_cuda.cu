#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel_reduce.cuh>

namespace sluice::detail {
namespace {

template <class Acc>
struct Sum {
  static constexpr int n = 1;
  Acc v[1];
  __device__ void merge(const Sum& other) { v[0] += other.v[0]; }
};

template <class T>
struct AddElement {
  const T* x;
  __device__ void operator()(Sum<Compute<T>>& sum, std::int64_t offset, std::int64_t) const {
    sum.v[0] += static_cast<Compute<T>>(x[offset]);
  }
};

template <class T>
struct WriteSum {
  T* sums;
  __device__ void operator()(std::int64_t channel, const Sum<Compute<T>>& sum) const { sums[channel] = T(sum.v[0]); }
};

template <class T, class G>
__global__ void add_kernel(G at, T* y, const T* bias, bool relu) {
  using Acc = Compute<T>;
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    Acc value = static_cast<Acc>(y[offset[0]]);
    if (bias != nullptr)
      value += static_cast<Acc>(bias[offset[1]]);
    y[offset[0]] = T(relu && value <= Acc(0) ? Acc(0) : value);
  }
}

}  // namespace

void channel_sum_gpu(const Queue& queue, const ChannelView& view, const void* x, void* sums) {
  by_floating(view.dtype, [&]<class T>() {
    channel_reduce<Sum<Compute<T>>>(
        queue, view, "channel_sum", AddElement<T>{static_cast<const T*>(x)}, WriteSum<T>{static_cast<T*>(sums)});
  });
}

void channel_add_gpu(const Queue& queue, const ChannelView& view, void* y, const void* bias, bool relu) {
  const Shape shape{view.outer, view.channels, view.inner};
  const Shape y_strides = contiguous_strides(shape);
  const Shape bias_strides{0, 1, 0};
  const auto plan = plan_strided<2>(shape, {&y_strides, &bias_strides});
  by_floating(view.dtype, [&]<class T>() {
    with_geometry(plan, [&](auto at) {
      add_kernel<T><<<blocks_for(at.size, 4), k_block, 0, stream_of(queue)>>>(
          at, static_cast<T*>(y), static_cast<const T*>(bias), relu);
      check_launch("channel_add");
    });
  });
}

}  // namespace sluice::detail
