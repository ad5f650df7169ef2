#pragma once

// Neural operators made of others among the cases of differentiable_cases.h.
#include <sluice/operator/attention/attention.h>
#include <sluice/operator/conv/composed.h>
#include <sluice/operator/conv/volume.h>
#include <sluice/operator/conv/windows.h>
#include <sluice/operator/ctc/ctc.h>
#include <sluice/operator/pool/composed.h>
#include <sluice/operator/pool/volume.h>
#include <sluice/operator/resize/resize.h>
#include <sluice/operator/vision/grid_sample.h>
#include <sluice/operator/vision/roi_align.h>

#include "tests/operator/differentiable_case.h"

namespace sluice::test::case_parts {

inline void add_composed_convolutions(Cases& cases) {
  const Shape bias{4};
  const Convolution1DOptions sparse{.stride = 2, .pad = {1, 2}, .dilation = 2, .groups = 2};
  cases.push_back({"convolution1d", {{2, 4, 7}, {4, 2, 2}, bias}, [=](const auto& v) {
                     return convolution1d(v[0], v[1], v[2], sparse);
                   }});
  cases.push_back({"convolution1d of none", {{0, 2, 5}, {4, 2, 3}, bias}, [](const auto& v) {
                     return convolution1d(v[0], v[1], v[2]);
                   }});
  const DeconvolutionOptions wide{
      .stride = {2, 3}, .pad = {1, 0, 0, 2}, .dilation = {2, 1}, .adj = {1, 2}, .groups = 2};
  cases.push_back({"deconvolution", {{2, 4, 3, 2}, {4, 2, 2, 3}, bias}, [=](const auto& v) {
                     return deconvolution(v[0], v[1], v[2], wide);
                   }});
  cases.push_back({"deconvolution of a pixel", {{1, 2, 1, 1}, {2, 3, 1, 1}}, [](const auto& v) {
                     return deconvolution(v[0], v[1], {});
                   }});
  cases.push_back({"deconvolution of none", {{0, 2, 2, 2}, {2, 4, 3, 3}, bias}, [](const auto& v) {
                     return deconvolution(v[0], v[1], v[2]);
                   }});
  cases.push_back({"deconvolution1d", {{2, 2, 3}, {2, 4, 3}, bias}, [](const auto& v) {
                     return deconvolution1d(v[0], v[1], v[2], {.stride = 2, .pad = {1}, .adj = 1});
                   }});
}

inline void add_volumes(Cases& cases) {
  const Shape x{2, 2, 3, 4, 3};
  const Convolution3DOptions sparse{.stride = {1, 2, 1}, .pad = {1, 0, 1}, .dilation = {2, 1, 1}, .groups = 2};
  cases.push_back({"convolution3d", {x, {4, 1, 2, 2, 2}, {4}}, [=](const auto& v) {
                     return convolution3d(v[0], v[1], v[2], sparse);
                   }});
  cases.push_back({"convolution3d of none", {{0, 2, 2, 2, 2}, {3, 2, 2, 2, 2}}, [](const auto& v) {
                     return convolution3d(v[0], v[1], {});
                   }});
  const Deconvolution3DOptions wide{.stride = {2, 1, 2}, .pad = {1, 0, 0}, .adj = {1, 0, 1}};
  cases.push_back({"deconvolution3d", {{2, 2, 2, 2, 2}, {2, 3, 3, 2, 2}, {3}}, [=](const auto& v) {
                     return deconvolution3d(v[0], v[1], v[2], wide);
                   }});
  const Pool3DOptions cut{.kernel = {2, 3, 2}, .stride = {1, 2, 2}, .pad = {1, 0, 1}, .ceil_mode = true};
  cases.push_back({"max_pool3d", {x}, [=](const auto& v) { return max_pool3d(v[0], cut); }});
  cases.push_back({"avg_pool3d", {x}, [=](const auto& v) { return avg_pool3d(v[0], cut); }});
  const WindowOptions apart{.kernel = {2, 3}, .stride = {2, 1}, .pad = {1, 0, 0, 2}, .dilation = {1, 2}};
  cases.push_back({"im2col", {{2, 2, 4, 5}}, [=](const auto& v) { return im2col(v[0], apart); }});
  cases.push_back({"im2col of none", {{0, 2, 4, 5}}, [=](const auto& v) { return im2col(v[0], apart); }});
  cases.push_back({"col2im", {{2, 12, 6}}, [=](const auto& v) { return col2im(v[0], {4, 5}, apart); }});
}

inline void add_composed_pools(Cases& cases) {
  const Shape row{2, 3, 7}, plane{2, 2, 5, 7};
  const Pool1DOptions cut{.kernel = 3, .stride = 2, .pad = {1, 0}, .ceil_mode = true};
  cases.push_back({"max_pool1d", {row}, [=](const auto& v) { return max_pool1d(v[0], cut); }});
  cases.push_back({"avg_pool1d", {row}, [=](const auto& v) { return avg_pool1d(v[0], cut); }});
  cases.push_back({"avg_pool1d of all", {row}, [](const auto& v) { return avg_pool1d(v[0], {.global = true}); }});
  for (const double p : {1.0, 2.0, 3.0}) {
    cases.push_back({"lp_pool1d", {row}, [=](const auto& v) { return lp_pool1d(v[0], p, cut); }, 0.25, 1});
    cases.push_back(
        {"lp_pool2d",
         {plane},
         [=](const auto& v) {
           return lp_pool2d(v[0], p, {.kernel = {2, 3}, .stride = {2, 2}, .pad = {1, 1}});
         },
         -1,
         -0.25});
  }
  for (const Shape& size : {Shape{1, 1}, Shape{2, 3}, Shape{5, 1}, Shape{7, 9}}) {
    cases.push_back({"adaptive_avg_pool2d", {plane}, [=](const auto& v) { return adaptive_avg_pool2d(v[0], size); }});
    cases.push_back({"adaptive_max_pool2d", {plane}, [=](const auto& v) { return adaptive_max_pool2d(v[0], size); }});
  }
  cases.push_back({"adaptive_avg_pool2d of none", {{0, 2, 5, 7}}, [](const auto& v) {
                     return adaptive_avg_pool2d(v[0], {2, 3});
                   }});
}

inline void add_attention(Cases& cases) {
  const Shape q{2, 4, 3, 4}, k{2, 4, 5, 4}, v{2, 4, 5, 2}, shared{2, 2, 5, 4};
  const auto add = [&](std::vector<Shape> shapes, auto f) { cases.push_back({"attention", std::move(shapes), f}); };
  add({q, k, v}, [](const auto& in) { return scaled_dot_product_attention(in[0], in[1], in[2]); });
  add({q, shared, shared},
      [](const auto& in) { return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = true, .scale = 0.7}); });
  add({q, k, v, {4, 1, 5}},
      [](const auto& in) { return scaled_dot_product_attention(in[0], in[1], in[2], {.mask = in[3]}); });
  cases.push_back({"dropout in attention", {q, k, v}, [](const auto& in) {
                     const NDArray none = numbers({0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1}, {3, 5}, in[0]);
                     return scaled_dot_product_attention(in[0], in[1], in[2], {.mask = none, .dropout = 0.25});
                   }});
  add({{2, 3, 16}}, [](const auto& in) { return packed_attention(in[0], 4, 2, {.causal = true}); });
  add({{2, 3, 18}, {2, 1, 1, 3}}, [](const auto& in) { return packed_attention(in[0], 3, 0, {.mask = in[1]}); });
  const auto fused = [](const auto& in) {
    Arrays halves;
    for (const NDArray& x : in)
      halves.push_back(x.astype(bfloat16));
    const Operator& op = *find_operator("attention_fused");
    return invoke(op, halves, parse_attributes(op, "causal=true, scale=0.5"), SourceLocation::current());
  };
  // On a GPU gradients read a result that was rounded: sums of equal columns have the error of each.
  const std::vector<Shape> wide{{2, 4, 3, 8}, {2, 2, 5, 8}, {2, 2, 5, 16}, {1, 4, 3, 5}};
  const auto result = [=](const auto& in) { return fused(in)[0].astype(in[0].dtype()); };
  const auto both = [=](const auto& in) {
    const Arrays made = fused(in);
    return made[0].astype(in[0].dtype()) + made[1].astype(in[0].dtype()).swapaxes(1, 2).expand_dims(3);
  };
  cases.push_back({"fused attention", {wide.begin(), wide.begin() + 3}, result, -1, 1, 2000, true});
  cases.push_back({"fused attention with statistics", wide, both, -1, 1, 2000, true});
  const auto packed = [](const auto& in, std::size_t result) {
    const Operator& op = *find_operator("attention_fused");
    const Arrays half{in[0].astype(bfloat16)};
    return invoke(
               op, half, parse_attributes(op, "causal=true, scale=0.5, kv_heads=2"), SourceLocation::current())[result]
        .astype(in[0].dtype());
  };
  for (const std::size_t result : {0, 1}) {
    cases.push_back(
        {"fused attention of one array",
         {{2, 3, 8, 8}},
         [=](const auto& in) { return packed(in, result); },
         -1,
         1,
         2000,
         true});
  }
  cases.push_back({"attention to none", {q, {2, 4, 0, 4}, {2, 4, 0, 2}}, [](const auto& in) {
                     return scaled_dot_product_attention(in[0], in[1], in[2]);
                   }});
}

