// Self-attention in training multiplies by the weights of query, key and value at once: what comes of it, by hand and
// in graphs, and when the three are called one by one.
#include <algorithm>
#include <cstdint>
#include <latch>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

struct Kind {
  std::string name;
  nn::MultiHeadAttentionOptions options = {};
  bool masked = false;
  std::int64_t heads = 4;
  // Whether graphs of float32 take products of scores by the same strides as calls by hand: elsewhere reshapes of heads
  // that are views by hand are copies there, whose products are added up in another order.
  bool exact = false;
};

std::vector<Kind> kinds() {
  return {
      {"plain", {}, false, 4, true},
      {"causal, shared heads", {.causal = true, .kv_heads = 2}},
      {"one head of keys, no bias", {.use_bias = false, .kv_heads = 1}, false, 4, true},
      {"masked", {.kv_heads = 2}, true},
      {"rotary", {.causal = true, .kv_heads = 2, .rotary = nn::RotaryOptions{}}},
      {"one head", {}, false, 1}};
}

constexpr std::int64_t k_units = 32;

nn::MultiHeadAttention made(const Kind& kind, DType dtype = float32, Device device = cpu()) {
  nn::MultiHeadAttentionOptions options = kind.options;
  options.dtype = dtype;
  nn::MultiHeadAttention layer(k_units, kind.heads, options);
  layer.initialize(gluon::init::Xavier(), device);
  std::uint64_t seed = 5;
  layer(zeros({1, 1, k_units}, {.dtype = dtype, .device = device}));
  for (const auto& [name, parameter] : layer.collect_params())
    parameter.set_data(random_array(parameter.shape(), ++seed, -0.4, 0.4, dtype));
  return layer;
}

NDArray input_of(DType dtype, Device device, std::int64_t batch = 3) {
  return random_array({batch, 5, k_units}, 1, -1, 1, dtype).to(device);
}

/// The result, the gradient of x and those of all parameters, which train.
Arrays trained(const gluon::Block& layer, const Kind& kind, const NDArray& given, bool apart = false) {
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

std::string difference_of(const Arrays& got, const Arrays& want, const Tolerance& close) {
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

bool are_same(const Arrays& a, const Arrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const NDArray& x, const NDArray& y) {
    return x.dtype() == y.dtype() && x.shape() == y.shape() && values(x.to(cpu())) == values(y.to(cpu()));
  });
}

/// Products of weights that a training call of the layer makes: two, or four where each projection makes its own.
std::size_t products_of(nn::MultiHeadAttention& layer, const NDArray& x) {
  std::size_t count = 0;
  const gluon::HookScope seen(layer.register_op_hook(
      [&](std::string_view, std::string_view op, const NDArray&) { count += op == "dense" ? 1 : 0; }));
  const autograd::RecordScope record;
  layer(x);
  return count;
}

void check_graphs(Device device, DType dtype, bool cast) {
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name, name_of(dtype), cast);
    nn::MultiHeadAttention layer = made(kind, dtype, device);
    const auto run = [&](std::int64_t batch) {
      const amp::AutocastScope scope = amp::autocast(bfloat16, cast);
      return trained(layer, kind, input_of(dtype, device, batch));
    };
    const Arrays by_hand = run(3), larger = run(6);
    layer.hybridize();
    const auto check = [&](const Arrays& got, const Arrays& want) {
      CHECK(values(got[0].to(cpu())) == values(want[0].to(cpu())));
      if (kind.exact || dtype != float32 || cast)
        CHECK(are_same(got, want));
      else
        CHECK(difference_of(got, want, {1e-5, 1e-5}) == "");
    };
    check(run(3), by_hand);
    check(run(6), larger);
    CHECK(layer.hybrid_traces() == 1);
    check(run(3), by_hand);
  }
}

}  // namespace

TEST_CASE("Attention to itself is in training what three projections give, gradients too", "[gluon][attention]") {
  for (const Kind& kind : kinds()) {
    for (const DType dtype : {float64, float32, float16, bfloat16}) {
      CAPTURE(kind.name, name_of(dtype));
      nn::MultiHeadAttention layer = made(kind, dtype);
      const NDArray x = input_of(dtype, cpu());
      CHECK(products_of(layer, x) == 2);
      const double scale = dtype == bfloat16 ? 0.03 : dtype == float16 ? 4e-3 : dtype == float32 ? 1e-5 : 1e-13;
      if (!(kind.masked && kind.options.rotary))
        CHECK(difference_of(trained(layer, kind, x), trained(layer, kind, x, true), {scale, 8 * scale}) == "");
    }
  }
}

TEST_CASE("Projections at once are in graphs what they are by hand, to the last bit", "[gluon][attention]") {
  for (const DType dtype : {float32, float16})
    check_graphs(cpu(), dtype, false);
  check_graphs(cpu(), float32, true);
}

