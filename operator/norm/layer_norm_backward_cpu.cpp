#include <sluice/engine/parallel.h>
#include <sluice/operator/library/pieces.h>
#include <sluice/operator/norm/layer_norm_cpu.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

namespace {

// Sums of the gradients of gamma and beta over some rows; null where they are not asked for.
struct ParameterSums {
  double* gamma = nullptr;
  double* beta = nullptr;
};

// What a row's gradient is made of: dx = (gamma * dy - offset - (x - mean) * slope) * inv_std. The third power of
// inv_std need not fit float where the gradient does.
template <class C>
struct RowGradient {
  C offset, slope;

  // `plain` and `by_x`: sums of gamma * dy and of gamma * dy * (x - mean).
  RowGradient(double plain, double by_x, double inv_std, const NormRows& rows)
      : offset(static_cast<C>(rows.centred ? plain / rows.divisor() : 0)),
        slope(static_cast<C>(by_x / rows.divisor() * inv_std * inv_std)) {}
};

template <class T>
class Backward {
 public:
  using C = Compute<T>;

  explicit Backward(const NormBackward& norm)
      : rows_(norm.rows),
        vectors_(NormVectors::of<T>(norm.rows)),
        dy_(static_cast<const T*>(norm.dy)),
        x_(static_cast<const T*>(norm.x)),
        dx_(static_cast<T*>(norm.dx)),
        mean_(static_cast<const C*>(norm.mean)),
        inv_std_(static_cast<const C*>(norm.inv_std)),
        gamma_(norm.gamma, norm.rows.parameters(), C{1}),
        stream_(vectors_.rows != nullptr && norm_streams(dx_, rows_)) {}

  void run(std::int64_t begin, std::int64_t end, const ParameterSums& sums) const {
    const bool converts = vectors_.rows != nullptr && !std::is_same_v<T, float>;
    std::vector<float> room(converts ? static_cast<std::size_t>(2 * rows_.at.n) : 0);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t first = row % rows_.groups * rows_.channels;
      const ParameterSums here{
          sums.gamma == nullptr ? nullptr : sums.gamma + first, sums.beta == nullptr ? nullptr : sums.beta + first};
      if constexpr (std::is_same_v<C, float>) {
        if (vectors_.rows != nullptr) {
          in_vectors(row, first, here, room.data());
          continue;
        }
      }
      plainly(row, first, here);
    }
    if (stream_)
      vectors_.rows->finish();
  }

 private:
  C mean_of(std::int64_t row) const { return mean_ == nullptr ? C{0} : mean_[row]; }

  void in_vectors(std::int64_t row, std::int64_t first, const ParameterSums& sums, float* room)
      const requires std::is_same_v<C, float> {
    const std::int64_t n = rows_.at.n;
    const float* const dy = row_as_floats(dy_ + row * n, n, room);
    const float* const x = row_as_floats(x_ + row * n, n, room + (std::is_same_v<T, float> ? 0 : n));
    float* dx = room;
    if constexpr (std::is_same_v<T, float>)
      dx = dx_ + row * n;
    if (rows_.span == 1)
      by_element(row, dy, x, gamma_.data() + first, sums, dx);
    else
      by_channel(row, dy, x, gamma_.data() + first, sums, dx);
    if constexpr (!std::is_same_v<T, float>)
      simd::convert(dx, dx_ + row * n, n);
  }

  void by_element(
      std::int64_t row, const float* dy, const float* x, const float* gamma, const ParameterSums& sums, float* dx)
      const {
    const std::int64_t n = rows_.at.n;
    const float mean = mean_of(row), inv_std = inv_std_[row];
    double total[2] = {};
    vectors_.rows->products(dy, x, gamma, mean, n, total);
    if (sums.gamma != nullptr)
      vectors_.rows->add_columns(dy, x, mean, inv_std, n, sums.gamma, sums.beta);
    const RowGradient<float> g(total[0], total[1], inv_std, rows_);
    vectors_.rows->gradient(dy, x, gamma, {mean, inv_std, g.offset, g.slope}, n, dx, stream_);
  }

  void by_channel(
      std::int64_t row, const float* dy, const float* x, const float* gamma, const ParameterSums& sums, float* dx)
      const {
    const std::int64_t span = rows_.span;
    const float mean = mean_of(row), inv_std = inv_std_[row];
    double total[2] = {};
    for (std::int64_t c = 0; c < rows_.channels; ++c) {
      double own[2] = {};
      vectors_.channels->products(dy + c * span, x + c * span, mean, span, own);
      total[0] += static_cast<double>(gamma[c]) * own[0];
      total[1] += static_cast<double>(gamma[c]) * own[1];
      if (sums.gamma != nullptr)
        sums.gamma[c] += own[1] * static_cast<double>(inv_std);
      if (sums.beta != nullptr)
        sums.beta[c] += own[0];
    }
    const RowGradient<float> g(total[0], total[1], inv_std, rows_);
    for (std::int64_t c = 0; c < rows_.channels; ++c) {
      const float of[5] = {mean, inv_std, g.offset, g.slope, gamma[c]};
      vectors_.rows->span_gradient(dy + c * span, x + c * span, of, span, dx + c * span);
    }
  }