inline void add_resizes(Cases& cases) {
  const Shape plane{2, 2, 3, 4};
  cases.push_back({"upsampling", {plane}, [](const auto& v) { return upsampling(v[0], 2); }});
  for (const bool corners : {false, true}) {
    cases.push_back({"resize2d", {plane}, [=](const auto& v) {
                       return resize2d(v[0], {5, 3}, {.mode = ResizeMode::bilinear, .align_corners = corners});
                     }});
  }
  cases.push_back(
      {"box_iou", {{3, 4}, {2, 4}}, [](const auto& v) { return box_iou(v[0], v[1], BoxFormat::center); }, 1, 2});
}

inline void add_recurrences(Cases& cases) {
  const auto add = [&](const char* name, RnnOptions how, bool has_lengths = false) {
    const std::int64_t states = how.num_layers * (how.bidirectional ? 2 : 1);
    std::vector<Shape> shapes{{3, 2, 3}, {rnn_parameter_size(3, how)}, {states, 2, how.hidden_size}};
    if (how.mode == RnnMode::lstm)
      shapes.push_back(shapes.back());
    const auto f = [how, has_lengths](const auto& in) {
      const Arrays before(in.begin() + 2, in.end());
      const NDArray lengths = cycled({3, 1}, {in[0].shape()[1]}, in[0]);
      const Arrays made = has_lengths ? rnn(in[0], in[1], before, lengths, how) : rnn(in[0], in[1], before, how);
      NDArray ends = made[1];
      for (std::size_t i = 2; i < made.size(); ++i)
        ends = ends + made[i];
      return made[0] + sum(ends, {0, 2}, true).reshape({1, -1, 1});
    };
    cases.push_back({name, std::move(shapes), f, -1, 1, 20});
  };
  add("rnn, LSTM", {RnnMode::lstm, 2, 1, true});
  add("rnn, GRU", {RnnMode::gru, 2, 2});
  add("rnn, tanh", {RnnMode::rnn_tanh, 3, 1});
  add("rnn, LSTM of several lengths", {RnnMode::lstm, 2, 1, true}, true);
}

