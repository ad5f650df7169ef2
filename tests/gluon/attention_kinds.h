#pragma once

// Attention to itself, trained, for the tests of the layer.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

namespace sluice::test {

/// Attention in its kinds.
struct AttentionKind {
  std::string name;
  gluon::nn::MultiHeadAttentionOptions options = {};
  bool masked = false;
  std::int64_t heads = 4;
};

inline std::vector<AttentionKind> attention_kinds() {
  return {
      {"plain"},
      {"causal, shared heads", {.causal = true, .kv_heads = 2}},
      {"one head of keys, no bias", {.use_bias = false, .kv_heads = 1}},
      {"masked", {.kv_heads = 2}, true},
      {"rotary", {.causal = true, .kv_heads = 2, .rotary = gluon::nn::RotaryOptions{}}},
      {"one head", {}, false, 1}};
}

inline constexpr std::int64_t k_attention_units = 32;

inline gluon::nn::MultiHeadAttention made_attention(
    const AttentionKind& kind, DType dtype = float32, Device device = cpu()) {
  gluon::nn::MultiHeadAttentionOptions options = kind.options;
  options.dtype = dtype;
  gluon::nn::MultiHeadAttention layer(k_attention_units, kind.heads, options);
  layer.initialize(gluon::init::Xavier(), device);
  std::uint64_t seed = 5;
  layer(zeros({1, 1, k_attention_units}, {.dtype = dtype, .device = device}));
  for (const auto& [name, parameter] : layer.collect_params())
    parameter.set_data(random_array(parameter.shape(), ++seed, -0.4, 0.4, dtype));
  return layer;
}

inline NDArray attention_input(DType dtype, Device device, std::int64_t batch = 3) {
  return random_array({batch, 5, k_attention_units}, 1, -1, 1, dtype).to(device);
}

/// The result, the gradient of x and those of all parameters, which train.
inline Arrays trained_attention(
    const gluon::Block& layer, const AttentionKind& kind, const NDArray& given, bool apart = false) {
  NDArray x = given.copy(), y;
  x.attach_grad();
  const NDArray mask =
      kind.masked ? (random_array({given.shape()[0], 1, 1, 5}, 7) > -0.5).to(given.device()) : NDArray();
  {
    const autograd::RecordScope record;
    Arrays in{x};
    if (apart)
      in.insert(in.end(), 2, x);
    if (kind.masked)
      in.push_back(mask);
    y = layer.call(in)[0];
  }
  y.backward(random_array(y.shape(), 9, -1, 1, y.dtype()).to(y.device()));
  Arrays all{y.detach(), x.grad()};
  for (const auto& [name, parameter] : layer.collect_params()) {
    if (parameter.grad_req() != GradReq::null)
      all.push_back(parameter.grad().copy());
  }
  return all;
}

inline std::string difference_of_all(const Arrays& got, const Arrays& want, const Tolerance& close) {
  if (got.size() != want.size())
    return "other numbers of arrays";
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i].dtype() != want[i].dtype())
      return message("array ", i, " is of another type");
    const std::string found = differences(got[i].to(cpu()).astype(float64), want[i].to(cpu()).astype(float64), close);
    if (!found.empty())
      return message("array ", i, ": ", found);
  }
  return "";
}

inline bool are_all_same(const Arrays& a, const Arrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const NDArray& x, const NDArray& y) {
    return x.dtype() == y.dtype() && x.shape() == y.shape() && values(x.to(cpu())) == values(y.to(cpu()));
  });
}

/// Products of weights that a training call of the layer makes: two, or four where each projection makes its own.
inline std::size_t products_in_training(gluon::nn::MultiHeadAttention& layer, const NDArray& x) {
  std::size_t count = 0;
  const gluon::HookScope seen(layer.register_op_hook(
      [&](std::string_view, std::string_view op, const NDArray&) { count += op == "dense" ? 1 : 0; }));
  const autograd::RecordScope record;
  layer(x);
  return count;
}

/// Calls of operators by name, those of gradients too.
class CallCounts final : public CallObserver {
 public:
  void called(const Operator& op, std::span<const NDArray>, std::span<const NDArray>) override { ++counts_[op.name]; }
  std::size_t of(const std::string& name) { return counts_[name]; }

 private:
  std::map<std::string, std::size_t> counts_;
};

}  // namespace sluice::test
