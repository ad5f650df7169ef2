// MXNet's operators of sequences: words as vectors, recurrent layers and what Gluon's exports put around them.
#include <algorithm>

#include <sluice/engine/error.h>
#include <sluice/gluon/formats/symbol_node.h>
#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/rnn/problem.h>

namespace sluice::gluon::formats {

namespace {

using Inputs = std::span<const NDArray>;
using Attributes = SymbolAttributes;

/// An index that is too large, or below 0, is that of the vector next to it.
Arrays embed(const Attributes& /*a*/, Inputs x) {
  return {take(x[1], x[0].astype(int64), 0, IndexMode::clip)};
}

std::size_t states_of(const Attributes& a) {
  return a.text("mode", "") == "lstm" ? 2 : 1;
}

void check_recurrent(const Attributes& a, std::size_t inputs) {
  const bool uses_lengths = a.flag("use_sequence_length", false);
  const std::size_t wanted = 2 + states_of(a) + (uses_lengths ? 1 : 0);
  if (inputs != wanted) {
    const char* const last = uses_lengths ? " and lengths" : "";
    a.find_damaged(
        message("RNN of ", a.text("mode", ""), " with states", last, " takes ", wanted, " arrays, not ", inputs));
  }
  for (const char* const key : {"state_size", "num_layers"}) {
    if (a.integer(key, 0) < 1)
      a.find_damaged(message(key, " is ", a.integer(key, 0), ", not at least 1"));
  }
}

/// MXNet's one array of parameters is ours: all weights, then all biases, of each layer and direction, inputs first.
Arrays recur(const Attributes& a, Inputs x) {
  const RnnOptions how{
      .mode = sluice::detail::rnn_mode_of("RNN", a.text("mode", "")),
      .hidden_size = a.integer("state_size", 0),
      .num_layers = a.integer("num_layers", 1),
      .bidirectional = a.flag("bidirectional", false),
      .dropout = a.number("p", 0)};
  const Inputs given = x.subspan(2, states_of(a));
  const bool are_open = std::all_of(given.begin(), given.end(), [](const NDArray& state) { return !state.defined(); });
  const Arrays states = are_open ? Arrays() : Arrays(given.begin(), given.end());
  const bool uses_lengths = a.flag("use_sequence_length", false);
  Arrays results = uses_lengths ? rnn(x[0], x[1], states, x.back().astype(int64), how) : rnn(x[0], x[1], states, how);
  if (!a.flag("state_outputs", false))
    results.resize(1);
  return results;
}

/// Gluon's layers that are not given states begin with zeros of a batch of 0, which is to be that of x.
void check_open_zeros(const Attributes& a, std::size_t /*inputs*/) {
  const Shape shape = a.numbers("shape", {});
  if (shape.ndim() != 3 || shape[1] != 0)
    a.refuse(message("_zeros of shape ", shape, "; those of states (layers, 0, units) have a counterpart"));
}
Arrays open_zeros(const Attributes& /*a*/, Inputs /*x*/) {
  return {NDArray()};
}

Arrays join_parameters(const Attributes& /*a*/, Inputs x) {
  return {concat(x, 0)};
}
Arrays swap_axes(const Attributes& a, Inputs x) {
  return {x[0].swapaxes(a.axis("dim1", 0), a.axis("dim2", 0))};
}

}  // namespace

void add_sequences(SymbolOperators& all) {
  const std::vector<std::string_view> no{"False", "0"};
  all["Embedding"] = {
      .call = &embed,
      .attributes = {"input_dim", "output_dim", "dtype"},
      .least_inputs = 2,
      .only = {{"sparse_grad", no}}};
  all["RNN"] = {
      .call = &recur,
      .attributes = {"state_size", "num_layers", "bidirectional", "p", "state_outputs", "use_sequence_length"},
      .least_inputs = 3,
      .only = {{"mode", {"rnn_relu", "rnn_tanh", "lstm", "gru"}}, {"lstm_state_clip_nan", no}},
      .required = {"state_size", "num_layers", "mode"},
      .check = &check_recurrent};
  all["_rnn_param_concat"] = {.call = &join_parameters, .only = {{"dim", {"0"}}}, .required = {"dim"}};
  all["_zeros"] = {
      .call = &open_zeros,
      .attributes = {"shape", "dtype", "ctx"},
      .least_inputs = 0,
      .required = {"shape"},
      .check = &check_open_zeros};
  for (const std::string_view name : {"SwapAxis", "swapaxes"})
    all[name] = {.call = &swap_axes, .attributes = {"dim1", "dim2"}};
}

}  // namespace sluice::gluon::formats
