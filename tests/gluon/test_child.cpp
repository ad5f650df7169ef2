#include <memory>
#include <optional>
#include <type_traits>

#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

nn::Sequential three_layers() {
  nn::Sequential net;
  net.add(nn::Dense(4, {.activation = "tanh"}), nn::Dense(3), nn::Dense(2));
  return net;
}

// Twice its body.
class Doubled : public gluon::Block {
 public:
  explicit Doubled(std::int64_t units) : body_(child("body", nn::Dense(units))) {}
  const gluon::Child<nn::Dense>& body() const { return body_; }

 protected:
  NDArray forward(const NDArray& x) const override { return body_(x) * 2; }

 private:
  gluon::Child<nn::Dense> body_;
};

// Two arrays in, two out.
class SumAndDifference : public gluon::Block {
 protected:
  Arrays forward_all(std::span<const NDArray> in) const override {
    require_inputs(in, 2);
    return {in[0] + in[1], in[0] - in[1]};
  }
};

class Forwardless : public gluon::Block {};

template <class B>
concept HasPublicForward = requires(B& block, NDArray x) {
  block.forward(x);
};

using Layer = decltype(std::declval<nn::Sequential&>()[0]);

}  // namespace

static_assert(!std::is_assignable_v<Layer, nn::Dense>);
static_assert(!std::is_assignable_v<Layer, Layer>);  // a temporary would be rebound
static_assert(std::is_assignable_v<Layer&, Layer>);
static_assert(!std::is_assignable_v<decltype(*std::declval<Layer>()), nn::Dense>);
static_assert(!std::is_move_assignable_v<nn::Dense> && !std::is_move_assignable_v<nn::Sequential>);
static_assert(!std::is_move_assignable_v<gluon::Block> && !std::is_move_constructible_v<gluon::Block>);
static_assert(!HasPublicForward<nn::Dense> && !HasPublicForward<nn::Sequential> && !HasPublicForward<gluon::Block>);
static_assert(!std::is_reference_v<decltype(std::declval<gluon::ParameterDict&>()["x"])>);

TEST_CASE("replace puts another layer in a place, and all that names the place follows", "[gluon][block]") {
  nn::Sequential net = three_layers();
  net.initialize(gluon::init::One());
  CHECK(net(ones({1, 3})).shape() == Shape{1, 2});
  const auto layer = net[2];
  const std::shared_ptr<gluon::Block> old = net.replace("2", nn::Dense(5));
  REQUIRE(old != nullptr);
  CHECK(old->own_parameter("weight").shape() == Shape{2, 3});
  net.initialize(gluon::init::One());
  CHECK(net(ones({1, 3})).shape() == Shape{1, 5});
  CHECK(layer(ones({1, 3})).shape() == Shape{1, 5});
  CHECK(layer->own_parameter("weight").shape() == Shape{5, 3});
  CHECK(net.collect_params().names() == "0.weight, 0.bias, 1.weight, 1.bias, 2.weight, 2.bias");
  CHECK_THROWS_WITH(net.replace("3", nn::Dense(5)), contains("'3'") && contains("0, 1, 2"));
  CHECK_THROWS_AS(net.replace("2", std::shared_ptr<gluon::Block>()), ValueError);
}

TEST_CASE("a layer is not moved to a name where it cannot stand", "[gluon][block]") {
  class Open : public gluon::Block {
   public:
    using gluon::Block::child;
  };
  nn::Sequential net = three_layers();
  nn::Dense layer(5, {.in_units = 3});
  CHECK_THROWS_WITH(net.replace("tow", std::move(layer)), contains("'tow'"));
  CHECK(layer.own_parameter("weight").shape() == Shape{5, 3});
  Open block;
  block.child("taken", nn::Dense(1));
  CHECK_THROWS_WITH(block.child("taken", std::move(layer)), contains("'taken'"));
  CHECK_THROWS_AS(block.child("a.b", std::move(layer)), ValueError);
  CHECK(layer.own_parameter("weight").shape() == Shape{5, 3});
  block.child("free", std::move(layer));
  CHECK(block.collect_params().names() == "taken.weight, taken.bias, free.weight, free.bias");
}

TEST_CASE("a block's own handle follows replace, by any type", "[gluon][block]") {
  Doubled block(3);
  block.initialize(gluon::init::One());
  CHECK(values(block(ones({1, 2}))) == std::vector<float>(3, 4));
  block.replace("body", nn::Dense(1, {.use_bias = false}));
  block.initialize(gluon::init::One());
  CHECK(values(block(ones({1, 2}))) == std::vector<float>{4});
  CHECK(block.body()->collect_params().names() == "weight");
  block.replace("body", nn::Lambda([](const NDArray& x) { return x + 1; }));
  CHECK(values(block(ones({1, 2}))) == std::vector<float>{4, 4});
  CHECK_THROWS_WITH(block.body()->collect_params(), contains("Lambda") && contains("Dense"));
  CHECK(block.body().name() == "body");
}

TEST_CASE("a child seen by its type", "[gluon][block]") {
  nn::Sequential net;
  net.add(three_layers(), nn::Flatten());
  const gluon::Child<nn::Sequential> inner = net[0].as<nn::Sequential>();
  CHECK(inner->size() == 3);
  CHECK(&*inner == &*net[0]);
  CHECK((*inner)[1].name() == "1");
  CHECK_THROWS_WITH(net[1].as<nn::Sequential>(), contains("'1' is a Flatten, not a Sequential"));
}

