#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/engine/parallel.h>
#include <sluice/gluon/data/detail/scratch.h>
#include <sluice/gluon/data/sample.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/operator/operator.h>

namespace sluice::gluon::data {

/// A function of one sample in host memory, run on worker threads:
///  - `output_spec(in)`: shape and type of the result for a sample of shape and type `in`; throws ShapeError or
///    DTypeError for samples it does not take;
///  - `transform(in, out)`: reads one contiguous sample and writes one; const, callable from several threads. Or, if it
///    is random, `transform(in, out, random)` with a SampleRandom& that it draws all its numbers from.
/// It may also have `apply_batch(rows, in, out)`: the same for a batch whose samples stand at the addresses `rows`.
/// Samples of different shapes go through one by one, each with the output_spec() of its own shape.
template <class T>
concept PlainTransform = requires(const T& transform, const TensorView& view) {
  transform(view, view);
};
template <class T>
concept RandomTransform = requires(const T& transform, const TensorView& view, SampleRandom& random) {
  transform(view, view, random);
};
template <class T>
concept SampleTransform = requires(const T& transform, const ArraySpec& spec) {
  { transform.output_spec(spec) } -> std::convertible_to<ArraySpec>;
}
&&(PlainTransform<T> || RandomTransform<T>)&&std::copy_constructible<T>;  // last: it may ask for conversions to T

namespace detail {

inline std::size_t bytes_of(const ArraySpec& spec) {
  return static_cast<std::size_t>(spec.shape.size()) * size_of(spec.dtype);
}
/// One sample at `data`.
SLUICE_API TensorView sample_view(const void* data, const ArraySpec& spec);
/// `samples` samples one after the other.
SLUICE_API TensorView batch_view(void* data, std::size_t samples, const ArraySpec& spec);
/// The samples of a batch: shape without the first axis.
SLUICE_API ArraySpec spec_of_sample(const TensorView& batch);
/// Below that many bytes a sample group is not worth another thread.
inline constexpr std::int64_t k_bytes_a_thread = 1 << 17;

/// Calls one(i, destination) for every sample of a batch, large batches on several workers.
template <class One>
void for_each_place(std::size_t samples, const TensorView& out, const One& one) {
  const ArraySpec spec = spec_of_sample(out);
  const std::size_t stride = bytes_of(spec);
  const auto grain = std::max<std::int64_t>(1, k_bytes_a_thread / static_cast<std::int64_t>(stride + 1));
  parallel_for(static_cast<std::int64_t>(samples), grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      one(i, static_cast<std::byte*>(out.data) + i * stride);
  });
}
/// Calls one(row, destination) for every sample of a batch, large batches on several workers.
template <class One>
void for_each_sample(std::span<const void* const> rows, const TensorView& out, const One& one) {
  for_each_place(rows.size(), out, [&](std::size_t i, void* to) { one(rows[i], to); });
}

/// Calls a transform, random or not.
template <SampleTransform T>
void apply_transform(const T& transform, const TensorView& in, const TensorView& out, SampleRandom& random) {
  if constexpr (RandomTransform<T>) {
    transform(in, out, random);
  } else {
    transform(in, out);
  }
}

}  // namespace detail

/// Transforms the samples at `rows`, of shape and type `in`, into the batch `out`. `picks`: their random numbers.
template <SampleTransform T>
void apply_to_batch(
    const T& transform,
    std::span<const void* const> rows,
    const ArraySpec& in,
    const TensorView& out,
    std::span<Pick> picks) {
  if constexpr (requires { transform.apply_batch(rows, in, out); }) {
    transform.apply_batch(rows, in, out);
  } else {
    const ArraySpec result = detail::spec_of_sample(out);
    detail::for_each_place(rows.size(), out, [&](std::size_t i, void* to) {
      const TensorView from = detail::sample_view(rows[i], in);
      detail::apply_transform(transform, from, detail::sample_view(to, result), picks[i].random);
    });
  }
}

/// One transform after another (Gluon's transforms.Compose). A sample passes through all of them while it is in the
/// cache: a batch is read once and written once.
template <SampleTransform... Ts>
class Compose {
 public:
  static_assert(sizeof...(Ts) > 0, "Compose needs a transform");
  explicit Compose(Ts... transforms) : transforms_(std::move(transforms)...) {}

  ArraySpec output_spec(const ArraySpec& in) const { return spec_after<sizeof...(Ts)>(in); }
  void operator()(const TensorView& in, const TensorView& out) const requires(PlainTransform<Ts>&&...) {
    SampleRandom unused;
    run<0>(in, out, unused);
  }
  void operator()(const TensorView& in, const TensorView& out, SampleRandom& random) const
      requires(!(PlainTransform<Ts> && ...)) {
    run<0>(in, out, random);
  }

 private:
  template <std::size_t N>
  ArraySpec spec_after(const ArraySpec& in) const {
    if constexpr (N == 0) {
      return in;
    } else {
      return std::get<N - 1>(transforms_).output_spec(spec_after<N - 1>(in));
    }
  }
  template <std::size_t I>
  void run(const TensorView& in, const TensorView& out, SampleRandom& random) const {
    if constexpr (I + 1 == sizeof...(Ts)) {
      detail::apply_transform(std::get<I>(transforms_), in, out, random);
    } else {
      const ArraySpec spec = std::get<I>(transforms_).output_spec({.shape = in.shape, .dtype = in.dtype});
      detail::Scratch scratch(detail::bytes_of(spec));  // a step may be a chain of the same type
      const TensorView between = detail::sample_view(scratch.as<std::byte>(), spec);
      detail::apply_transform(std::get<I>(transforms_), in, between, random);
      run<I + 1>(between, out, random);
    }
  }

  std::tuple<Ts...> transforms_;
};

}  // namespace sluice::gluon::data

namespace sluice::gluon::data::vision {

/// Images (H, W, C) of uint8 to (C, H, W) of float32, divided by 255 (Gluon's transforms.ToTensor).
class SLUICE_API ToTensor {
 public:
  /// Throws DTypeError unless `in` is uint8, ShapeError unless it has three axes.
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out) const;
  void apply_batch(std::span<const void* const> rows, const ArraySpec& in, const TensorView& out) const;
};

/// (x - mean[c]) / std[c] for images (C, H, W) of float32 (Gluon's transforms.Normalize); one value serves all
/// channels.
class SLUICE_API Normalize {
 public:
  /// Throws ValueError unless the lists have one length, at least 1, and every std is positive; all as float32, where
  /// 1e-60 is 0.
  Normalize(std::vector<double> mean, std::vector<double> std);
  Normalize(double mean, double std) : Normalize(std::vector<double>{mean}, std::vector<double>{std}) {}
  /// Throws DTypeError unless `in` is float32, ShapeError unless it is (C, H, W) with as many channels.
  ArraySpec output_spec(const ArraySpec& in) const;
  void operator()(const TensorView& in, const TensorView& out) const;

 private:
  std::vector<float> mean_, std_;
};

}  // namespace sluice::gluon::data::vision
