#include <sluice/engine/error.h>
#include <sluice/gluon/nn/rectifiers.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon::nn {

LeakyReLU::LeakyReLU(double alpha) : alpha_(alpha) {
  require<ValueError>(alpha >= 0, [&] { return message("nn::LeakyReLU: alpha = ", alpha, " must be >= 0"); });
  note_options(OptionNotes().add("alpha", alpha));
}

NDArray LeakyReLU::forward(const NDArray& x) const {
  return leaky_relu(x, alpha_, call_site());
}

PReLU::PReLU(PReLUOptions options)
    : alpha_(parameter(
          "alpha", {.shape = {options.in_channels}, .dtype = options.dtype, .init = options.alpha_initializer})) {
  require<ValueError>(options.in_channels >= 1, [&] {
    return message("nn::PReLU: in_channels = ", options.in_channels, " must be >= 1");
  });
  note_options(OptionNotes().add("in_channels", options.in_channels).add("dtype", options.dtype, float32));
}

NDArray PReLU::forward(const NDArray& x) const {
  const NDArray& alpha = alpha_.data();
  const std::int64_t slopes = sluice::detail::unseen_shape(alpha)[0];
  if (slopes == 1)
    return prelu(x, alpha, call_site());
  // The same calls whatever the size of a batch.
  const Shape& shape = sluice::detail::unseen_shape(x);
  require<ShapeError>(shape.ndim() >= 2 && shape[1] == slopes, [&] {
    return message("PReLU: x of shape ", shape, " does not have ", slopes, " entries of axis 1, as alpha has");
  });
  Shape along = Shape::filled(shape.ndim() - 1, 1);
  along[0] = slopes;
  return prelu(x, alpha.reshape(along, call_site()), call_site());
}

ELU::ELU(double alpha) : alpha_(alpha) {
  note_options(OptionNotes().add("alpha", alpha));
}

NDArray ELU::forward(const NDArray& x) const {
  return elu(x, alpha_, call_site());
}

NDArray SELU::forward(const NDArray& x) const {
  return selu(x, call_site());
}

GELU::GELU(GELUForm form) : form_(form) {
  note_options(OptionNotes().add("form", form == GELUForm::erf ? "erf" : "tanh", "erf"));
}

NDArray GELU::forward(const NDArray& x) const {
  return form_ == GELUForm::erf ? gelu(x, call_site()) : gelu_tanh(x, call_site());
}

Swish::Swish(double beta) : beta_(beta) {
  note_options(OptionNotes().add("beta", beta, 1.0));
}

NDArray Swish::forward(const NDArray& x) const {
  return beta_ == 1 ? silu(x, call_site())
                    : multiply(x, sigmoid(multiply(x, beta_, call_site()), call_site()), call_site());
}

}  // namespace sluice::gluon::nn
