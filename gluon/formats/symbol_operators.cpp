#include <limits>

#include <sluice/engine/error.h>
#include <sluice/gluon/formats/symbol_node.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/api.h>
#include <sluice/operator/normalise.h>

// What computes each of MXNet's operators. The documentation of its symbols says what attributes mean.
namespace sluice::gluon::formats {

namespace {

using Inputs = std::span<const NDArray>;
using Attributes = SymbolAttributes;

NDArray input_or_none(Inputs inputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : NDArray();
}

/// Layers with a bias, the third of their arrays, have one or say that they have not.
void check_bias(const Attributes& a, std::size_t inputs) {
  if (inputs < 3 && !a.flag("no_bias", false))
    a.find_damaged("has neither a bias nor no_bias");
}

/// What windows have of each axis.
void check_windows(const Attributes& a, const Shape& kernel) {
  for (const char* const key : {"stride", "pad", "dilate"}) {
    if (a.numbers(key, kernel).ndim() != kernel.ndim())
      a.find_damaged(message(key, " ", a.text(key, ""), " is not of the kernel's axes, ", kernel));
  }
}

void check_convolution(const Attributes& a, std::size_t inputs) {
  const Shape kernel = a.numbers("kernel", {});
  if (kernel.ndim() != 1 && kernel.ndim() != 2)
    a.refuse(message("Convolution with a kernel of ", kernel, "; those of one and two axes have a counterpart"));
  check_windows(a, kernel);
  check_bias(a, inputs);
}

Arrays convolve(const Attributes& a, Inputs x) {
  const Shape kernel = a.numbers("kernel", {});
  const Shape& weight = sluice::detail::unseen_shape(x[1]);
  for (int axis = 0; axis < kernel.ndim(); ++axis) {
    require<ShapeError>(weight.ndim() == kernel.ndim() + 2 && weight[axis + 2] == kernel[axis], [&] {
      return message("Convolution: a weight of shape ", weight, " is not of the kernel ", kernel);
    });
  }
  const NDArray bias = a.flag("no_bias", false) ? NDArray() : input_or_none(x, 2);
  if (kernel.ndim() == 1) {
    return {convolution1d(
        x[0],
        x[1],
        bias,
        {.stride = a.numbers("stride", {1})[0],
         .pad = a.numbers("pad", {0}),
         .dilation = a.numbers("dilate", {1})[0],
         .groups = a.integer("num_group", 1)})};
  }
  return {convolution(
      x[0],
      x[1],
      bias,
      {.stride = a.numbers("stride", {1, 1}),
       .pad = a.numbers("pad", {0, 0}),
       .dilation = a.numbers("dilate", {1, 1}),
       .groups = a.integer("num_group", 1)})};
}

Arrays fully_connected(const Attributes& a, Inputs x) {
  const NDArray bias = a.flag("no_bias", false) ? NDArray() : input_or_none(x, 2);
  return {dense(x[0], x[1], bias, {.flatten = a.flag("flatten", true)})};
}

Arrays normalise_batch(const Attributes& a, Inputs x) {
  return {batch_norm(
      x[0],
      x[1],
      x[2],
      x[3],
      x[4],
      {.eps = a.number("eps", 1e-3),
       .momentum = a.number("momentum", 0.9),
       .axis = a.axis("axis", 1),
       .use_global_stats = a.flag("use_global_stats", false),
       .fix_gamma = a.flag("fix_gamma", true)})};
}

void check_pool(const Attributes& a, std::size_t /*inputs*/) {
  const Shape kernel = a.numbers("kernel", {1, 1});
  if (a.flag("global_pool", false))
    return;
  if (kernel.ndim() != 2)
    a.refuse(message("Pooling with a kernel of ", kernel, "; those of two axes have a counterpart"));
  check_windows(a, kernel);
}

/// MXNet counts windows that begin behind the last value, too, where sizes are rounded up: of nothing, they give
/// something or other.
void refuse_windows_of_nothing(const Attributes& a, const NDArray& x, const PoolOptions& options) {
  const Shape& shape = sluice::detail::unseen_shape(x);
  for (int axis = 0; axis < 2 && shape.ndim() == 4; ++axis) {
    const std::int64_t size = shape[axis + 2], kernel = options.kernel[axis], stride = options.stride[axis];
    const std::int64_t pad = options.pad[axis], most = std::numeric_limits<std::int32_t>::max();
    if (stride < 1 || stride > most || kernel < 1 || kernel > most || pad < 0 || pad > most)
      continue;  // the operator says so
    const std::int64_t steps = (size + 2 * pad - kernel + stride - 1) / stride;
    if (steps * stride >= size + pad)
      a.refuse(message("Pooling of ", shape, " by the convention \"full\" has a window of nothing on axis ", axis + 2));
  }
}

Arrays pool(const Attributes& a, Inputs x) {
  const Shape kernel = a.numbers("kernel", {1, 1});
  const bool global = a.flag("global_pool", false);
  const PoolOptions options{
      .kernel = global ? Shape{1, 1} : kernel,
      .stride = global ? Shape{1, 1} : a.numbers("stride", {1, 1}),
      .pad = global ? Shape{0, 0} : a.numbers("pad", {0, 0}),
      .ceil_mode = a.text("pooling_convention", "valid") == "full",
      .count_include_pad = a.flag("count_include_pad", true),
      .global = global};
  if (options.ceil_mode && !global)
    refuse_windows_of_nothing(a, x[0], options);
  return {a.text("pool_type", "max") == "max" ? max_pool2d(x[0], options) : avg_pool2d(x[0], options)};
}

Arrays activate(const Attributes& a, Inputs x) {
  const std::string type = a.text("act_type", "");
  if (type == "relu")
    return {relu(x[0])};
  if (type == "sigmoid")
    return {sigmoid(x[0])};
  if (type == "tanh")
    return {tanh(x[0])};
  if (type == "softrelu")
    return {softplus(x[0])};
  if (type == "softsign")
    return {softsign(x[0])};
  a.refuse(message("Activation with act_type = ", type));
}

Arrays leaky(const Attributes& a, Inputs x) {
  const std::string type = a.text("act_type", "leaky");
  const double slope = a.number("slope", 0.25);
  if (type == "leaky")
    return {leaky_relu(x[0], slope)};
  if (type == "elu")
    return {elu(x[0], slope)};
  if (type == "selu")
    return {selu(x[0])};
  if (type == "gelu")
    return {gelu(x[0])};
  a.refuse(message("LeakyReLU with act_type = ", type));
}

void check_reshape(const Attributes& a, std::size_t /*inputs*/) {
  const Shape wanted = a.numbers("shape", {});
  for (int axis = 0; axis < wanted.ndim(); ++axis) {
    if (wanted[axis] < -1)
      a.refuse(message("Reshape to ", wanted, " has a code below -1, which has no counterpart"));
  }
}

/// Whether samples stay what they are.
bool keeps_samples(const Shape& wanted) {
  return !wanted.empty() && wanted[0] == 0;
}

/// The same shape of so many elements with -1 for the first axis, so that the shape is that of other batches, too.
Shape with_samples_open(Shape target, std::int64_t size) {
  std::int64_t known = 1;
  int open = 0;
  for (int axis = 0; axis < target.ndim(); ++axis) {
    if (target[axis] == -1)
      open = axis;
    else if (__builtin_mul_overflow(known, target[axis], &known))
      return target;
  }
  if (known == 0 || size % known != 0)
    return target;
  if (open > 0)
    target[open] = size / known;
  return sluice::detail::with_open_rows(target);
}

Arrays reshape_as_told(const Attributes& a, Inputs x) {
  const Shape wanted = a.numbers("shape", {});
  const Shape& shape = sluice::detail::unseen_shape(x[0]);
  Shape target;
  for (int axis = 0; axis < wanted.ndim(); ++axis) {
    require<ShapeError>(wanted[axis] != 0 || axis < shape.ndim(), [&] {
      return message("Reshape: ", wanted, " keeps an axis that an array of ", shape.ndim(), " axes has not");
    });
    target.push_back(wanted[axis] == 0 ? shape[axis] : wanted[axis]);
  }
  return {x[0].reshape(keeps_samples(wanted) ? with_samples_open(target, shape.size()) : target)};
}

Arrays join(const Attributes& a, Inputs x) {
  return {concat(x, a.axis("dim", 1))};
}

Arrays cut(const Attributes& a, Inputs x) {
  const int axis = a.axis("axis", 1);
  std::vector<NDArray> parts = split(x[0], a.integer("num_outputs", 1), axis);
  Arrays found;
  for (NDArray& part : parts)
    found.push_back(a.flag("squeeze_axis", false) ? part.squeeze(axis) : std::move(part));
  return found;
}

Arrays cut_axis(const Attributes& a, Inputs x) {
  return {
      x[0].slice(a.axis("axis", 0), a.integer("begin", 0), a.integer("end", std::numeric_limits<std::int64_t>::max()))};
}

/// A bound as whole numbers of that type have it: without its fraction, and within the type.
Scalar whole_bound(double bound, DType dtype) {
  const int bits = static_cast<int>(8 * size_of(dtype)) - (dtype == uint8 ? 0 : 1);
  const auto most = static_cast<std::int64_t>((std::uint64_t{1} << bits) - 1);
  const std::int64_t least = dtype == uint8 ? 0 : -most - 1;
  if (!(bound > static_cast<double>(least)))
    return least;
  return bound >= static_cast<double>(most) ? most : static_cast<std::int64_t>(bound);
}

Arrays clip_to(const Attributes& a, Inputs x) {
  const double low = a.number("a_min", 0), high = a.number("a_max", 0);
  const DType dtype = x[0].dtype();
  if (is_floating(dtype) || dtype == bool_)
    return {clip(x[0], low, high)};
  return {clip(x[0], whole_bound(low, dtype), whole_bound(high, dtype))};
}

template <NDArray (*F)(const NDArray&, int, SourceLocation)>
Arrays along_axis(const Attributes& a, Inputs x) {
  const double temperature = a.number("temperature", 1);
  return {F(temperature == 1 ? x[0] : x[0] / temperature, a.axis("axis", -1), SourceLocation::current())};
}

/// The output layers of Module, without their labels: predictions. All axes but the first are classes, or the second.
Arrays softmax_output(const Attributes& a, Inputs x) {
  if (a.flag("multi_output", false))
    return {softmax(x[0], 1)};
  const Shape& shape = sluice::detail::unseen_shape(x[0]);
  if (shape.ndim() < 3)
    return {softmax(x[0], -1)};
  return {softmax(x[0].flatten(), -1).reshape(sluice::detail::with_open_rows(shape))};
}
Arrays as_it_is(const Attributes& /*a*/, Inputs x) {
  return {x[0]};
}
Arrays logistic_output(const Attributes& /*a*/, Inputs x) {
  return {sigmoid(x[0])};
}

template <NDArray (*F)(const NDArray&, const Shape&, bool, SourceLocation)>
Arrays reduce(const Attributes& a, Inputs x) {
  const NDArray found = F(x[0], a.numbers("axis", {}), a.flag("keepdims", false), SourceLocation::current());
  return {sluice::detail::unseen_shape(found).ndim() == 0 ? found.reshape({1}) : found};  // arrays have an axis there
}

Arrays normalise_layer(const Attributes& a, Inputs x) {
  return {layer_norm(x[0], x[1], x[2], a.axis("axis", -1), a.number("eps", 1e-5))};
}

template <NDArray (*F)(const NDArray&, SourceLocation)>
Arrays each(const Attributes& /*a*/, Inputs x) {
  return {F(x[0], SourceLocation::current())};
}
using Table = SymbolOperators;

void add_layers(Table& all) {
  const std::vector<std::string_view> no{"False", "0"};
  all["Convolution"] = {
      .call = &convolve,
      .attributes = {"kernel", "stride", "dilate", "pad", "num_filter", "num_group", "no_bias"},
      .least_inputs = 2,
      .only = {{"layout", {"NCHW", "NCW"}}},
      .required = {"kernel"},
      .check = &check_convolution};
  all["FullyConnected"] = {
      .call = &fully_connected,
      .attributes = {"num_hidden", "no_bias", "flatten"},
      .least_inputs = 2,
      .check = &check_bias};
  all["BatchNorm"] = {
      .call = &normalise_batch,
      .attributes = {"eps", "momentum", "axis", "use_global_stats", "fix_gamma"},
      .least_inputs = 5,
      .statistics = {3, 4},
      .only = {{"output_mean_var", no}}};
  all["Pooling"] = {
      .call = &pool,
      .attributes = {"kernel", "stride", "pad", "global_pool", "count_include_pad"},
      .only = {{"layout", {"NCHW"}}, {"pool_type", {"max", "avg"}}, {"pooling_convention", {"valid", "full"}}},
      .check = &check_pool};
  all["Activation"] = {
      .call = &activate,
      .only = {{"act_type", {"relu", "sigmoid", "tanh", "softrelu", "softsign"}}},
      .required = {"act_type"}};
  all["LeakyReLU"] = {
      .call = &leaky,
      .attributes = {"slope", "lower_bound", "upper_bound"},
      .only = {{"act_type", {"leaky", "elu", "selu", "gelu"}}}};
  all["Dropout"] = {
      .call = [](const Attributes& a, Inputs x) -> Arrays { return {dropout(x[0], a.number("p", 0.5))}; },
      .attributes = {"p"},
      .only = {{"mode", {"training"}}, {"axes", {"()", "[]"}}}};
  all["LayerNorm"] = {
      .call = &normalise_layer, .attributes = {"axis", "eps"}, .least_inputs = 3, .only = {{"output_mean_var", no}}};
  for (const std::string_view name : {"SoftmaxOutput", "Softmax"}) {
    all[name] = {
        .call = &softmax_output,
        .attributes =
            {"multi_output", "grad_scale", "ignore_label", "use_ignore", "normalization", "out_grad", "smooth_alpha"},
        .label = 1,
        .only = {{"preserve_shape", no}}};
  }
  for (const std::string_view name : {"LinearRegressionOutput", "MAERegressionOutput"})
    all[name] = {.call = &as_it_is, .attributes = {"grad_scale"}, .label = 1};
  all["LogisticRegressionOutput"] = {.call = &logistic_output, .attributes = {"grad_scale"}, .label = 1};
  all["softmax"] = {.call = &along_axis<softmax>, .attributes = {"axis", "temperature"}, .only = {{"use_length", no}}};
  all["log_softmax"] = {
      .call = &along_axis<log_softmax>, .attributes = {"axis", "temperature"}, .only = {{"use_length", no}}};
}

template <NDArray (*f)(const NDArray&, std::int64_t, SourceLocation)>
Arrays blocks(const Attributes& a, Inputs x) {
  return {f(x[0], a.integer("block_size", 0), SourceLocation::current())};
}

void add_shapes(Table& all) {
  for (const std::string_view name : {"Flatten", "flatten"})
    all[name] = {.call = [](const Attributes& /*a*/, Inputs x) -> Arrays { return {x[0].flatten()}; }};
  for (const std::string_view name : {"Reshape", "reshape"})
    all[name] = {
        .call = &reshape_as_told,
        .attributes = {"shape"},
        .only = {{"reverse", {"False", "0"}}},
        .required = {"shape"},
        .check = &check_reshape};
  for (const std::string_view name : {"Concat", "concat"})
    all[name] = {.call = &join, .attributes = {"dim"}};
  for (const std::string_view name : {"SliceChannel", "split"})
    all[name] = {.call = &cut, .attributes = {"num_outputs", "axis", "squeeze_axis"}, .required = {"num_outputs"}};
  all["slice_axis"] = {.call = &cut_axis, .attributes = {"axis", "begin", "end"}, .required = {"axis", "begin"}};
  all["transpose"] = {
      .call = [](const Attributes& a, Inputs x) -> Arrays { return {x[0].transpose(a.numbers("axes", {}))}; },
      .attributes = {"axes"}};
  all["depth_to_space"] = {.call = &blocks<depth_to_space>, .attributes = {"block_size"}, .required = {"block_size"}};
  all["space_to_depth"] = {.call = &blocks<space_to_depth>, .attributes = {"block_size"}, .required = {"block_size"}};
  all["expand_dims"] = {
      .call = [](const Attributes& a, Inputs x) -> Arrays { return {x[0].expand_dims(a.axis("axis", 0))}; },
      .attributes = {"axis"},
      .required = {"axis"}};
}

void add_functions(Table& all) {
  for (const std::string_view name : {"_copy", "identity"})
    all[name] = {.call = &as_it_is};
  for (const std::string_view name : {"BlockGrad", "stop_gradient"})
    all[name] = {.call = [](const Attributes& /*a*/, Inputs x) -> Arrays { return {x[0].detach()}; }};
  all["clip"] = {.call = &clip_to, .attributes = {"a_min", "a_max"}, .required = {"a_min", "a_max"}};
  all["relu"] = {.call = &each<relu>};
  all["sigmoid"] = {.call = &each<sigmoid>};
  all["tanh"] = {.call = &each<tanh>};
  all["exp"] = {.call = &each<exp>};
  all["log"] = {.call = &each<log>};
  all["sqrt"] = {.call = &each<sqrt>};
  all["square"] = {.call = &each<square>};
  all["abs"] = {.call = &each<abs>};
  all["negative"] = {.call = &each<negative>};
  const std::map<std::string_view, std::vector<std::string_view>> no_more{{"exclude", {"False", "0"}}};
  all["mean"] = {.call = &reduce<mean>, .attributes = {"axis", "keepdims"}, .only = no_more};
  all["sum"] = {.call = &reduce<sum>, .attributes = {"axis", "keepdims"}, .only = no_more};
  all["max"] = {.call = &reduce<max>, .attributes = {"axis", "keepdims"}, .only = no_more};
}

}  // namespace

const SymbolOperators& symbol_operators() {
  static const Table table = [] {
    Table all;
    add_layers(all);
    add_shapes(all);
    add_functions(all);
    add_arithmetic(all);
    add_sequences(all);
    return all;
  }();
  return table;
}

}  // namespace sluice::gluon::formats
