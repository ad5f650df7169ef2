#include <array>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>
#include <sluice/gluon/model_zoo/transformers.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/matmul/matmul.h>
#include <sluice/operator/operator.h>

namespace sluice::gluon::model_zoo {

namespace {

nn::TransformerEncoder body_of(
    std::int64_t layers, std::int64_t units, std::int64_t hidden, std::int64_t heads, nn::TransformerOptions options) {
  options.pre_norm = true;
  return nn::TransformerEncoder(layers, units, hidden, heads, options);
}

std::int64_t patches_in(const ViTOptions& options) {
  require(options.patch >= 1 && options.image >= options.patch && options.image % options.patch == 0, [&] {
    return message("ViT: an image of ", options.image, " does not divide into patches of ", options.patch);
  });
  const std::int64_t side = options.image / options.patch;
  return side * side;
}

}  // namespace

GPT::GPT(const GPTOptions& options)
    : length_(options.length),
      wte_(child("wte", nn::Embedding(options.vocabulary, options.units))),
      wpe_(child("wpe", nn::LearnedPositions(options.length, options.units))),
      dropout_(child("dropout", nn::Dropout(options.dropout))),
      body_(child(
          "body",
          body_of(
              options.layers,
              options.units,
              4 * options.units,
              options.heads,
              {.dropout = options.dropout,
               .attention_dropout = options.dropout,
               .activation = "gelu_tanh",
               .causal = true}))) {
  note_options(OptionNotes()
                   .add("vocabulary", options.vocabulary)
                   .add("length", options.length)
                   .add("units", options.units)
                   .add("layers", options.layers)
                   .add("heads", options.heads)
                   .add("dropout", options.dropout));
}

NDArray GPT::forward(const NDArray& tokens) const {
  const NDArray x = body_(dropout_(wpe_(wte_(tokens))));
  return dense(x, wte_->own_parameter("weight").data(), {}, {.flatten = false}, call_site());
}

GPT gpt2(std::string_view size) {
  struct Sized {
    std::string_view name;
    std::int64_t units, layers, heads;
  };
  constexpr std::array<Sized, 4> sizes = {
      {{"124m", 768, 12, 12}, {"355m", 1024, 24, 16}, {"774m", 1280, 36, 20}, {"1558m", 1600, 48, 25}}};
  for (const auto& [name, units, layers, heads] : sizes) {
    if (name == size)
      return GPT({.units = units, .layers = layers, .heads = heads});
  }
  throw ValueError(message("gpt2: there are \"124m\", \"355m\", \"774m\" and \"1558m\", not \"", size, "\""));
}

ViT::ViT(const ViTOptions& options)
    : units_(options.units),
      class_token_(parameter("class_token", {.shape = {1, 1, options.units}, .init = init::Zero()})),
      patches_(child("patches", nn::Conv2D(options.units, options.patch, {.strides = options.patch}))),
      positions_(
          child("positions", nn::LearnedPositions(patches_in(options) + 1, options.units, init::TruncNorm(0, 0.02)))),
      dropout_(child("dropout", nn::Dropout(options.dropout))),
      body_(child(
          "body",
          body_of(
              options.layers,
              options.units,
              options.hidden,
              options.heads,
              {.dropout = options.dropout,
               .attention_dropout = options.dropout,
               .activation = "gelu",
               .layer_norm_eps = 1e-6}))),
      head_(child("head", nn::Dense(options.classes, {.in_units = options.units}))) {}

NDArray ViT::forward(const NDArray& x) const {
  const OriginScope here(call_site());
  const NDArray seen = patches_(x);  // (N, units, rows, columns)
  const std::int64_t places = seen.shape()[2] * seen.shape()[3];
  const NDArray sequence = seen.reshape({-1, units_, places}).transpose({0, 2, 1});
  const std::array<NDArray, 2> token_and_shape{class_token_.data(), sequence.slice(1, 0, 1)};
  const NDArray token = invoke(*find_operator("broadcast_like"), token_and_shape, {}, SourceLocation::current())[0];
  const NDArray y = body_(dropout_(positions_(concat({token, sequence}, 1))));
  return head_(y.slice(1, 0, 1).squeeze(1));
}

ViT vit_b_16(std::int64_t classes) {
  return ViT({.classes = classes});
}

ViT vit_s_16(std::int64_t classes) {
  return ViT({.units = 384, .hidden = 1536, .heads = 6, .classes = classes});
}

}  // namespace sluice::gluon::model_zoo