TEST_CASE("Projections at once are on a GPU in graphs what they are by hand", "[gluon][attention][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, bfloat16})
    check_graphs(gpu(), dtype, false);
  check_graphs(gpu(), float32, true);
  for (const Kind& kind : kinds()) {
    CAPTURE(kind.name);
    const nn::MultiHeadAttention half = made(kind, bfloat16, gpu());
    const NDArray few = input_of(bfloat16, gpu());
    CHECK(difference_of(trained(half, kind, few), trained(half, kind, few, true), {0.03, 0.24}) == "");
    const nn::MultiHeadAttention layer = made(kind, float32, gpu()), host = made(kind);
    CHECK(
        difference_of(
            trained(layer, kind, input_of(float32, gpu())),
            trained(host, kind, input_of(float32, cpu())),
            {1e-4, 1e-4}) == "");
  }
}

TEST_CASE("Under autocast weights become one array of the half type, gradients of their own", "[gluon][attention]") {
  const Kind kind{"", {.kv_heads = 2}};
  nn::MultiHeadAttention layer = made(kind), half = made(kind, bfloat16);
  const NDArray x = input_of(float32, cpu());
  Arrays got;
  {
    const amp::AutocastScope scope = amp::autocast(bfloat16);
    CHECK(products_of(layer, x) == 2);
    got = trained(layer, kind, x);
  }
  const Arrays want = trained(half, kind, x.astype(bfloat16));
  CHECK(got[0].dtype() == bfloat16);
  for (std::size_t i = 1; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i].dtype() == float32);
    CHECK(values(got[i]) == values(want[i].astype(float32)));
  }
}

TEST_CASE("Predicting calls the three projections, as before", "[gluon][attention]") {
  nn::MultiHeadAttention layer = made({"", {}});
  const NDArray x = input_of(float32, cpu());
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
    Twice() : inner_(child("inner", nn::Dense(k_units, {.flatten = false}))) {}

   protected:
    NDArray forward(const NDArray& x) const override { return inner_(x) * 2; }

   private:
    gluon::Child<nn::Dense> inner_;
  };
  class Derived : public nn::Dense {
   public:
    Derived() : nn::Dense(k_units, {.flatten = false}) {}

   protected:
    NDArray forward(const NDArray& x) const override { return nn::Dense::forward(x) + 1; }
  };
  const NDArray x = input_of(float32, cpu());
  const auto with = [&](auto&& block) {
    nn::MultiHeadAttention layer = made({"", {}});
    layer.replace("key", std::forward<decltype(block)>(block));
    layer.initialize();
    const std::size_t products = products_of(layer, x);
    CHECK(difference_of(trained(layer, {}, x), trained(layer, {}, x, true), {1e-5, 1e-4}) == "");
    return products;
  };
  CHECK(with(Twice()) == 4);
  CHECK(with(Derived()) == 4);
  CHECK(with(nn::Dense(k_units, {.activation = "tanh", .flatten = false})) == 4);
  CHECK(with(nn::Dense(k_units, {.activation = "relu", .flatten = false})) == 3);  // and one of dense_relu
  CHECK(with(nn::Dense(k_units, {.use_bias = false, .flatten = false})) == 4);
  CHECK(with(nn::Dense(k_units, {.flatten = false})) == 2);

  nn::MultiHeadAttention layer = made({"", {}});
  std::size_t calls = 0;
  {
    const gluon::HookScope seen(layer.child_named("value")->register_forward_hook(
        [&](const gluon::Block&, std::span<const NDArray>, std::span<const NDArray>) { ++calls; }));
    CHECK(products_of(layer, x) == 4);
    CHECK(calls == 1);
  }
  CHECK(products_of(layer, x) == 2);
  CHECK(calls == 1);
  layer.child_named("query")->cast(float64);
  CHECK_THROWS_AS(trained(layer, {}, x), DTypeError);
}

TEST_CASE("A projection that is frozen, or shares its weight, trains the others as they were", "[gluon][attention]") {
  const NDArray x = input_of(float32, cpu());
  for (const char* frozen : {"query", "key", "value"}) {
    CAPTURE(frozen);
    nn::MultiHeadAttention layer = made({"", {}});
    layer.child_named(frozen)->setattr("grad_req", GradReq::null);
    CHECK(products_of(layer, x) == 2);
    const Arrays got = trained(layer, {}, x);
    CHECK(got.size() == 8);
    CHECK(difference_of(got, trained(layer, {}, x, true), {1e-5, 1e-4}) == "");
  }
  nn::MultiHeadAttention layer = made({"", {}});
  layer.child_named("key")->share_parameters(layer.child_named("query")->collect_params());
  CHECK(products_of(layer, x) == 2);
  const Arrays by_hand = trained(layer, {}, x);
  CHECK(difference_of(by_hand, trained(layer, {}, x, true), {1e-5, 1e-4}) == "");
  for (const auto& [name, parameter] : layer.collect_params())
    parameter.set_grad_req(GradReq::add);
  layer.zero_grad();
  trained(layer, {}, x);
  const Arrays twice = trained(layer, {}, x);
  for (std::size_t i = 2; i < twice.size(); ++i)
    CHECK(differences(twice[i], 2 * by_hand[i], {1e-5, 1e-4}) == "");
}