  void plainly(std::int64_t row, std::int64_t first, const ParameterSums& sums) const {
    const std::int64_t n = rows_.at.n, step = rows_.at.inner, offset = row_offset(rows_.at, row);
    const C mean = mean_of(row), inv_std = inv_std_[row];
    double plain = 0, by_x = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t c = i / rows_.span;
      const double grad = static_cast<double>(static_cast<C>(dy_[offset + i * step]));
      const double centred = static_cast<double>(static_cast<C>(x_[offset + i * step]) - mean);
      plain += grad * static_cast<double>(gamma_[first + c]);
      by_x += grad * static_cast<double>(gamma_[first + c]) * centred;
      if (sums.gamma != nullptr)
        sums.gamma[c] += grad * (centred * static_cast<double>(inv_std));
      if (sums.beta != nullptr)
        sums.beta[c] += grad;
    }
    const RowGradient<C> g(plain, by_x, static_cast<double>(inv_std), rows_);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t at = offset + i * step;
      const C scaled = static_cast<C>(dy_[at]) * gamma_[first + i / rows_.span];
      dx_[at] = static_cast<T>((scaled - g.offset - (static_cast<C>(x_[at]) - mean) * g.slope) * inv_std);
    }
  }

  const NormRows rows_;
  const NormVectors vectors_;
  const T *dy_, *x_;
  T* dx_;
  const C *mean_, *inv_std_;
  const NormNumbers<C> gamma_;
  const bool stream_;
};

// Pieces of rows, cut by shape: each has sums of its own, of rows that follow each other.
Pieces norm_pieces(const NormRows& rows) {
  constexpr double k_operations = 16;  // an element, by the time they take
  constexpr std::int64_t k_least = 8;  // rows that are worth sums of their own
  const double work = k_operations * static_cast<double>(rows.count()) * static_cast<double>(rows.at.n);
  const std::int64_t most = std::max<std::int64_t>(1, rows.count() / (k_least * rows.groups));
  return pieces_of(rows.count(), std::min(pieces_worth(work), most), rows.groups);
}

// The sums of all pieces, one after the other.
void join(const double* sums, std::int64_t pieces, std::int64_t stride, std::int64_t count, const NormParameter& to) {
  parallel_for(count, k_norm_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      double total = 0;
      for (std::int64_t piece = 0; piece < pieces; ++piece)
        total += sums[piece * stride + i];
      store_parameter(to.data, to.dtype, i, total);
    }
  });
}

}  // namespace

void row_norm_backward_cpu(const KernelCall& call) {
  NormBackward norm(call);
  const std::int64_t size = call.inputs[0].size, parameters = norm.rows.parameters();
  const bool elements = size != 0, widens = norm.head != norm.dtype;
  const Workspace wide(call.queue, widens ? sizeof(float) * static_cast<std::size_t>(size) : 0);
  if (widens) {
    widen_elements(call.inputs[0], wide.as<float>());
    norm.dy = wide.data();
  }
  const Pieces pieces = elements ? norm_pieces(norm.rows) : Pieces{};
  const std::int64_t kinds = (norm.gamma_grad.data != nullptr ? 1 : 0) + (norm.beta_grad.data != nullptr ? 1 : 0);
  const std::int64_t stride = kinds * parameters;
  const Workspace workspace(call.queue, sizeof(double) * static_cast<std::size_t>(stride * pieces.count()));
  auto* const sums = workspace.as<double>();
  if (elements) {
    by_floating(norm.dtype, [&]<class T>() {
      const Backward<T> backward(norm);
      for_each_piece(pieces, [&](std::int64_t piece) {
        double* const own = sums + piece * stride;
        std::fill_n(own, stride, 0.0);
        const std::int64_t begin = pieces.begin(piece);
        backward.run(
            begin,
            begin + pieces.length_of(piece),
            {kinds > 0 ? own : nullptr, kinds > 1 ? own + parameters : nullptr});
      });
    });
  }
  if (kinds > 0)
    join(sums, pieces.count(), stride, parameters, norm.gamma_grad);
  if (kinds > 1)
    join(sums + parameters, pieces.count(), stride, parameters, norm.beta_grad);
}

}  // namespace sluice::detail
