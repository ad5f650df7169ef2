#include <cmath>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/nn/rotary.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/nothing.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon::nn {

namespace {

using sluice::detail::unseen_shape;

/// Of each of `length` vectors, (.., length), as float64.
NDArray positions_of(std::span<const NDArray> inputs, std::int64_t length) {
  const ArrayOptions as{.dtype = float64, .device = inputs[0].device()};
  if (inputs.size() < 2)
    return arange(0, static_cast<double>(length), 1, as);
  const NDArray& given = inputs[1];
  const Shape& shape = unseen_shape(given);
  require<ShapeError>(shape.ndim() == 0 || (shape.ndim() <= 2 && shape.back() == length), [&] {
    return message(
        "RotaryEmbedding: positions of shape ", shape, " are neither (), (", length, ",) nor (N, ", length, ")");
  });
  const std::int64_t batch = unseen_shape(inputs[0])[0];
  require<ShapeError>(shape.ndim() < 2 || shape[0] == batch || shape[0] == 1, [&] {
    return message(
        "RotaryEmbedding: positions of shape ", shape, " are those of ", shape[0], " sequences, there are ", batch);
  });
  NDArray positions = given.astype(float64);
  if (shape.ndim() == 0)
    return positions + arange(0, static_cast<double>(length), 1, as);
  for (int axis = unseen_shape(inputs[0]).ndim(); shape.ndim() == 2 && axis > 3; --axis)
    positions = positions.expand_dims(1);  // those between are turned alike
  return positions;
}

/// Entries that take turns, of two arrays alike, (N, .., L, width): (N, .., L, 2 width). `one` is the shape of one
/// sample of those, which has elements. No axis comes on top: there may be as many as arrays have.
NDArray taking_turns(const NDArray& first, const NDArray& second, const Shape& one) {
  const std::int64_t width = one.back();
  const Shape apart{-1, one.size() / one[0] / width, width, 1};
  Shape together = one;
  together[0] = -1;
  together[one.ndim() - 1] = 2 * width;
  return concat({first.reshape(apart), second.reshape(apart)}, 3).reshape(together);
}

}  // namespace

RotaryEmbedding::RotaryEmbedding(RotaryOptions options) : options_(options) {
  require(options.dims >= 0 && options.dims % 2 == 0 && options.base > 0 && std::isfinite(options.base), [&] {
    return message(
        "nn::RotaryEmbedding: dims = ",
        options.dims,
        " must be even and not negative, base = ",
        options.base,
        " positive and finite");
  });
  const RotaryOptions usual;
  note_options(OptionNotes()
                   .add("base", options.base, usual.base)
                   .add("interleaved", options.interleaved, usual.interleaved)
                   .add("dims", options.dims, usual.dims));
}

Arrays RotaryEmbedding::forward_all(std::span<const NDArray> inputs) const {
  if (inputs.size() != 2)
    require_inputs(inputs, 1);
  const OriginScope here(call_site());
  const NDArray& x = inputs[0];
  const int axes = unseen_shape(x).ndim();
  require<ShapeError>(
      axes >= 3, [&] { return message("RotaryEmbedding: takes (N, .., length, width), not ", unseen_shape(x)); });
  require<DTypeError>(is_floating(x.dtype()), [&] { return message("RotaryEmbedding: cannot turn ", x.dtype()); });
  Shape one = x.slice(0, 0, 1).shape();
  one[0] = 1;
  const std::int64_t width = one.back(), dims = options_.dims == 0 ? width : options_.dims, half = dims / 2;
  require<ShapeError>(dims <= width && dims % 2 == 0, [&] {
    return message("RotaryEmbedding: of a width of ", width, " cannot turn ", dims, " in pairs");
  });

  const NDArray positions = positions_of(inputs, one[axes - 2]);
  if (sluice::detail::is_empty_beside_batch(one))
    return {sluice::detail::zeros_from({&x, 1}, {}, one, SourceLocation::current())};

  const DType wide = x.dtype() == float64 ? float64 : float32;
  const NDArray number = arange(0, static_cast<double>(half), 1, {.dtype = float64, .device = x.device()});
  const NDArray rates = exp(number * (-2 * std::log(options_.base) / static_cast<double>(dims)));
  const NDArray angles = positions.expand_dims(-1) * rates;
  const NDArray c = cos(angles).astype(wide), s = sin(angles).astype(wide);
  const auto part = [&](std::int64_t begin, std::int64_t end, std::int64_t step) {
    return x.slice(axes - 1, begin, end, step).astype(wide);
  };
  const bool between = options_.interleaved;
  const NDArray a = between ? part(0, dims, 2) : part(0, half, 1), b = between ? part(1, dims, 2) : part(half, dims, 1);
  const NDArray first = a * c - b * s, second = b * c + a * s;
  one[axes - 1] = half;
  NDArray turned = between ? taking_turns(first, second, one) : concat({first, second}, axes - 1);
  turned = turned.astype(x.dtype());
  if (dims == width)
    return {turned};
  return {concat({turned, x.slice(axes - 1, dims, width)}, axes - 1)};
}

}  // namespace sluice::gluon::nn
