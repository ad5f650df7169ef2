// Pooling on the CPU in vectors: planes of floats, half types through a plane of them.
#include <algorithm>
#include <type_traits>
#include <vector>

#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/pool/planes_cpu.h>
#include <sluice/operator/simd/pool_rows.h>
#include <sluice/operator/simd/softmax_rows.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_spare = 64;  // floats behind a buffer that vectors may read

// The windows along the width that lie inside.
Span1D windows_inside(const PoolGeometry& g) {
  const std::int64_t begin = smaller((g.pad[1] + g.stride[1] - 1) / g.stride[1], g.out[1]);
  const std::int64_t room = g.in[1] + g.pad[1] - g.kernel[1];
  return {begin, larger(begin, room < 0 ? 0 : smaller(room / g.stride[1] + 1, g.out[1]))};
}

// A plane of x as floats; others of the same size may follow.
template <class T>
class FloatPlane {
 public:
  explicit FloatPlane(const PoolGeometry& g) : g_(g) {
    if constexpr (!std::is_same_v<T, float>)
      copy_.resize(static_cast<std::size_t>(in_plane(g) + k_spare));
  }
  void take(const T* x, std::int64_t plane) {
    x += plane * in_plane(g_);
    if constexpr (std::is_same_v<T, float>) {
      data_ = x;
      readable_ = (g_.planes - plane) * in_plane(g_);
    } else {
      simd::convert(x, copy_.data(), in_plane(g_));
      data_ = copy_.data();
      readable_ = static_cast<std::int64_t>(copy_.size());
    }
  }
  const float* data() const { return data_; }
  std::int64_t readable() const { return readable_; }

 private:
  const PoolGeometry& g_;
  std::vector<float> copy_;
  const float* data_ = nullptr;
  std::int64_t readable_ = 0;
};

template <class T>
void largest(const simd::PoolRows& rows, const PoolGeometry& g, const T* x, T* y, std::int32_t* index) {
  const Span1D inside = windows_inside(g);
  for_each_plane(g, in_plane(g), [&](std::int64_t begin, std::int64_t end) {
    FloatPlane<T> plane(g);
    std::vector<float> beside(std::is_same_v<T, float> ? 0 : static_cast<std::size_t>(g.out[1]));
    for (std::int64_t p = begin; p < end; ++p) {
      plane.take(x, p);
      const T* const from = x + p * in_plane(g);
      for (std::int64_t oy = 0; oy < g.out[0]; ++oy) {
        const std::int64_t row = p * out_plane(g) + oy * g.out[1];
        const Span1D ys = window_inside(g, 0, oy);
        const simd::WindowRow windows{
            plane.data(), plane.readable(), g.in[1], ys.begin, ys.end, g.kernel[1], g.stride[1], g.pad[1]};
        float* maxima = beside.data();
        if constexpr (std::is_same_v<T, float>)
          maxima = y + row;
        const std::int64_t done = rows.largest(windows, inside.begin, inside.end, maxima, index + row);
        const auto one_by_one = [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t ox = first; ox < last; ++ox) {
            index[row + ox] = max_of_window<float>(g, plane.data(), oy, ox);
            y[row + ox] = from[index[row + ox]];
          }
        };
        one_by_one(0, inside.begin);
        one_by_one(done, g.out[1]);
        for (std::int64_t ox = inside.begin; !std::is_same_v<T, float> && ox < done; ++ox)
          y[row + ox] = from[index[row + ox]];
      }
    }
  });
}