TEST_CASE("Gradients of gradients of attention at once are those of three projections", "[gluon][attention]") {
  nn::MultiHeadAttention layer = made({"", {.causal = true, .kv_heads = 2}}, float64);
  const NDArray given = input_of(float64, cpu());
  const auto second = [&](bool apart) {
    NDArray x = given.copy();
    x.attach_grad();
    const NDArray weight = layer.collect_params()["key.weight"].data();
    const autograd::RecordScope record;
    const NDArray y = apart ? layer({x, x, x})[0] : layer(x);
    const std::vector<NDArray> variables{x, weight}, heads{sum(y * y)};
    const std::vector<NDArray> first = autograd::grad(heads, variables, {}, {.create_graph = true});
    const std::vector<NDArray> again{sum(first[0] * first[0]) + sum(first[1])};
    const std::vector<NDArray> all = autograd::grad(again, variables);
    return Arrays(all.begin(), all.end());
  };
  CHECK(difference_of(second(false), second(true), {1e-10, 1e-10}) == "");
}

TEST_CASE("First training calls from two threads complete projections once", "[gluon][attention]") {
  Engine::current().seed(3);
  nn::MultiHeadAttention layer(k_units, 4), before(k_units, 4);
  before.initialize(gluon::init::Xavier());
  before({input_of(float32, cpu()), input_of(float32, cpu()), input_of(float32, cpu())});
  Engine::current().seed(3);
  layer.initialize(gluon::init::Xavier());
  std::latch both(2);
  std::vector<Arrays> got(2);
  const NDArray x = input_of(float32, cpu());
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
  CHECK(are_same(got[0], got[1]));
  for (const auto& [name, parameter] : layer.collect_params())
    CHECK(values(parameter.data()) == values(before.collect_params()[name].data()));  // the same numbers were drawn
}

TEST_CASE("Projections at once follow casts and new values, by hand and in graphs", "[gluon][attention]") {
  const Kind kind{"", {}};
  nn::MultiHeadAttention layer = made(kind);
  layer.hybridize();
  trained(layer, kind, input_of(float32, cpu()));
  layer.cast(float64);
  const NDArray x = input_of(float64, cpu());
  trained(layer, kind, x);
  layer.initialize(gluon::init::Normal(0.3), cpu(), true);
  const Arrays graph = trained(layer, kind, x);
  layer.hybridize(false);
  CHECK(are_same(trained(layer, kind, x), graph));
  CHECK(difference_of(graph, trained(layer, kind, x, true), {1e-12, 1e-12}) == "");
}

TEST_CASE("Heads that are more than numbers hold are refused", "[gluon][attention]") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const NDArray x = zeros({1, 2, 6});
  for (const auto& [heads, shared] : {std::pair{std::int64_t{2}, most}, {most, 1}, {most / 2, most / 4}, {-1, 0}})
    CHECK_THROWS_AS(packed_attention(x, heads, shared), ShapeError);
}

TEST_CASE("A variable's pieces are gone back through one by one", "[gluon][attention]") {
  NDArray x = arange(0, 6);
  x.attach_grad(GradReq::add);
  NDArray first, second;
  {
    const autograd::RecordScope record;
    const std::vector<NDArray> pieces = split(x, 2);
    first = sum(pieces[0] * 2);
    second = sum(pieces[1] * 3);
  }
  first.backward();
  second.backward();
  CHECK(values(x.grad()) == std::vector<float>{2, 2, 2, 3, 3, 3});
}

TEST_CASE("An encoder layer's mask may be none, and what projections refuse names them", "[gluon][attention]") {
  nn::TransformerEncoderLayer layer(k_units, 64, 4);
  layer.initialize(gluon::init::Xavier());
  const NDArray x = input_of(float32, cpu());
  CHECK(values(layer({x, NDArray()})[0]) == values(layer(x)));
  nn::MultiHeadAttention turned(k_units, 4, {.rotary = nn::RotaryOptions{}});
  turned.initialize(gluon::init::Xavier());
  const auto trained_on = [](const auto& call) {
    const autograd::RecordScope record;
    call();
  };
  CHECK_THROWS_AS(trained_on([&] { turned({x, NDArray()}); }), Error);
  nn::MultiHeadAttention bare(k_units, 4);
  CHECK_THROWS_WITH(trained_on([&] { bare(x); }), test::contains("query"));
  bare.initialize(gluon::init::Xavier());
  bare(x);
  CHECK_THROWS_WITH(trained_on([&] { bare(x.astype(float64)); }), test::contains("query"));
  CHECK_THROWS_WITH(
      trained_on([&] { bare(x.slice(2, 1, x.shape()[2])); }), test::contains("query") && test::contains("31"));
}

TEST_CASE("Arrays that are joined as another type are what they are when they are cast", "[gluon][attention]") {
  const NDArray small = array(std::vector<double>{1e-40, 1, 1e-320, -1e-40}), x = small.astype(float32);
  CHECK(values(concat(std::vector<NDArray>{small, small}, 0, float32).slice(0, 4, 8)) == values(x));
  CHECK(values(concat(std::vector<NDArray>{x}, 0, float64)) == values(x.astype(float64)));
}
