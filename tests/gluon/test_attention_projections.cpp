// When self-attention in training multiplies by the weights of query, key and value at once, and when the three are
// called one by one.
#include <algorithm>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gluon/attention_kinds.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

TEST_CASE("Predicting calls the three projections, as before", "[gluon][attention]") {
  nn::MultiHeadAttention layer = made_attention({"", {}});
  const NDArray x = attention_input(float32, cpu());
  std::size_t count = 0;
  const gluon::HookScope seen(layer.register_op_hook(
      [&](std::string_view, std::string_view op, const NDArray&) { count += op == "dense" ? 1 : 0; }));
  const NDArray y = layer(x);
  CHECK(count == 4);
  const autograd::RecordScope record(false);
  CHECK(values(layer(x)) == values(y));
  CHECK(values(layer({x, x, x})[0]) == values(y));
  CHECK(count == 12);
}

TEST_CASE("What stands in a projection's place, or looks at it, is called", "[gluon][attention]") {
  class Twice : public gluon::Block {
   public:
    Twice() : inner_(child("inner", nn::Dense(k_attention_units, {.flatten = false}))) {}

   protected:
    NDArray forward(const NDArray& x) const override { return inner_(x) * 2; }

   private:
    gluon::Child<nn::Dense> inner_;
  };
  class Derived : public nn::Dense {
   public:
    Derived() : nn::Dense(k_attention_units, {.flatten = false}) {}

   protected:
    NDArray forward(const NDArray& x) const override { return nn::Dense::forward(x) + 1; }
  };
  const NDArray x = attention_input(float32, cpu());
  const auto with = [&](auto&& block) {
    nn::MultiHeadAttention layer = made_attention({"", {}});
    layer.replace("key", std::forward<decltype(block)>(block));
    layer.initialize();
    const std::size_t products = products_in_training(layer, x);
    CHECK(
        difference_of_all(trained_attention(layer, {}, x), trained_attention(layer, {}, x, true), {1e-5, 1e-4}) == "");
    return products;
  };
  CHECK(with(Twice()) == 4);
  CHECK(with(Derived()) == 4);
  CHECK(with(nn::Dense(k_attention_units, {.activation = "tanh", .flatten = false})) == 4);
  CHECK(with(nn::Dense(k_attention_units, {.activation = "relu", .flatten = false})) == 3);  // and one of dense_relu
  CHECK(with(nn::Dense(k_attention_units, {.use_bias = false, .flatten = false})) == 4);
  CHECK(with(nn::Dense(k_attention_units, {.flatten = false})) == 2);

  nn::MultiHeadAttention layer = made_attention({"", {}});
  std::size_t calls = 0;
  {
    const gluon::HookScope seen(layer.child_named("value")->register_forward_hook(
        [&](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) { ++calls; }));
    CHECK(products_in_training(layer, x) == 4);
    CHECK(calls == 1);
  }
  CHECK(products_in_training(layer, x) == 2);
  CHECK(calls == 1);
  layer.child_named("query")->cast(float64);
  CHECK_THROWS_AS(trained_attention(layer, {}, x), DTypeError);
}

TEST_CASE("A projection that is frozen, or shares its weight, trains the others as they were", "[gluon][attention]") {
  const NDArray x = attention_input(float32, cpu());
  for (const char* frozen : {"query", "key", "value"}) {
    CAPTURE(frozen);
    nn::MultiHeadAttention layer = made_attention({"", {}});
    layer.child_named(frozen)->setattr("grad_req", GradReq::null);
    const Arrays got = trained_attention(layer, {}, x);
    CHECK(got.size() == 8);
    CHECK(difference_of_all(got, trained_attention(layer, {}, x, true), {1e-5, 1e-4}) == "");
  }
  nn::MultiHeadAttention layer = made_attention({"", {}});
  layer.child_named("key")->share_parameters(layer.child_named("query")->collect_params());
  CHECK(products_in_training(layer, x) == 2);
  const Arrays by_hand = trained_attention(layer, {}, x);
  CHECK(difference_of_all(by_hand, trained_attention(layer, {}, x, true), {1e-5, 1e-4}) == "");
  for (const auto& [name, parameter] : layer.collect_params())
    parameter.set_grad_req(GradReq::add);
  layer.zero_grad();
  trained_attention(layer, {}, x);
  const Arrays twice = trained_attention(layer, {}, x);
  for (std::size_t i = 2; i < twice.size(); ++i)
    CHECK(differences(twice[i], 2 * by_hand[i], {1e-5, 1e-4}) == "");
}

