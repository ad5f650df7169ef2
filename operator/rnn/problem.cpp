#include <array>
#include <cmath>
#include <string_view>

#include <sluice/engine/error.h>
#include <sluice/operator/index_value.h>
#include <sluice/operator/rnn/problem.h>

namespace sluice {

namespace detail {

namespace {

constexpr std::array<const char*, 4> k_modes = {"rnn_relu", "rnn_tanh", "lstm", "gru"};  // as in RnnMode

void check_sizes(const char* op, std::int64_t input, std::int64_t hidden, std::int64_t layers) {
  require<ValueError>(is_hidden_size(hidden) && layers >= 1 && input >= 1, [&] {
    return message(
        op,
        ": state_size ",
        hidden,
        " must be 1 to 2^31 - 1, num_layers ",
        layers,
        " and the size of inputs, ",
        input,
        ", at least 1");
  });
}

// As a real number: whole ones may not hold it.
double count_of(const RnnProblem& p) {
  const auto directions = static_cast<double>(p.directions), hidden = static_cast<double>(p.hidden);
  const double above = static_cast<double>(p.layers - 1) * (directions * hidden + hidden + 2);
  return directions * static_cast<double>(p.gates()) * hidden * (static_cast<double>(p.input) + hidden + 2 + above);
}

std::int64_t checked_count(const char* op, const RnnProblem& p) {
  constexpr double k_most = 4e18;
  require<ValueError>(count_of(p) < k_most, [&] {
    return message(
        op, ": the parameters of ", p.layers, " layers of ", p.hidden, " units over ", p.input, " cannot be counted");
  });
  return p.parameters();
}

}  // namespace

RnnMode rnn_mode_of(const char* op, const std::string& name) {
  for (std::size_t i = 0; i < k_modes.size(); ++i) {
    if (name == k_modes[i])
      return static_cast<RnnMode>(i);
  }
  throw ValueError(message(op, ": mode is \"", name, "\", not rnn_relu, rnn_tanh, lstm or gru"));
}

const char* rnn_mode_name(RnnMode mode) noexcept {
  return k_modes[static_cast<std::size_t>(mode)];
}

// Weights of the layers before, then of the directions before.
std::int64_t RnnProblem::input_weights(std::int64_t layer, std::int64_t direction) const noexcept {
  const std::int64_t first = input + hidden, others = width() + hidden;
  const std::int64_t below = layer == 0 ? 0 : directions * rows() * (first + (layer - 1) * others);
  return below + direction * rows() * (input_of(layer) + hidden);
}
std::int64_t RnnProblem::state_weights(std::int64_t layer, std::int64_t direction) const noexcept {
  return input_weights(layer, direction) + rows() * input_of(layer);
}
std::int64_t RnnProblem::input_bias(std::int64_t layer, std::int64_t direction) const noexcept {
  return input_weights(layers, 0) + (layer * directions + direction) * 2 * rows();
}
std::int64_t RnnProblem::state_bias(std::int64_t layer, std::int64_t direction) const noexcept {
  return input_bias(layer, direction) + rows();
}

std::int64_t RnnProblem::cpu_reserve() const noexcept {
  const std::int64_t each = layers * directions * (kept_gates() + (has_cells() ? 1 : 0)) + (layers - 1) * directions;
  return steps * batch * hidden * each;
}

bool suits_persistent_kernels(const RnnProblem& p, int capability, int processors) noexcept {
  const bool has_room = capability >= 80 && capability % 10 != 6 && processors >= 98;
  const bool is_one = p.layers == 1 && p.directions == 1 && p.dtype == DType::float16 && p.mode != RnnMode::gru;
  const bool fits = p.hidden <= 1024 && p.hidden % 128 == 0 && p.input % 128 == 0 && p.batch % 8 == 0 && p.batch <= 128;
  return has_room && is_one && fits && (p.has_cells() || p.batch < 96 || p.hidden < 896);
}

RnnProblem rnn_problem(const Operator& op, const ArraySpec& x, const ArraySpec& parameters, const RnnAttributes& how) {
  require<ShapeError>(x.shape.ndim() == 3 && x.shape[0] >= 1 && x.shape[2] >= 1, [&] {
    return message(op.name, ": x must be (T, N, C) of a step and a number or more, not ", x.shape);
  });
  require<DTypeError>(is_floating(x.dtype) && parameters.dtype == x.dtype, [&] {
    return message(op.name, ": takes x and parameters of one floating type, not ", x.dtype, " and ", parameters.dtype);
  });
  RnnProblem p{.mode = rnn_mode_of(op.name, how.mode), .dtype = x.dtype};
  check_sizes(op.name, x.shape[2], how.state_size, how.num_layers);
  p.steps = x.shape[0];
  p.batch = x.shape[1];
  p.input = x.shape[2];
  p.hidden = how.state_size;
  p.layers = how.num_layers;
  p.directions = how.bidirectional ? 2 : 1;
  const std::int64_t wanted = checked_count(op.name, p);
  require<ShapeError>(parameters.shape == Shape{wanted}, [&] {
    return message(
        op.name,
        ": parameters must be ",
        Shape{wanted},
        " of ",
        p.layers,
        " layers (",
        how.mode,
        ") with ",
        p.hidden,
        " units over ",
        p.input,
        " inputs, not ",
        parameters.shape);
  });
  return p;
}

RnnProblem rnn_problem(const TensorView& x, const RnnAttributes& how) {
  return {
      .mode = rnn_mode_of("rnn", how.mode),
      .dtype = x.dtype,
      .steps = x.shape[0],
      .batch = x.shape[1],
      .input = x.shape[2],
      .hidden = how.state_size,
      .layers = how.num_layers,
      .directions = how.bidirectional ? 2 : 1};
}

RnnData rnn_forward_data(const KernelCall& call, const RnnProblem& problem) {
  const std::size_t states = problem.has_cells() ? 2 : 1, first = takes_lengths(call.op) ? 3 : 2;
  const bool has_states = call.inputs.size() > first;
  RnnData d{.x = call.inputs[0].data, .parameters = call.inputs[1].data};
  d.h0 = has_states ? call.inputs[first].data : nullptr;
  d.c0 = has_states && states == 2 ? call.inputs[first + 1].data : nullptr;
  d.y = call.outputs[0].data;
  d.h = call.outputs[1].data;
  d.c = states == 2 ? call.outputs[2].data : nullptr;
  // An empty array is not null: what is kept of a plain network is y alone, then nothing is written through it.
  d.kept = call.attributes.as<RnnAttributes>().keep ? call.outputs[1 + states].data : nullptr;
  return d;
}

RnnData rnn_backward_data(const KernelCall& call, const RnnProblem& problem) {
  const std::size_t states = problem.has_cells() ? 2 : 1, y = takes_lengths(call.op) ? 3 : 2, first = y + 3 + states;
  const bool has_states = call.inputs.size() > first;
  RnnData d{.x = call.inputs[0].data, .parameters = call.inputs[1].data};
  d.y = call.inputs[y].data;
  d.kept = call.inputs[y + 1].data;
  d.dy = call.inputs[y + 2].data;
  d.dh = call.inputs[y + 3].data;
  d.dc = states == 2 ? call.inputs[y + 4].data : nullptr;
  d.h0 = has_states ? call.inputs[first].data : nullptr;
  d.c0 = has_states && states == 2 ? call.inputs[first + 1].data : nullptr;
  d.dx = call.outputs[0].data;
  d.dparameters = call.outputs[1].data;
  d.dh0 = call.outputs[2].data;
  d.dc0 = states == 2 ? call.outputs[3].data : nullptr;
  return d;
}

std::vector<std::int64_t> rnn_lengths(const KernelCall& call, const RnnProblem& p) {
  std::vector<std::int64_t> lengths;
  if (!takes_lengths(call.op))
    return lengths;
  const TensorView& given = call.inputs[2];
  bool are_all = true;
  for (std::int64_t i = 0; i < p.batch; ++i) {
    const std::int64_t length = load_index(given.data, given.dtype, i);
    require<IndexError>(length >= 0 && length <= p.steps, [&] {
      return message(call.op.name, ": length ", length, " of sequence ", i, ", of ", p.steps, " steps at most");
    });
    are_all = are_all && length == p.steps;
    lengths.push_back(length);
  }
  if (are_all)
    lengths.clear();
  return lengths;
}

}  // namespace detail

std::int64_t rnn_parameter_size(std::int64_t input_size, const RnnOptions& o) {
  detail::check_sizes("rnn_parameter_size", input_size, o.hidden_size, o.num_layers);
  const detail::RnnProblem p{
      .mode = o.mode,
      .input = input_size,
      .hidden = o.hidden_size,
      .layers = o.num_layers,
      .directions = o.bidirectional ? 2 : 1};
  return detail::checked_count("rnn_parameter_size", p);
}

}  // namespace sluice
