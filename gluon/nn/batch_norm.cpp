#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/nn/batch_norm.h>
#include <sluice/ndarray/shape.h>
#include <sluice/operator/elementwise/elementwise.h>

namespace sluice::gluon::nn {

namespace {

ParameterOptions trained(bool is, std::int64_t channels, const init::Initializer& init) {
  return {.shape = {channels}, .grad_req = is ? GradReq::write : GradReq::null, .init = init};
}

}  // namespace

BatchNorm::BatchNorm(BatchNormOptions options)
    : settings_{
          .eps = options.epsilon,
          .momentum = options.momentum,
          .axis = options.axis,
          .use_global_stats = options.use_global_stats,
          .fix_gamma = !options.scale},
      gamma_(parameter("gamma", trained(options.scale, options.in_channels, options.gamma_initializer))),
      beta_(parameter("beta", trained(options.center, options.in_channels, options.beta_initializer))),
      running_mean_(parameter("running_mean", trained(false, options.in_channels, options.running_mean_initializer))),
      running_var_(
          parameter("running_var", trained(false, options.in_channels, options.running_variance_initializer))) {
  require(options.in_channels >= 0 && options.epsilon > 0 && options.momentum >= 0 && options.momentum <= 1, [&] {
    return message(
        "nn::BatchNorm: in_channels = ",
        options.in_channels,
        " must be >= 0, epsilon = ",
        options.epsilon,
        " > 0 and momentum = ",
        options.momentum,
        " within [0, 1]");
  });
  note_options(gluon::detail::norm_notes(gamma_, options));
}

// Each of them may have its value already, from a file that lacks the others.
void BatchNorm::complete(const NDArray& x) const {
  for (const Parameter* parameter : {&gamma_, &beta_, &running_mean_, &running_var_}) {
    if (!parameter->is_initialized()) [[unlikely]]
      parameter->complete({x.shape()[normal_axis(settings_.axis, x.ndim(), "BatchNorm")]});
  }
}

NDArray BatchNorm::forward(const NDArray& x) const {
  complete(x);
  return batch_norm(x, gamma_.data(), beta_.data(), running_mean_.data(), running_var_.data(), settings_, call_site());
}

NDArray BatchNormReLU::forward(const NDArray& x) const {
  return relu(BatchNorm::forward(x), call_site());
}

void BatchNorm::cast(DType dtype) {
  Block::cast(size_of(dtype) < size_of(float32) ? float32 : dtype);
}

}  // namespace sluice::gluon::nn
