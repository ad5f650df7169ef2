#include <algorithm>
#include <string_view>
#include <vector>

#include <boost/unordered/unordered_flat_map.hpp>

#include <sluice/engine/error.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/detail/grown.h>
#include <sluice/operator/operator.h>

namespace sluice::amp {

namespace {

// The one table: every operator stands in one list, but for gradients, which are computed as forward was. A test asks
// for new ones.

constexpr std::string_view k_low =
    "matmul dot batch_dot inner tensordot einsum dense dense_relu convolution convolution_relu convolution1d "
    "convolution3d deconvolution deconvolution1d deconvolution3d scaled_dot_product_attention packed_attention "
    "prelu rnn rnn_lengths";

// Of half types too narrow in range (exponentials, powers, sums) or in digits (norms, losses); decompositions have no
// kernels for them.
constexpr std::string_view k_float32 =
    "exp exp2 expm1 log log10 log1p log2 logaddexp logaddexp2 logit log_sigmoid softplus power float_power xlogy "
    "xlog1py square reciprocal rsqrt rcbrt cosh sinh tan arccos arccosh arcsin arcsinh arctanh erfinv gamma gammaln "
    "digamma polygamma sum mean prod variance standard_deviation norm l1_norm l2_norm max_norm nansum nanmean nanprod "
    "nanvar nanstd "
    "nancumsum nancumprod "
    "logsumexp cumsum cumprod linear_recurrence vdot trace lp_pool1d lp_pool2d lp_pool3d softmax log_softmax "
    "masked_softmax "
    "masked_log_softmax softmax_cross_entropy softmax_cross_entropy_both negative_log_likelihood "
    "weighted_cross_entropy weighted_likelihood ctc_loss smooth_l1 "
    "layer_norm group_norm instance_norm rms_norm l2_normalization local_response_norm deformable_convolution "
    "cosine_similarity cov corrcoef softmin "
    "cholesky triangular_solve solve inverse pinv lstsq det slogdet qr svd eigh";

constexpr std::string_view k_widest =
    "add subtract multiply divide mod fmod floor_divide maximum minimum fmax fmin hypot arctan2 copysign heaviside "
    "addcmul lerp kron outer equal not_equal less less_equal greater greater_equal isclose concat searchsorted "
    "box_iou roi_align grid_sample interp isin stack trapezoid nextafter divmod digitize";

// What keeps its type, has an own rule for mixed types (batch norm: float32 statistics of a half x), writes what it is
// given, or is made by passes.
constexpr std::string_view k_neutral =
    "abs adabelief_update adadelta_update adafactor_update adagrad_update adam_update adamax_update adamw_update "
    "adaptive_avg_pool2d "
    "adaptive_max_pool2d add_along_axis add_layer_norm add_rms_norm add_runs all any arange arctan argmax argmin "
    "argsort astype attention_fused "
    "avg_pool1d avg_pool2d avg_pool3d batch_norm batch_norm_fold batch_norm_predict batch_norm_relu bincount "
    "bitwise_and bitwise_not bitwise_or bitwise_xor box_nms broadcast_like broadcast_to cbrt ceil celu channels_last "
    "clip col2im cond convolution_fused convolution_relu_pool copy cos count_nonzero ctc_alignment cummax cummin "
    "dcasgd_update degrees depth_to_space "
    "detach diagonal diff divide_by_terms dropout elu embedding erf erfc expand_dims fill flip floor fold_rows foreach "
    "ftml_update ftrl_update full fused fused_reduction gather_nd gcd gelu gelu_tanh glu gradient_guard "
    "group_adagrad_update grid_places "
    "hard_shrink "
    "hard_sigmoid "
    "hard_swish hard_tanh histogram im2col index_add index_add_nd index_assign index_update index_update_nd isfinite "
    "isinf isnan isneginf isposinf join_heads lamb_update lans_update lars_update lbsgd_update lcm ldexp leaky_relu "
    "left_shift logical_and "
    "logical_not "
    "logical_or logical_xor loss_scale_update masked_fill max max_pool1d max_pool2d max_pool2d_gather max_pool3d min "
    "mish "
    "nadam_update nag_update nan_to_num nanmax nanmin negative nms_mask one_hot pad pad_edge pad_reflect pick "
    "pixel_shuffle "
    "pixel_unshuffle plane_samples plane_slopes ptp put put_along_axis put_places quantile radians random_bernoulli "
    "random_beta random_exponential "
    "random_gamma random_gumbel random_laplace random_normal random_poisson random_randint random_truncated_normal "
    "random_uniform relu relu6 repeat reshape resize2d resize_planes right_shift rmsprop_update roi_samples roll round "
    "run_begins sample_categorical sample_gamma sample_poisson scatter_nd selu sequence_last sequence_mask "
    "sequence_reverse sgd_update sgld_update sigmoid sign signbit signum_update silu sin sinc slice slice_assign "
    "slice_axes "
    "softshrink softsign sort sort_with_indices space_to_depth split split_heads sqrt squeeze take take_along_axis "
    "take_places "
    "tanh tap_places threshold tile to topk topk_mask transpose true_entries true_places trunc undiagonal unfold_rows "
    "unslice unslice_axes upsampling where while_loop words "
    "adaptive_avg_pool1d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool3d diag eye frexp linspace median "
    "meshgrid modf moveaxis nanargmax nanargmin nanmedian nanpercentile nanquantile percentile positive random_choice "
    "random_permutation rot90 sample_multinomial tril triu";

template <class Each>
constexpr void for_each_name(std::string_view names, const Each& each) {
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(' ', at), names.size());
    each(names.substr(at, end - at));
    at = end + 1;
  }
}

constexpr bool stands_once() {
  std::vector<std::string_view> all;
  for (const std::string_view list : {k_low, k_float32, k_widest, k_neutral})
    for_each_name(list, [&](std::string_view name) { all.push_back(name); });
  std::sort(all.begin(), all.end());
  return std::adjacent_find(all.begin(), all.end()) == all.end();
}
static_assert(stands_once(), "an operator has two rules");

using ByName = boost::unordered_flat_map<std::string_view, CastRule>;

ByName listed_rules() {
  ByName all;
  const auto add = [&](std::string_view names, CastRule rule) {
    for_each_name(names, [&](std::string_view name) { all.emplace(name, rule); });
  };
  add(k_low, CastRule::low);
  add(k_float32, CastRule::float32);
  add(k_widest, CastRule::widest);
  add(k_neutral, CastRule::neutral);
  return all;
}

// Never destroyed: threads may ask to the very end.
sluice::detail::Grown<ByName>& rules() {
  static auto* const made = new sluice::detail::Grown<ByName>(listed_rules());
  return *made;
}

}  // namespace

CastRule cast_rule(std::string_view op) {
  const ByName& all = rules().now();
  const auto found = all.find(op);
  return found == all.end() ? CastRule::neutral : found->second;
}

std::vector<std::string_view> operators_with(CastRule rule) {
  std::vector<std::string_view> names;
  for (const auto& [name, own] : rules().now()) {
    if (own == rule)
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void set_cast_rule(std::string_view op, CastRule rule) {
  const Operator* const known = find_operator(op);
  require<ValueError>(
      known != nullptr, [&] { return message("set_cast_rule: there is no operator ", op, "; register it first"); });
  const bool is_gradient = op.find("_backward") != std::string_view::npos;
  rules().add([&](ByName& all) {
    require<ValueError>(!is_gradient && all.emplace(known->name, rule).second, [&] {
      return message("set_cast_rule: ", op, " has a rule");
    });
  });
}

}  // namespace sluice::amp