inline void add_alignments(Cases& cases) {
  const auto add = [&](const Shape& x, std::vector<std::int64_t> labels, const Shape& shape, bool last) {
    cases.push_back({"ctc_loss", {x}, [=](const auto& v) {
                       const CtcLossOptions how{.blank = last ? BlankLabel::last : BlankLabel::first};
                       return ctc_loss(v[0], cycled(labels, {v[0].shape()[1], shape[1]}, v[0]), how);
                     }});
  };
  add({5, 2, 4}, {1, 3, 2, 2}, {2, 2}, false);
  add({4, 3, 3}, {0, 1, 1, -1, -1, 0}, {3, 2}, true);
  add({3, 0, 2}, {}, {0, 2}, false);
}

inline void add_samples(Cases& cases) {
  const auto regions = [](const NDArray& x) {
    const NDArray rois = numbers({0, 0, 0, 3, 2, 1, 1, 2, 4, 6, 0, -2, 1, 1, 2}, {3, 5}, x);
    return rois.astype(x.dtype() == float64 ? float64 : float32);
  };
  cases.push_back({"roi_align", {{2, 3, 5, 4}}, [=](const auto& v) {
                     return roi_align(v[0], regions(v[0]), {.pooled_size = {2, 2}, .spatial_scale = 0.75});
                   }});
  for (const SamplePadding padding : {SamplePadding::zeros, SamplePadding::border}) {
    cases.push_back({"grid_sample", {{2, 2, 3, 4}, {2, 2, 3, 2}}, [=](const auto& v) {
                       return grid_sample(v[0], v[1], {.padding = padding});
                     }});
  }
  cases.push_back({"deformable_convolution", {{2, 2, 4, 3}, {2, 8, 3, 2}, {2, 2, 2, 2}}, [](const auto& v) {
                     return deformable_convolution(v[0], v[1], v[2], {});
                   }});
}

inline void add_neural(Cases& cases) {
  add_samples(cases);
  add_alignments(cases);
  add_recurrences(cases);
  add_attention(cases);
  add_resizes(cases);
  add_composed_convolutions(cases);
  add_composed_pools(cases);
  add_volumes(cases);
}

}  // namespace sluice::test::case_parts
