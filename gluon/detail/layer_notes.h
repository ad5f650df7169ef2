#pragma once

#include <cstddef>
#include <cstdint>

#include <sluice/gluon/block_options.h>

// What layers of a kind have in common to say of their options.
namespace sluice::gluon::detail {

/// Of convolutions: channels of x are the extent of an axis of the weight times `times`.
template <class Options, class Size>
OptionNotes convolution_notes(
    const Parameter& weight,
    std::size_t axis,
    std::int64_t times,
    std::int64_t channels,
    const Size& kernel,
    const Options& o) {
  const Options usual;
  OptionNotes notes;
  notes.sizes("in_channels", weight, axis, "channels", channels, times)
      .add("kernel_size", kernel)
      .add("strides", o.strides)
      .add("padding", o.padding, usual.padding)
      .add("dilation", o.dilation, usual.dilation);
  if constexpr (requires { o.output_padding; })
    notes.add("output_padding", o.output_padding, usual.output_padding);
  return notes.add("groups", o.groups, usual.groups)
      .add("activation", o.activation, usual.activation)
      .add("use_bias", o.use_bias, usual.use_bias)
      .add("dtype", o.dtype, usual.dtype);
}

/// Of pooling.
template <class Size, class Options>
OptionNotes pool_notes(const Size& size, const Options& o, bool is_mean) {
  const Options usual;
  OptionNotes notes;
  notes.add("pool_size", size)
      .add("strides", o.strides.value_or(size))
      .add("padding", o.padding, usual.padding)
      .add("ceil_mode", o.ceil_mode, usual.ceil_mode);
  if (is_mean)
    notes.add("count_include_pad", o.count_include_pad, usual.count_include_pad);
  return notes;
}

/// Of norms.
template <class Options>
OptionNotes norm_notes(const Parameter& gamma, const Options& o) {
  const Options usual;
  OptionNotes notes;
  if constexpr (requires { o.num_groups; })
    notes.add("num_groups", o.num_groups);
  if constexpr (requires { o.axis; })
    notes.add("axis", o.axis, usual.axis);
  if constexpr (requires { o.momentum; })
    notes.add("momentum", o.momentum, usual.momentum);
  notes.add("epsilon", o.epsilon, usual.epsilon);
  if constexpr (requires { o.center; })
    notes.add("center", o.center, usual.center);
  notes.add("scale", o.scale, usual.scale);
  if constexpr (requires { o.use_global_stats; })
    notes.add("use_global_stats", o.use_global_stats, usual.use_global_stats);
  return notes.size("in_channels", gamma);
}

/// Of recurrent layers and cells.
template <class Options>
OptionNotes recurrent_notes(const Parameter& i2h_weight, std::int64_t hidden, const Options& o) {
  const Options usual;
  OptionNotes notes;
  notes.sizes("input_size", i2h_weight, 1, "hidden_size", hidden);
  if constexpr (requires { o.num_layers; }) {
    notes.add("num_layers", o.num_layers, usual.num_layers)
        .add("layout", o.layout == usual.layout ? "TNC" : "NTC", "TNC")
        .add("dropout", o.dropout, usual.dropout)
        .add("bidirectional", o.bidirectional, usual.bidirectional)
        .add("use_sequence_length", o.use_sequence_length, usual.use_sequence_length);
  }
  return notes.add("dtype", o.dtype, usual.dtype);
}

}  // namespace sluice::gluon::detail