TEST_CASE("a child that is used after its net is an error", "[gluon][block]") {
  std::optional<gluon::Child<>> layer;
  const auto shared = std::make_shared<nn::Dense>(3);
  {
    nn::Sequential net = three_layers();
    net.add(shared);
    net.initialize(gluon::init::One());
    net(ones({1, 3}));
    layer = net[3];
    CHECK((*layer)(ones({1, 2})).shape() == Shape{1, 3});
  }
  CHECK_THROWS_WITH((*layer)(ones({1, 2})), contains("is gone") && contains("'3'"));
  CHECK_THROWS_AS((*layer)->own_parameter("weight"), ValueError);
  CHECK_THROWS_AS(**layer, ValueError);
  CHECK((*shared)(ones({1, 2})).shape() == Shape{1, 3});  // whoever shares it has it still
  CHECK_THROWS_AS(gluon::Child<>()(ones({1})), ValueError);
  CHECK_THROWS_AS(gluon::Child<>().name(), ValueError);
}

TEST_CASE("handles survive a move of their net", "[gluon][block]") {
  nn::Sequential net = three_layers();
  const auto layer = net[1];
  nn::Sequential outer;
  outer.add(std::move(net));
  outer.initialize(gluon::init::One());
  outer(ones({1, 3}));
  CHECK(layer->own_parameter("weight").is_initialized());
}

TEST_CASE("a block that was moved from says so instead of passing its input on", "[gluon][block]") {
  nn::Sequential net = three_layers();
  nn::Sequential moved = std::move(net);
  CHECK_THROWS_WITH(net(ones({1, 3})), contains("moved from"));
  CHECK_THROWS_AS(net[0], ValueError);
  CHECK_THROWS_AS(net.add(nn::Dense(1)), ValueError);
  CHECK_THROWS_AS(net.apply([](gluon::Block&) {}), ValueError);
  CHECK(net.num_children() == 0);
}

TEST_CASE("a net cannot be put into itself, not through others either", "[gluon][block]") {
  nn::Sequential alone;
  alone.add(nn::Dense(1));
  CHECK_THROWS_WITH(alone.add(std::move(alone)), contains("Sequential"));
  CHECK(alone.size() == 1);  // and was not moved

  const auto outer = std::make_shared<nn::Sequential>(), middle = std::make_shared<nn::Sequential>(),
             inner = std::make_shared<nn::Sequential>();
  CHECK_THROWS_AS(outer->add(outer), ValueError);
  outer->add(middle);
  middle->add(inner);
  CHECK_THROWS_AS(inner->add(outer), ValueError);
  CHECK_THROWS_AS(inner->add(std::move(*outer)), ValueError);
  inner->add(nn::Dense(1));
  CHECK_THROWS_AS(inner->replace("0", outer), ValueError);
  CHECK_THROWS_AS(middle->replace("0", middle), ValueError);
  CHECK(outer->collect_params().names() == "0.0.0.weight, 0.0.0.bias");
}

TEST_CASE("moving a block in by the type of its base is refused", "[gluon][block]") {
  class Special : public nn::Sequential {};
  Special special;
  special.add(nn::Dense(1));
  nn::Sequential net;
  CHECK_THROWS_WITH(net.add(std::move(static_cast<nn::Sequential&>(special))), contains("Special"));
  CHECK(special.size() == 1);
  net.add(std::move(special));
  CHECK(net.collect_params().names() == "0.0.weight, 0.0.bias");
}

TEST_CASE("blocks take and give several arrays", "[gluon][block]") {
  const SumAndDifference block;
  const NDArray a = full({2}, 5), b = full({2}, 3);
  const Arrays both = block({a, b});
  REQUIRE(both.size() == 2);
  CHECK(values(both[0]) == std::vector<float>{8, 8});
  CHECK(values(both[1]) == std::vector<float>{2, 2});
  CHECK_THROWS_WITH(block(a), contains("SumAndDifference") && contains("2"));
  CHECK_THROWS_WITH(block(a, b), contains("gives 2"));
  CHECK_THROWS_WITH(nn::Flatten()(a, b), contains("Flatten") && contains("1"));
  CHECK_THROWS_WITH(Forwardless()(a), contains("Forwardless"));
  CHECK_THROWS_AS(gluon::loss::L2Loss()(a), ValueError);
}

TEST_CASE("what a dictionary of parameters gives outlives it", "[gluon][parameter]") {
  nn::Sequential net = three_layers();
  net.initialize(gluon::init::One());
  net(ones({1, 3}));
  const auto& weight = net.collect_params()["2.weight"];  // a copy, whose life the reference extends
  CHECK(values(weight.data()) == std::vector<float>(6, 1));
  const auto& found = net.collect_params().find("2.bias");
  REQUIRE(found.has_value());
  CHECK(found->shape() == Shape{2});
  CHECK_FALSE(net.collect_params().find("3.bias").has_value());
  const auto& data = three_layers().collect_params()["0.bias"].name();
  CHECK(data == "bias");
  const auto& shape = gluon::Parameter("w", {.shape = {2, 3}}).shape();
  CHECK(shape == Shape{2, 3});
}
