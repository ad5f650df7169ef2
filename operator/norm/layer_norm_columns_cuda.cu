// The gradients of gamma and beta of rows whose elements have one each, where no pass over the rows sums them up.
#include <algorithm>

#include <sluice/operator/floating.h>
#include <sluice/operator/library/channel_reduce.cuh>
#include <sluice/operator/library/channel_walk.cuh>
#include <sluice/operator/norm/layer_norm_cuda.cuh>

namespace sluice::detail {

namespace {

template <class C>
struct ColumnSums {
  static constexpr int n = 2;
  C v[2];  // of dy times the normalised x, of dy
  __device__ void merge(const ColumnSums& other) {
    v[0] += other.v[0];
    v[1] += other.v[1];
  }
};

template <class T, int V>
struct ColumnValues {
  Neighbours<T, V> dy, x;
  Compute<T> mean, inv_std;
};

template <class T>
struct AddColumns {
  template <int V>
  using Values = ColumnValues<T, V>;
  const void* dy;
  DType head;
  const T* x;
  const Compute<T>*mean, *inv_std;
  std::int64_t pitch, beside;  // elements from one row to the next ones, rows beside each other

  template <int V>
  __device__ Values<V> load(std::int64_t offset, std::int64_t) const {
    const std::int64_t row = beside == 1 ? offset / pitch : offset / pitch * beside + offset % beside;
    Values<V> values;
    load_raw(values.dy, dy, head, offset);
    values.x = *reinterpret_cast<const Neighbours<T, V>*>(x + offset);
    values.mean = mean == nullptr ? Compute<T>(0) : mean[row];
    values.inv_std = inv_std[row];
    widen_raw(values.dy, head);
    return values;
  }
  template <int V>
  __device__ Values<1> one(const Values<V>& values, int j) const {
    return {{values.dy.at[j]}, {values.x.at[j]}, values.mean, values.inv_std};
  }
  template <int V, int U>
  __device__ void add(ColumnSums<Compute<T>>& sums, const ColumnValues<T, V> (&loaded)[U]) const {
#pragma unroll
    for (int k = 0; k < U * V; ++k) {
      const auto grad = static_cast<Compute<T>>(loaded[k / V].dy.at[k % V]);
      const auto value = static_cast<Compute<T>>(loaded[k / V].x.at[k % V]);
      sums.v[0] += grad * ((value - loaded[k / V].mean) * loaded[k / V].inv_std);
      sums.v[1] += grad;
    }
  }
};

struct FinishColumns {
  NormParameter gamma, beta;
  template <class C>
  __device__ void operator()(std::int64_t i, const ColumnSums<C>& sums) const {
    store_parameter(gamma.data, gamma.dtype, i, sums.v[0]);
    if (beta.data != nullptr)
      store_parameter(beta.data, beta.dtype, i, sums.v[1]);
  }
};

}  // namespace

void norm_parameters_backward_gpu(const NormBackward& norm, const Queue& queue) {
  const AxisLayout& at = norm.rows.at;
  by_floating(norm.dtype, [&]<class T>() {
    using C = Compute<T>;
    const AddColumns<T> body{
        norm.dy,
        norm.head,
        static_cast<const T*>(norm.x),
        static_cast<const C*>(norm.mean),
        static_cast<const C*>(norm.inv_std),
        std::max<std::int64_t>(1, at.n * at.inner),
        at.inner};
    // Vectors along the rows alone: of columns each element is of another row.
    const bool aligned = at.inner == 1 && aligned_for_vectors(static_cast<const T*>(body.dy), body.x);
    channel_reduce<ColumnSums<C>, k_neighbours<T>>(
        queue,
        {at.outer, at.n, at.inner, norm.dtype},
        aligned,
        "layer_norm_backward",
        body,
        FinishColumns{norm.gamma_grad, norm.beta_grad});
  });
}

}  // namespace sluice::detail