TEST_CASE("Of a projection that is frozen no gradient is computed", "[gluon][attention]") {
  struct Frozen {
    std::vector<const char*> parameters;
    std::size_t products, gradients;
  };
  const Frozen all[] = {
      {{}, 2, 2},
      {{"key.weight", "key.bias"}, 4, 3},
      {{"query.weight", "value.weight"}, 4, 2},
      {{"query.bias"}, 4, 4},
      {{"query.weight", "key.weight", "value.weight"}, 2, 1},
      {{"query.bias", "key.bias", "value.bias"}, 2, 2},
      {{"query.weight", "key.weight", "value.weight", "query.bias", "key.bias", "value.bias"}, 2, 1}};
  for (const bool in_graph : {false, true}) {
    nn::MultiHeadAttention layer = made_attention({"", {}});
    const NDArray x = attention_input(float32, cpu());
    gluon::ParameterDict parameters = layer.collect_params();
    if (in_graph)
      layer.hybridize();
    for (const Frozen& frozen : all) {
      CAPTURE(in_graph, frozen.parameters);
      for (const auto& [name, parameter] : parameters) {
        const bool is_frozen =
            std::find(frozen.parameters.begin(), frozen.parameters.end(), name) != frozen.parameters.end();
        parameter.set_grad_req(is_frozen ? GradReq::null : GradReq::write);
      }
      trained_attention(layer, {}, x);
      CallCounts calls;
      const CallObserverScope seen(&calls);
      trained_attention(layer, {}, x);
      CHECK(calls.of("dense") == frozen.products);
      CHECK(calls.of("dense_backward_weights") == frozen.gradients);
    }
  }
}

TEST_CASE("First training calls from two threads complete projections once", "[gluon][attention]") {
  Engine::current().seed(3);
  nn::MultiHeadAttention layer(k_attention_units, 4), before(k_attention_units, 4);
  before.initialize(gluon::init::Xavier());
  before({attention_input(float32, cpu()), attention_input(float32, cpu()), attention_input(float32, cpu())});
  Engine::current().seed(3);
  layer.initialize(gluon::init::Xavier());
  std::latch both(2);
  std::vector<Arrays> got(2);
  const NDArray x = attention_input(float32, cpu());
  std::vector<std::thread> threads;
  for (Arrays& one : got) {
    threads.emplace_back([&] {
      both.arrive_and_wait();
      const autograd::RecordScope record;
      one = {layer(x)};
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(are_all_same(got[0], got[1]));
  for (const auto& [name, parameter] : layer.collect_params())
    CHECK(values(parameter.data()) == values(before.collect_params()[name].data()));  // the same numbers were drawn
}

TEST_CASE("An encoder layer's mask may be none, and what projections refuse names them", "[gluon][attention]") {
  nn::TransformerEncoderLayer layer(k_attention_units, 64, 4);
  layer.initialize(gluon::init::Xavier());
  const NDArray x = attention_input(float32, cpu());
  CHECK(values(layer({x, NDArray()})[0]) == values(layer(x)));
  nn::MultiHeadAttention turned(k_attention_units, 4, {.rotary = nn::RotaryOptions{}});
  turned.initialize(gluon::init::Xavier());
  const auto trained_on = [](const auto& call) {
    const autograd::RecordScope record;
    call();
  };
  CHECK_THROWS_AS(trained_on([&] { turned({x, NDArray()}); }), Error);
  nn::MultiHeadAttention bare(k_attention_units, 4);
  CHECK_THROWS_WITH(trained_on([&] { bare(x); }), test::contains("query"));
  bare.initialize(gluon::init::Xavier());
  bare(x);
  CHECK_THROWS_WITH(trained_on([&] { bare(x.astype(float64)); }), test::contains("query"));
  CHECK_THROWS_WITH(
      trained_on([&] { bare(x.slice(2, 1, x.shape()[2])); }), test::contains("query") && test::contains("31"));
}
