#pragma once

// Cases of plain_cases.h: gradients of normalisations, orders, and operators that others are put together of.
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/order/count.h>

#include "tests/operator/linalg_cases.h"
#include "tests/operator/plain_cases.h"

namespace sluice::test::case_parts {

/// dy, x, parameters of `channels`, and what forward saved of so many rows: those in float32, or float64 beside it.
inline PlainCase norm_gradient(
    const std::string& op,
    const Shape& x,
    std::vector<std::int64_t> channels,
    std::vector<std::int64_t> saved,
    const std::string& attributes) {
  std::vector<std::pair<Shape, std::optional<DType>>> inputs = alike(2, x);
  for (const std::int64_t each : channels)
    inputs.push_back({{each}, std::nullopt});
  for (const std::int64_t each : saved)
    inputs.push_back({{each}, std::nullopt});
  const std::size_t first = 2 + channels.size();
  const auto f = [op, attributes, first](const Arrays& in, DType dtype) {
    Arrays given = in;
    for (std::size_t i = first; i < given.size(); ++i)
      given[i] = given[i].astype(dtype == float64 ? float64 : float32);
    const Operator& found = *find_operator(op);
    return invoke(found, given, parse_attributes(found, attributes), SourceLocation::current());
  };
  return {op, std::move(inputs), f, 0.5, 2};
}

/// The gradient of a norm of rows and another one of x, with what forward saved in front as norm_gradient() has it.
inline PlainCase norm_sum_gradient(const std::string& op) {
  const bool centred = op == "add_layer_norm_backward";
  std::vector<std::pair<Shape, std::optional<DType>>> inputs = alike(3, {3, 8});
  inputs.push_back({{8}, std::nullopt});
  for (int i = 0; i < (centred ? 2 : 1); ++i)
    inputs.push_back({{3}, std::nullopt});
  const auto f = [op](const Arrays& in, DType dtype) {
    Arrays given{in[0], in[1], in[3]};
    for (std::size_t i = 4; i < in.size(); ++i)
      given.push_back(in[i].astype(dtype == float64 ? float64 : float32));
    given.push_back(in[2]);
    const Operator& found = *find_operator(op);
    return invoke(found, given, parse_attributes(found, "axis=1"), SourceLocation::current());
  };
  return {op, std::move(inputs), f, 0.5, 2};
}

/// Of a sum: two arrays, gamma and for layer norm beta.
inline PlainCase norm_of_sum(const std::string& op) {
  std::vector<std::pair<Shape, std::optional<DType>>> inputs = alike(2, {3, 8});
  for (int i = 0; i < (op == "add_layer_norm" ? 2 : 1); ++i)
    inputs.push_back({{8}, std::nullopt});
  return by_name(op, std::move(inputs), "axis=1");
}

inline void add_norm_gradients(std::vector<PlainCase>& cases) {
  cases.push_back(norm_gradient("layer_norm_backward", {3, 4}, {4}, {3, 3}, "axis=1"));
  cases.push_back(norm_gradient("rms_norm_backward", {3, 4}, {4}, {3}, "axis=1"));
  cases.push_back(norm_gradient("group_norm_backward", {2, 4, 3}, {4}, {4, 4}, "num_groups=2"));
  cases.push_back(norm_gradient("instance_norm_backward", {2, 3, 4}, {3}, {6, 6}, ""));
  cases.push_back(norm_gradient("l2_normalization_backward", {3, 4}, {}, {3}, ""));
  for (const char* const op : {"add_layer_norm", "add_rms_norm"})
    cases.push_back(norm_of_sum(op));
  for (const char* const op : {"add_layer_norm_backward", "add_rms_norm_backward"})
    cases.push_back(norm_sum_gradient(op));
  const auto relu = [](const Arrays& in, DType dtype) {
    const DType wide = dtype == float64 ? float64 : float32;
    const Operator& found = *find_operator("batch_norm_relu_backward");
    const Arrays given{in[0], in[1], in[2], in[3].astype(wide), in[4].astype(wide), in[5]};
    return invoke(found, given, parse_attributes(found, ""), SourceLocation::current());
  };
  std::vector<std::pair<Shape, std::optional<DType>>> inputs = alike(2, {2, 3, 2, 4});
  for (int i = 0; i < 4; ++i)
    inputs.push_back({{3}, std::nullopt});
  cases.push_back({"batch_norm_relu_backward", inputs, relu, 0.5, 2});
  for (const bool two : {false, true}) {
    const auto sum = [=](const Arrays& in, DType dtype) {
      const DType wide = dtype == float64 ? float64 : float32;
      const Operator& found = *find_operator("batch_norm_add_relu_backward");
      Arrays given{in[0], in[1], in[4], in[5].astype(wide), in[6].astype(wide), in[2] - 1};
      if (two)
        given.push_back(in[3]);
      return invoke(found, given, parse_attributes(found, ""), SourceLocation::current());
    };
    std::vector<std::pair<Shape, std::optional<DType>>> each = alike(4, {2, 3, 2, 4});
    for (int i = 0; i < 3; ++i)
      each.push_back({{3}, std::nullopt});
    cases.push_back({"batch_norm_add_relu_backward", each, sum, 0.5, 2});
  }
}

inline void add_orders(std::vector<PlainCase>& cases) {
  for (const char* op : {"argsort", "diff"})
    cases.push_back(by_name(op, alike(1, {3, 4}), ""));
  cases.push_back(by_name("searchsorted", {{{6}, std::nullopt}, {{3, 4}, std::nullopt}}, ""));
  const auto every_other = [](const Arrays& in, DType) {
    const Operator& found = *find_operator("true_places");
    const NDArray same = in[0] == in[0], truths = stack({same, logical_not(same)}, 1).reshape({-1});
    return invoke(found, std::span(&truths, 1), parse_attributes(found, "count=5"), SourceLocation::current());
  };
  cases.push_back(by_name("run_begins", alike(1, {12}), ""));
  cases.push_back({"true_places", {{{5}, int32}}, every_other, 0, 3});
  cases.push_back(
      {"bincount", {{{12}, int32}}, [](const Arrays& in, DType) { return Arrays{bincount(in[0], 4)}; }, 0, 3});
}

// Sums of entries that are named several times.
inline void add_sums_at(std::vector<PlainCase>& cases) {
  const std::optional<DType> any;
  const auto add = [&](PlainCase made) {
    made.low = -2;
    made.high = 1;
    cases.push_back(std::move(made));
  };
  add(by_name("index_add", {{{3, 4}, any}, {{2, 2}, int32}, {{3, 2, 2}, any}}, "axis=1"));
  add(by_name("index_add_nd", {{{3, 4}, any}, {{2, 3}, int64}, {{3}, any}}, ""));
  add(by_name("add_along_axis", {{{3, 4}, any}, {{3, 5}, int8}, {{3, 5}, any}}, "axis=1"));
  add(by_name("scatter_nd", {{{3, 2}, any}, {{2, 3}, int32}}, "shape=(3, 4, 2)"));
}

inline void add_made(std::vector<PlainCase>& cases) {
  cases.push_back(by_name("prod_backward", {{{2, 3, 2}, std::nullopt}, {{1, 3, 1}, std::nullopt}}, "axes=(0, 2)"));
  for (const char* op : {"nan_to_num", "nanmax", "nanmean", "nanmin", "nanprod", "norm"})
    cases.push_back(by_name(op, alike(1, {3, 4}), ""));
  for (const char* op : {"float_power", "isclose", "masked_log_softmax", "masked_softmax"})
    cases.push_back(by_name(op, alike(2, {3, 4}), ""));
  for (const char* op : {"divmod", "nextafter"})
    cases.push_back(by_name(op, {{{3, 4}, {}}, {{3, 1}, {}}}, ""));
  for (const char* op : {"modf", "positive"})
    cases.push_back(by_name(op, alike(1, {3, 4}), ""));
  cases.push_back({"digitize", {{{3, 4}, {}}}, [](const Arrays& in, DType) {
                     const NDArray edges = array<int>({0, 1, 2}).to(in[0].device());
                     return Arrays{digitize(in[0], edges.astype(in[0].dtype()))};
                   }});
  for (const char* op : {"addcmul", "lerp"})
    cases.push_back(by_name(op, alike(3, {3, 4}), ""));
  cases.push_back(by_name("local_response_norm", alike(1, {2, 4, 3}), ""));
  cases.push_back(by_name("histogram", alike(1, {3, 4}), "bins=4, low=-2, high=2"));
  for (const char* op : {"nanquantile", "quantile"})
    cases.push_back(by_name(op, alike(1, {3, 4}), "q=0.3, axes=(-1,)"));
  cases.push_back(by_name("percentile", alike(1, {3, 2, 4}), "qs=(20, 70), axes=(0, 2), keepdims=true"));
  cases.push_back(by_name("nanpercentile", alike(1, {3, 2, 4}), "q=20, axes=(0, 1)"));
  for (const char* op :
       {"median", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmedian", "nanstd", "nanvar"})
    cases.push_back(by_name(op, alike(1, {3, 4}), ""));
  cases.push_back(by_name("topk_mask", alike(1, {3, 4}), "k=2"));
  cases.push_back(by_name("split", alike(1, {3, 4}), "axis=-1, parts=2"));
  for (const char* op : {"corrcoef", "cov", "ptp", "softmin", "trapezoid"})
    cases.push_back(by_name(op, alike(1, {3, 4}), ""));
  cases.push_back(by_name("glu", alike(1, {3, 4}), "axis=1"));
  for (const char* op : {"cosine_similarity", "isin", "trapezoid"})
    cases.push_back(by_name(op, alike(2, {3, 4}), ""));
  cases.push_back({"interp", {{{3, 4}, {}}, {{4}, {}}}, [](const Arrays& in, DType) {
                     return Arrays{interp(in[0], array<float>({-2, -1, 0, 2}).to(in[0].device()), in[1])};
                   }});
  cases.push_back(by_name("stack", alike(3, {3, 4}), "axis=-1"));
  cases.push_back(by_name("put", {{{3, 4}, {}}, {{5}, int32}, {{5}, {}}}, "mode=2"));
  cases.push_back(by_name("masked_fill", {{{3, 4}, {}}, {{3}, bool_}}, "value=1"));
  cases.push_back(by_name("masked_fill", {{{3, 4}, {}}, {{3, 4}, bool_}, {{4}, {}}}, ""));
  cases.push_back(by_name("split_heads", alike(1, {2, 3, 8}), "heads=4"));
  cases.push_back(by_name("join_heads", alike(1, {2, 4, 3, 2}), ""));
  for (const char* op : {"depth_to_space", "pixel_shuffle", "pixel_unshuffle", "space_to_depth"})
    cases.push_back(by_name(op, alike(1, {2, 4, 2, 6}), ""));
}

/// The gradient of what forward made of the first three inputs, for the fourth; maybe behind a mask.
inline PlainCase fused_attention_gradient(bool masked) {
  std::vector<std::pair<Shape, std::optional<DType>>> inputs;
  for (const Shape& shape : {Shape{2, 4, 3, 8}, Shape{2, 2, 5, 8}, Shape{2, 2, 5, 16}, Shape{2, 3, 4, 16}})
    inputs.push_back({shape, std::nullopt});
  if (masked)
    inputs.push_back({{2, 1, 3, 5}, float32});
  const auto f = [masked](const Arrays& in, DType) {
    const Operator &forward = *find_operator("attention_fused"), &backward = *find_operator("attention_fused_backward");
    const Attributes how = parse_attributes(forward, masked ? "causal=false, scale=0.5" : "causal=true, scale=0.5");
    const SourceLocation site = SourceLocation::current();
    Arrays given{in[0], in[1], in[2]};
    if (masked)
      given.push_back(in[4]);
    const Arrays made = invoke(forward, given, how, site);
    given.insert(given.begin() + 3, {made[0], made[1], in[3]});
    Arrays all = invoke(backward, given, how, site);
    all.insert(all.end(), made.begin(), made.end());
    return all;
  };
  return {"attention_fused_backward", std::move(inputs), f, -1, 1};
}

/// The same of q, k and v in one array, which the first input is, for the second one.
inline PlainCase packed_attention_gradient(bool masked) {
  std::vector<std::pair<Shape, std::optional<DType>>> inputs{
      {{2, 3, 8, 8}, std::nullopt}, {{2, 3, 4, 8}, std::nullopt}};
  if (masked)
    inputs.push_back({{2, 1, 3, 3}, float32});
  const auto f = [masked](const Arrays& in, DType) {
    const Operator &forward = *find_operator("attention_fused"), &backward = *find_operator("attention_fused_backward");
    const Attributes how = parse_attributes(forward, "causal=true, scale=0.5, kv_heads=2");
    const SourceLocation site = SourceLocation::current();
    Arrays given{in[0]};
    if (masked)
      given.push_back(in[2]);
    const Arrays made = invoke(forward, given, how, site);
    given.insert(given.begin() + 1, {made[0], made[1], in[1]});
    Arrays all = invoke(backward, given, how, site);
    all.insert(all.end(), made.begin(), made.end());
    return all;
  };
  return {"attention_fused_backward", std::move(inputs), f, -1, 1};
}

inline void add_neural(std::vector<PlainCase>& cases) {
  const auto of = [](std::vector<Shape> shapes) {
    std::vector<std::pair<Shape, std::optional<DType>>> inputs;
    for (const Shape& shape : shapes)
      inputs.push_back({shape, std::nullopt});
    return inputs;
  };
  cases.push_back(by_name("convolution1d", of({{2, 2, 5}, {3, 2, 2}, {3}}), "pad=(1)"));
  cases.push_back(by_name("deconvolution", of({{2, 2, 3, 2}, {2, 3, 2, 2}, {3}}), "stride=(2, 2), adj=(1, 0)"));
  cases.push_back(by_name("deconvolution1d", of({{2, 2, 3}, {2, 3, 2}, {3}}), "stride=2"));
  cases.push_back(by_name("scaled_dot_product_attention", alike(3, {2, 3, 4, 2}), "causal=true"));
  cases.push_back(fused_attention_gradient(false));
  cases.push_back(fused_attention_gradient(true));
  cases.push_back(packed_attention_gradient(false));
  cases.push_back(packed_attention_gradient(true));
  cases.push_back(by_name("packed_attention", alike(1, {2, 3, 16}), "heads=4, kv_heads=2, causal=true"));
  cases.push_back(by_name("resize2d", of({{2, 3, 4, 5}}), "size=(3, 7)"));
  cases.push_back(by_name("resize2d", of({{2, 3, 4, 5}}), "size=(3, 2), bicubic=true, antialias=true"));
  cases.push_back(by_name("resize_planes", of({{2, 3, 4, 5}}), "size=(3, 7)"));
  cases.push_back(by_name("resize_planes", of({{2, 3, 4, 5}}), "size=(3, 7), bicubic=true"));
  cases.push_back(by_name("upsampling", of({{2, 3, 4, 5}}), "scale=2, bilinear=true"));
  cases.push_back(by_name("box_iou", of({{3, 4}, {2, 4}}), ""));
  cases.push_back(by_name("convolution3d", of({{2, 2, 3, 3, 4}, {3, 2, 2, 2, 2}, {3}}), "pad=(1, 0, 1)"));
  cases.push_back(by_name("deconvolution3d", of({{2, 2, 2, 3, 2}, {2, 3, 2, 2, 2}, {3}}), "stride=(2, 1, 1)"));
  for (const char* op : {"max_pool3d", "avg_pool3d"})
    cases.push_back(by_name(op, of({{2, 3, 3, 4, 5}}), "kernel=(2, 2, 3), pad=(1, 0, 1)"));
  for (const char* op : {"max_pool1d", "avg_pool1d", "lp_pool1d"})
    cases.push_back(by_name(op, of({{2, 3, 5}}), "kernel=3, stride=1"));
  cases.push_back(by_name("lp_pool2d", of({{2, 3, 4, 5}}), "kernel=(2, 3), ceil_mode=true"));
  for (const char* op : {"adaptive_avg_pool2d", "adaptive_max_pool2d"})
    cases.push_back(by_name(op, of({{2, 3, 4, 5}}), "output_size=(3, 2)"));
  for (const char* op : {"adaptive_avg_pool1d", "adaptive_max_pool1d"})
    cases.push_back(by_name(op, of({{2, 3, 5}}), "output_size=3"));
  for (const char* op : {"adaptive_avg_pool3d", "adaptive_max_pool3d"})
    cases.push_back(by_name(op, of({{2, 3, 3, 4, 5}}), "output_size=(2, 3, 2)"));
  cases.push_back(by_name("lp_pool3d", of({{2, 3, 3, 4, 5}}), "kernel=(2, 2, 3), pad=(1, 0, 1)"));
}

// What is made of no array, or of parts of one.
inline void add_forms(std::vector<PlainCase>& cases) {
  const auto made = [&](const char* op, const char* attributes) {
    cases.push_back({op, {{{1}, std::nullopt}}, [=](const Arrays& in, DType dtype) {
                       const Operator& found = *find_operator(op);
                       const std::string where = message(attributes, ", dtype=", dtype, ", device=", in[0].device());
                       return invoke(found, {}, parse_attributes(found, where), SourceLocation::current());
                     }});
  };
  made("eye", "rows=3, columns=4, k=1");
  made("linspace", "start=0, stop=5, count=6");
  cases.push_back(by_name("meshgrid", {{{3}, {}}, {{4}, {}}}, ""));
  cases.push_back(by_name("rot90", alike(1, {3, 4}), "k=3"));
  cases.push_back(by_name("diag", alike(1, {3, 4}), "k=1"));
  cases.push_back(by_name("diag", alike(1, {3}), "k=-1"));
  cases.push_back(by_name("random_permutation", alike(1, {5, 3}), ""));
  for (const char* replace : {"true", "false"}) {
    cases.push_back(by_name("random_choice", alike(1, {6}), message("shape=(2, 2), replace=", replace)));
    cases.back().low = 0.5;
  }
  cases.push_back(by_name("sample_multinomial", alike(1, {2, 4}), "n=20"));
  cases.back().low = 0.5;
}

inline void add_regions(std::vector<PlainCase>& cases) {
  const std::optional<DType> any;
  cases.push_back(by_name("box_nms", {{{2, 5, 6}, any}}, "overlap_thresh=0.2, valid_thresh=-2, topk=4"));
  cases.push_back(by_name("box_nms", {{{5, 6}, any}}, "valid_thresh=-2, id_index=0, out_center=true"));
  for (const std::size_t inputs : {2, 3}) {
    std::vector<std::pair<Shape, std::optional<DType>>> given{{{2, 5, 4}, any}, {{2, 5}, bool_}, {{2, 5}, any}};
    given.resize(inputs);
    cases.push_back(by_name("nms_mask", given, "threshold=0.2"));
  }
  cases.push_back({"roi_align", alike(1, {2, 3, 5, 4}), [](const Arrays& in, DType) {
                     const std::vector<double> values{0, 0, 0.5, 3, 2, 1, 1.25, 2, 4, 6};
                     const NDArray rois = array(values, {2, 5}).to(in[0].device());
                     return Arrays{roi_align(in[0], rois, {.pooled_size = {2, 2}})};
                   }});
  const auto of = [](std::vector<Shape> shapes) {
    std::vector<std::pair<Shape, std::optional<DType>>> inputs;
    for (const Shape& shape : shapes)
      inputs.push_back({shape, std::nullopt});
    return inputs;
  };
  cases.push_back(by_name("grid_sample", of({{2, 2, 3, 4}, {2, 2, 3, 2}}), "reflection=true"));
  cases.push_back(by_name("plane_samples", of({{2, 3, 3, 4}, {2, 2, 3}, {2, 2, 3}}), ""));
  cases.push_back(by_name("plane_samples", of({{2, 3, 3, 4}, {2, 2, 3}, {2, 2, 3}}), "nearest=true"));
  cases.push_back(by_name("deformable_convolution", of({{1, 2, 4, 3}, {1, 8, 3, 2}, {2, 2, 2, 2}, {2}}), ""));
}

inline void add_alignments(std::vector<PlainCase>& cases) {
  const std::optional<DType> any;
  cases.push_back(by_name("ctc_loss", {{{4, 2, 4}, any}, {{2, 2}, int32}}, ""));
  cases.push_back(by_name(
      "ctc_loss", {{{4, 2, 4}, any}, {{2, 2}, int8}, {{2}, int64}}, "use_data_lengths=true, zero_infinity=true"));
  cases.back().low = 0;  // of lengths too
  cases.push_back(
      by_name("ctc_alignment_backward", {{{4, 2, 4}, any}, {{2, 2}, int32}, {{2, 4, 5}, any}, {{2}, any}}, ""));
}

/// Three sequences of several lengths, which are no numbers that a test can draw: forward, or backward too.
inline PlainCase sequences_of_lengths(bool goes_back) {
  const std::optional<DType> any;
  const auto run = [=](const Arrays& in, DType) {
    const SourceLocation site = SourceLocation::current();
    const Operator &forward = *find_operator("rnn_lengths"), &of = *find_operator("rnn_lengths_backward");
    const NDArray lengths = cycled({2, 0, 3}, {in[0].shape()[1]}, in[0]).astype(int32);
    const Attributes how = parse_attributes(
        forward, message("mode=\"gru\", state_size=2, bidirectional=true, keep=", goes_back ? "true" : "false"));
    const Arrays made = invoke(forward, std::vector<NDArray>{in[0], in[1], lengths, in[2]}, how, site);
    return goes_back ? invoke(of, Arrays{in[0], in[1], lengths, made[0], made[2], in[3], made[1], in[2]}, how, site)
                     : made;
  };
  std::vector<std::pair<Shape, std::optional<DType>>> inputs{{{3, 3, 2}, any}, {{72}, any}, {{2, 3, 2}, any}};
  if (goes_back)
    inputs.push_back({{3, 3, 4}, any});
  return {goes_back ? "rnn_lengths_backward" : "rnn_lengths", inputs, run, -1, 1};
}

inline void add_recurrences(std::vector<PlainCase>& cases) {
  const std::optional<DType> any;
  const std::vector<std::pair<Shape, std::optional<DType>>> network{
      {{3, 2, 3}, any}, {{112}, any}, {{2, 2, 2}, any}, {{2, 2, 2}, any}};
  cases.push_back(by_name("rnn", network, "state_size=2, bidirectional=true"));
  cases.back().low = -1;
  cases.back().high = 1;
  std::vector<std::pair<Shape, std::optional<DType>>> inputs = network;
  inputs.push_back({{3, 2, 4}, any});
  const auto backward = [](const Arrays& in, DType) {
    const Operator &forward = *find_operator("rnn"), &of = *find_operator("rnn_backward");
    const Attributes how = parse_attributes(forward, "state_size=2, bidirectional=true, keep=true");
    const Arrays made =
        invoke(forward, std::vector<NDArray>(in.begin(), in.begin() + 4), how, SourceLocation::current());
    const Arrays given{in[0], in[1], made[0], made[3], in[4], made[1], made[2], in[2], in[3]};
    return invoke(of, given, how, SourceLocation::current());
  };
  cases.push_back({"rnn_backward", inputs, backward, -1, 1});
  cases.push_back(sequences_of_lengths(false));
  cases.push_back(sequences_of_lengths(true));
}

inline void add_plain_products(std::vector<PlainCase>& cases) {
  const std::optional<DType> any;
  for (const char* op : {"dot", "outer", "kron"})
    cases.push_back(by_name(op, {{{2, 3}, any}, {{3, 2}, any}}, ""));
  for (const char* op : {"inner", "vdot"})
    cases.push_back(by_name(op, alike(2, {3, 4}), ""));
  cases.push_back(by_name("tensordot", {{{2, 3, 4}, any}, {{4, 2}, any}}, "axes_a=(2, 0), axes_b=(0, 1)"));
  cases.push_back(by_name("batch_dot", {{{2, 3, 4}, any}, {{2, 5, 4}, any}}, "transpose_b=true"));
  cases.push_back(by_name("einsum", {{{3, 3}, any}, {{2, 3}, any}}, "equation=\"ii,ji->j\""));
  cases.push_back({"lstsq", {{{4, 3}, any}, {{4, 2}, any}}, [](const Arrays& in, DType) {
                     return Arrays{lstsq(sound(in[0]), in[1])};
                   }});
  cases.back().low = -1;
  cases.back().high = 1;
  cases.push_back(by_name("trace", alike(1, {3, 4}), "offset=1"));
}

}  // namespace sluice::test::case_parts

namespace sluice::test {

inline std::vector<PlainCase> all_plain_cases() {
  std::vector<PlainCase> cases = plain_cases();
  case_parts::add_norm_gradients(cases);
  case_parts::add_orders(cases);
  case_parts::add_made(cases);
  case_parts::add_forms(cases);
  case_parts::add_sums_at(cases);
  case_parts::add_neural(cases);
  case_parts::add_alignments(cases);
  case_parts::add_recurrences(cases);
  case_parts::add_regions(cases);
  case_parts::add_plain_products(cases);
  return cases;
}

}  // namespace sluice::test
