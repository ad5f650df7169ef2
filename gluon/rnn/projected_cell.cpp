#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/detail/mixed_types.h>
#include <sluice/gluon/detail/projected_lstm.h>
#include <sluice/gluon/rnn/cell.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/shape_watch.h>

namespace sluice::gluon::rnn {

using sluice::detail::unseen_shape;

namespace {
// Checked before the parameters are declared.
std::int64_t rows_of(std::int64_t hidden, std::int64_t projection, std::int64_t inputs) {
  const bool fits = sluice::detail::is_hidden_size(hidden) && projection >= 1 && projection <= hidden && inputs >= 0;
  require(fits, [&] {
    return message(
        "rnn::LSTMPCell: hidden_size ",
        hidden,
        " must be 1 to 2^31 - 1, projection_size ",
        projection,
        " 1 to hidden_size, input_size ",
        inputs,
        " >= 0");
  });
  return 4 * hidden;
}
}  // namespace

LSTMPCell::LSTMPCell(std::int64_t hidden_size, std::int64_t projection_size, LSTMPCellOptions o)
    : hidden_(hidden_size),
      projection_(projection_size),
      i2h_weight_(parameter(
          "i2h_weight",
          {.shape = {rows_of(hidden_size, projection_size, o.input_size), o.input_size},
           .dtype = o.dtype,
           .init = o.i2h_weight_initializer})),
      h2h_weight_(parameter(
          "h2h_weight",
          {.shape = {4 * hidden_size, projection_size}, .dtype = o.dtype, .init = o.h2h_weight_initializer})),
      h2r_weight_(parameter(
          "h2r_weight", {.shape = {projection_size, hidden_size}, .dtype = o.dtype, .init = o.h2r_weight_initializer})),
      i2h_bias_(parameter("i2h_bias", {.shape = {4 * hidden_size}, .dtype = o.dtype, .init = o.i2h_bias_initializer})),
      h2h_bias_(parameter("h2h_bias", {.shape = {4 * hidden_size}, .dtype = o.dtype, .init = o.h2h_bias_initializer})) {
  note_options(gluon::detail::recurrent_notes(i2h_weight_, hidden_size, o).add("projection_size", projection_size));
}

Arrays LSTMPCell::begin_state(std::int64_t batch_size, Device device) const {
  const ArrayOptions as{.dtype = h2h_weight_.dtype(), .device = device};
  return {zeros({batch_size, projection_}, as), zeros({batch_size, hidden_}, as)};
}

Arrays LSTMPCell::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 3);
  const NDArray& x = inputs[0];
  const Shape& shape = unseen_shape(x);
  require<ShapeError>(shape.ndim() == 2, [&] { return message("rnn::LSTMPCell: x must be (N, C), not ", shape); });
  const Shape h{shape[0], projection_}, c{shape[0], hidden_};
  require<ShapeError>(unseen_shape(inputs[1]) == h && unseen_shape(inputs[2]) == c, [&] {
    return message("rnn::LSTMPCell: states must be ", h, " and ", c, " beside x of shape ", shape);
  });
  if (!i2h_weight_.is_initialized()) [[unlikely]]
    i2h_weight_.complete({4 * hidden_, shape[1]});
  require<DTypeError>(gluon::detail::goes_with(x, i2h_weight_.data()), [&] {
    return message("rnn::LSTMPCell: x is ", x.dtype(), ", weights are ", i2h_weight_.data().dtype(), "; cast one");
  });
  const gluon::detail::ProjectedWeights weights{
      {i2h_weight_.data(), h2h_weight_.data(), i2h_bias_.data(), h2h_bias_.data()}, h2r_weight_.data(), {}};
  const SourceLocation site = call_site();
  const NDArray product = sluice::detail::input_product(RnnMode::lstm, x, weights.gates, site);
  const Arrays after = gluon::detail::projected_step(product, {inputs[1], inputs[2]}, weights, site);
  return {after[0], after[0], after[1]};
}

}  // namespace sluice::gluon::rnn
