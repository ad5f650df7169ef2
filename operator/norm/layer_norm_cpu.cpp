#include <sluice/operator/norm/layer_norm_cpu.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

struct RowMoments {
  double mean = 0, inv_std = 0;

  RowMoments(double center, double squares, const NormRows& rows) : mean(center) {
    const double mean_square = squares / rows.divisor();
    inv_std = 1 / std::sqrt((mean_square < 0 ? 0 : mean_square) + rows.eps);
  }
};

template <class T>
class Forward {
 public:
  using C = Compute<T>;

  explicit Forward(const NormForward& norm)
      : rows_(norm.rows),
        vectors_(NormVectors::of<T>(norm.rows)),
        x_(static_cast<const T*>(norm.x)),
        y_(static_cast<T*>(norm.y)),
        mean_(static_cast<C*>(norm.mean)),
        inv_std_(static_cast<C*>(norm.inv_std)),
        gamma_(norm.gamma, norm.rows.parameters(), C{1}),
        beta_(norm.beta, norm.rows.parameters(), -C{0}),  // what it is added to stays, -0 too
        shifts_(norm.beta.data != nullptr),
        stream_(vectors_.rows != nullptr && norm_streams(y_, rows_)) {}

  void run(std::int64_t begin, std::int64_t end) const {
    std::vector<float> room(
        vectors_.rows != nullptr && !std::is_same_v<T, float> ? static_cast<std::size_t>(rows_.at.n) : 0);
    for (std::int64_t row = begin; row < end; ++row) {
      if constexpr (std::is_same_v<C, float>) {
        if (vectors_.rows != nullptr) {
          in_vectors(row, room.data());
          continue;
        }
      }
      plainly(row);
    }
    if (stream_)
      vectors_.rows->finish();
  }

 private:
  std::int64_t first_parameter(std::int64_t row) const { return row % rows_.groups * rows_.channels; }
  void keep(std::int64_t row, const RowMoments& m) const {
    if (mean_ != nullptr)
      mean_[row] = static_cast<C>(m.mean);
    inv_std_[row] = static_cast<C>(m.inv_std);
  }

  // One pass in double around the first element: its own share of the squares bounds how far it is from the mean, so
  // that no more digits are lost than a row's length has.
  RowMoments moments_of(const float* x) const {
    const double n = static_cast<double>(rows_.at.n);
    const double first = rows_.centred && std::isfinite(x[0]) ? static_cast<double>(x[0]) : 0;
    double sums[2] = {};
    vectors_.channels->moments(x, first, rows_.at.n, sums);
    if (!rows_.centred)
      return {0, sums[1], rows_};
    return {first + sums[0] / n, sums[1] - sums[0] * (sums[0] / n), rows_};
  }

  void in_vectors(std::int64_t row, float* room) const requires std::is_same_v<C, float> {
    const std::int64_t n = rows_.at.n, first = first_parameter(row);
    const float* const x = row_as_floats(x_ + row * n, n, room);
    const RowMoments m = moments_of(x);
    keep(row, m);
    const float mean = static_cast<float>(m.mean), inv_std = static_cast<float>(m.inv_std);
    float* y = room;
    if constexpr (std::is_same_v<T, float>)
      y = y_ + row * n;
    if (rows_.span == 1) {
      const float* const beta = shifts_ ? beta_.data() + first : nullptr;
      vectors_.rows->scale(x, mean, inv_std, gamma_.data() + first, beta, n, y, stream_);
    } else {
      for (std::int64_t c = 0; c < rows_.channels; ++c) {
        const std::int64_t at = c * rows_.span;
        vectors_.channels->normalise(x + at, mean, inv_std * gamma_[first + c], beta_[first + c], rows_.span, y + at);
      }
    }
    if constexpr (!std::is_same_v<T, float>)
      simd::convert(y, y_ + row * n, n);
  }

  void plainly(std::int64_t row) const {
    const std::int64_t n = rows_.at.n, step = rows_.at.inner, offset = row_offset(rows_.at, row);
    const std::int64_t first = first_parameter(row);
    const T* const x = x_ + offset;
    double center = 0, squares = 0;
    for (std::int64_t i = 0; rows_.centred && i < n; ++i)
      center += static_cast<double>(static_cast<C>(x[i * step]));
    center /= rows_.centred && n > 0 ? static_cast<double>(n) : 1;
    for (std::int64_t i = 0; i < n; ++i) {
      const double distance = static_cast<double>(static_cast<C>(x[i * step])) - center;
      squares += distance * distance;
    }
    const RowMoments m(center, squares, rows_);
    keep(row, m);
    const C mean = static_cast<C>(m.mean), inv_std = static_cast<C>(m.inv_std);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t by = first + i / rows_.span;
      const C normal = (static_cast<C>(x[i * step]) - mean) * inv_std;
      y_[offset + i * step] = static_cast<T>(normal * gamma_[by] + beta_[by]);
    }
  }

  const NormRows rows_;
  const NormVectors vectors_;
  const T* x_;
  T* y_;
  C *mean_, *inv_std_;
  const NormNumbers<C> gamma_, beta_;
  const bool shifts_, stream_;
};

void forward_cpu(const NormForward& norm) {
  by_floating(norm.dtype, [&]<class T>() {
    const Forward<T> forward(norm);
    parallel_for(
        norm.rows.count(),
        k_norm_grain / std::clamp<std::int64_t>(norm.rows.at.n, 1, k_norm_grain),
        [&](std::int64_t begin, std::int64_t end) { forward.run(begin, end); });
  });
}

}  // namespace

void row_norm_cpu(const KernelCall& call) {
  NormForward norm(call);
  const std::int64_t size = call.inputs[0].size;
  if (size == 0 || norm.result == norm.dtype)  // of rows without elements there are a mean and a 1 / std all the same
    return forward_cpu(norm);
  const Workspace wide(call.queue, sizeof(float) * static_cast<std::size_t>(size));
  norm.y = wide.data();
  forward_cpu(norm);
  round_elements(wide.as<float>(), call.outputs[0]);
}

}  // namespace sluice::detail
