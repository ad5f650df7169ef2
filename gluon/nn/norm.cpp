#include <initializer_list>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_notes.h>
#include <sluice/gluon/nn/norm.h>
#include <sluice/ndarray/shape.h>
#include <sluice/operator/norm/layer_norm.h>

namespace sluice::gluon::nn {

namespace {

ParameterOptions trained(bool is, std::int64_t channels, const init::Initializer& init) {
  return {.shape = {channels}, .grad_req = is ? GradReq::write : GradReq::null, .init = init};
}

void check_options(const char* layer, std::int64_t in_channels, double epsilon) {
  require(in_channels >= 0 && epsilon >= 0, [&] {
    return message(layer, ": in_channels = ", in_channels, " and epsilon = ", epsilon, " must be >= 0");
  });
}

// Each of them may have its value already, from a file that lacks the others.
void complete(const NDArray& x, int axis, const char* layer, std::initializer_list<Parameter*> parameters) {
  for (Parameter* const parameter : parameters) {
    if (!parameter->is_initialized()) [[unlikely]]
      parameter->complete({x.shape()[normal_axis(axis, x.ndim(), layer)]});
  }
}

}  // namespace

LayerNorm::LayerNorm(LayerNormOptions options)
    : axis_(options.axis),
      epsilon_(options.epsilon),
      gamma_(parameter("gamma", trained(options.scale, options.in_channels, options.gamma_initializer))),
      beta_(parameter("beta", trained(options.center, options.in_channels, options.beta_initializer))) {
  check_options("nn::LayerNorm", options.in_channels, options.epsilon);
  note_options(gluon::detail::norm_notes(gamma_, options));
}

NDArray LayerNorm::forward(const NDArray& x) const {
  complete(x, axis_, "LayerNorm", {&gamma_, &beta_});
  return layer_norm(x, gamma_.data(), beta_.data(), axis_, epsilon_, call_site());
}

RMSNorm::RMSNorm(RMSNormOptions options)
    : axis_(options.axis),
      epsilon_(options.epsilon),
      gamma_(parameter("gamma", trained(options.scale, options.in_channels, options.gamma_initializer))) {
  check_options("nn::RMSNorm", options.in_channels, options.epsilon);
  note_options(gluon::detail::norm_notes(gamma_, options));
}

NDArray RMSNorm::forward(const NDArray& x) const {
  complete(x, axis_, "RMSNorm", {&gamma_});
  return rms_norm(x, gamma_.data(), axis_, epsilon_, call_site());
}

GroupNorm::GroupNorm(GroupNormOptions options)
    : num_groups_(options.num_groups),
      epsilon_(options.epsilon),
      gamma_(parameter("gamma", trained(options.scale, options.in_channels, options.gamma_initializer))),
      beta_(parameter("beta", trained(options.center, options.in_channels, options.beta_initializer))) {
  check_options("nn::GroupNorm", options.in_channels, options.epsilon);
  note_options(gluon::detail::norm_notes(gamma_, options));
  require(options.num_groups >= 1, [&] {
    return message("nn::GroupNorm: num_groups = ", options.num_groups, " must be >= 1");
  });
}

NDArray GroupNorm::forward(const NDArray& x) const {
  complete(x, 1, "GroupNorm", {&gamma_, &beta_});
  return group_norm(x, gamma_.data(), beta_.data(), num_groups_, epsilon_, call_site());
}

InstanceNorm::InstanceNorm(InstanceNormOptions options)
    : axis_(options.axis),
      epsilon_(options.epsilon),
      gamma_(parameter("gamma", trained(options.scale, options.in_channels, options.gamma_initializer))),
      beta_(parameter("beta", trained(options.center, options.in_channels, options.beta_initializer))) {
  check_options("nn::InstanceNorm", options.in_channels, options.epsilon);
  note_options(gluon::detail::norm_notes(gamma_, options));
}

NDArray InstanceNorm::forward(const NDArray& x) const {
  complete(x, axis_, "InstanceNorm", {&gamma_, &beta_});
  const SourceLocation site = call_site();
  if (axis_ == 1)
    return instance_norm(x, gamma_.data(), beta_.data(), epsilon_, site);
  const NDArray first = x.swapaxes(1, axis_, site);
  return instance_norm(first, gamma_.data(), beta_.data(), epsilon_, site).swapaxes(1, axis_, site);
}

}  // namespace sluice::gluon::nn