// Down the columns first, then along the sums of them.
void mean_row(
    const simd::PoolRows& rows, const PoolGeometry& g, const float* plane, std::int64_t oy, float* sums, float* y) {
  const Span1D ys = window_inside(g, 0, oy), inside = windows_inside(g);
  const auto count = [&](std::int64_t ox) { return static_cast<float>(window_count(g, oy, ox)); };
  std::copy_n(plane + ys.begin * g.in[1], g.in[1], sums);
  for (std::int64_t line = ys.begin + 1; line < ys.end; ++line)
    rows.add(plane + line * g.in[1], g.in[1], sums);
  if (inside.begin < inside.end) {
    const float* const first = sums + inside.begin * g.stride[1] - g.pad[1];
    rows.mean(first, g.kernel[1], g.stride[1], count(inside.begin), inside.end - inside.begin, y + inside.begin);
  }
  for (std::int64_t ox = 0; ox < g.out[1]; ++ox) {
    if (ox >= inside.begin && ox < inside.end)
      continue;
    const Span1D xs = window_inside(g, 1, ox);
    float sum = 0;
    for (std::int64_t column = xs.begin; column < xs.end; ++column)
      sum += sums[column];
    y[ox] = sum / count(ox);
  }
}

bool is_of_whole_planes(const PoolGeometry& g) {
  const Span1D ys = window_inside(g, 0, 0), xs = window_inside(g, 1, 0);
  return out_plane(g) == 1 && ys.end - ys.begin == g.in[0] && xs.end - xs.begin == g.in[1];
}

template <class T>
void whole_means(const simd::SoftmaxRows& rows, const PoolGeometry& g, const T* x, T* y) {
  const auto count = static_cast<double>(window_count(g, 0, 0));
  for_each_plane(g, in_plane(g), [&](std::int64_t begin, std::int64_t end) {
    FloatPlane<T> plane(g);
    for (std::int64_t p = begin; p < end; ++p) {
      plane.take(x, p);
      y[p] = static_cast<T>(static_cast<float>(rows.sum(plane.data(), nullptr, in_plane(g)) / count));
    }
  });
}

template <class T>
void means(const simd::PoolRows& rows, const PoolGeometry& g, const T* x, T* y) {
  for_each_plane(g, in_plane(g), [&](std::int64_t begin, std::int64_t end) {
    FloatPlane<T> plane(g);
    std::vector<float> sums(static_cast<std::size_t>(g.in[1] + k_spare)), result(static_cast<std::size_t>(g.out[1]));
    for (std::int64_t p = begin; p < end; ++p) {
      plane.take(x, p);
      for (std::int64_t oy = 0; oy < g.out[0]; ++oy) {
        T* const to = y + p * out_plane(g) + oy * g.out[1];
        if constexpr (std::is_same_v<T, float>) {
          mean_row(rows, g, plane.data(), oy, sums.data(), to);
        } else {
          mean_row(rows, g, plane.data(), oy, sums.data(), result.data());
          simd::convert(result.data(), to, g.out[1]);
        }
      }
    }
  });
}

// Calls body.operator()<T>(rows) if there are vectors for the type.
template <class Body>
bool with_vectors(DType dtype, Body&& body) {
  const simd::PoolRows* const rows = simd::pool_rows();
  if (rows == nullptr || dtype == DType::float64)
    return false;
  by_floating(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>)
      body.template operator()<T>(*rows);
  });
  return true;
}

}  // namespace

bool max_pool2d_in_vectors(const KernelCall& call, const PoolGeometry& g) {
  return with_vectors(call.inputs[0].dtype, [&]<class T>(const simd::PoolRows& rows) {
    largest(rows, g, call.inputs[0].as<const T>(), call.outputs[0].as<T>(), call.outputs[1].as<std::int32_t>());
  });
}

bool avg_pool2d_in_vectors(const KernelCall& call, const PoolGeometry& g) {
  const simd::SoftmaxRows* const sums = is_of_whole_planes(g) ? simd::softmax_rows() : nullptr;
  return with_vectors(call.inputs[0].dtype, [&]<class T>(const simd::PoolRows& rows) {
    if (sums != nullptr)
      whole_means(*sums, g, call.inputs[0].as<const T>(), call.outputs[0].as<T>());
    else
      means(rows, g, call.inputs[0].as<const T>(), call.outputs[0].as<T>());
  });
}

void add_row(const float* x, std::int64_t n, float* to) {
  if (const simd::PoolRows* rows = simd::pool_rows()) {
    rows->add(x, n, to);
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      to[i] += x[i];
  }
}

}  // namespace sluice::detail
