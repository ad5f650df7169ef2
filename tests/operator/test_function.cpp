// Functions with gradients of their own, and products with derivatives.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using autograd::Kept;

namespace {

using Values = std::vector<float>;
using Grads = std::vector<NDArray>;

/// a b and a / b; keeps both inputs and the quotient.
struct ProductAndQuotient : autograd::Function {
  const char* name() const noexcept override { return "product_and_quotient"; }
  Grads forward(std::span<const NDArray> in, Kept& kept) const override {
    CHECK(!autograd::is_recording());
    CHECK((kept.wants(0) && kept.wants(1)));
    const NDArray quotient = in[0] / in[1];
    kept.save(in);
    kept.save(quotient);
    return {in[0] * in[1], quotient};
  }
  Grads backward(std::span<const NDArray> grads, const Kept& kept) const override {
    CHECK(kept.size() == 3);
    const NDArray a = kept.saved(0), b = kept.saved(1), quotient = kept.saved(2);
    return {
        kept.wants(0) ? grads[0] * b + grads[1] / b : NDArray(),
        kept.wants(1) ? grads[0] * a - grads[1] * quotient / b : NDArray()};
  }
};

/// What tests of errors ask for.
struct Adjustable : autograd::Function {
  std::function<Grads(std::span<const NDArray>, Kept&)> f;
  std::function<Grads(std::span<const NDArray>, const Kept&)> df;
  const char* name() const noexcept override { return "adjustable"; }
  Grads forward(std::span<const NDArray> in, Kept& kept) const override { return f(in, kept); }
  Grads backward(std::span<const NDArray> grads, const Kept& kept) const override { return df(grads, kept); }
};

NDArray variable(const Values& values, DType dtype = float32) {
  NDArray x = array(values, {static_cast<std::int64_t>(values.size())}).astype(dtype);
  x.attach_grad();
  return x;
}

const auto k_function = std::make_shared<ProductAndQuotient>();

}  // namespace

TEST_CASE("A function of one's own gives values, and gradients as its backward says", "[autograd][function]") {
  const NDArray a = variable({1, 2, 3}), b = variable({4, 5, 8});
  Grads out;
  {
    const autograd::RecordScope record;
    out = autograd::apply(k_function, {a, b});
  }
  CHECK(out[0].to_vector<float>() == Values{4, 10, 24});
  const Grads grads = autograd::grad(std::vector{out[0]}, std::vector{a, b}, {}, {.retain_graph = true});
  CHECK(grads[0].to_vector<float>() == Values{4, 5, 8});  // nobody used the quotient: its gradient is zeros
  CHECK(grads[1].to_vector<float>() == Values{1, 2, 3});
  // One input alone, through a strided head.
  const NDArray head = array(Values{1, 0, 10, 0, 100, 0}, {6}).slice(0, 0, 6, 2);
  const Grads of_b = autograd::grad(std::vector{out[1]}, std::vector{b}, std::vector{head});
  CHECK(differences(of_b[0], array(Values{-1.0f / 16, -20.0f / 25, -300.0f / 64}, {3}), {1e-6, 0}) == "");
}

TEST_CASE("A function's gradient has a gradient, towards inputs and through results", "[autograd][function]") {
  const NDArray a = variable({2, 3}, float64), b = variable({4, 5}, float64);
  const auto second = [&](bool own) {
    const autograd::RecordScope record;
    const NDArray y = own ? autograd::apply(k_function, std::vector{a, b})[1] : a / b;
    const NDArray first = autograd::grad(std::vector{y}, std::vector{b}, {}, {.create_graph = true})[0];
    return autograd::grad(std::vector{square(first)}, std::vector{a, b});
  };
  const Grads own = second(true), plain = second(false);
  CHECK(differences(own[0], plain[0], {1e-14, 0}) == "");
  CHECK(differences(own[1], plain[1], {1e-14, 0}) == "");
}

TEST_CASE("A function off the tape keeps nothing, and gives new handles", "[autograd][function]") {
  const NDArray a = variable({1, 2}), b = array(Values{4, 5}, {2});
  const Grads out = autograd::apply(k_function, std::vector{a, b});  // not recorded
  CHECK(!autograd::on_tape(out[0]));
  auto through = std::make_shared<Adjustable>();
  through->f = [](std::span<const NDArray> in, Kept&) { return Grads{in[0], in[0].astype(int32)}; };
  through->df = [](std::span<const NDArray> grads, const Kept&) { return Grads{grads[0] * 3.0f}; };
  Grads same;
  {
    const autograd::RecordScope record;
    same = autograd::apply(through, {a});
  }
  CHECK(!same[0].same(a));
  CHECK(!autograd::on_tape(same[1]));  // integers have no gradient
  same[0].backward();
  CHECK(a.grad().to_vector<float>() == Values{3, 3});
}

TEST_CASE("A function lives as long as the tape, and no longer", "[autograd][function]") {
  std::weak_ptr<Adjustable> watched;
  {
    const NDArray a = variable({1, 2});
    NDArray y;
    {
      auto function = std::make_shared<Adjustable>();
      watched = function;
      function->f = [](std::span<const NDArray> in, Kept& kept) {
        const NDArray made = in[0] * 2.0f;
        kept.save(made);  // a result that its own node keeps is no cycle
        return Grads{made};
      };
      function->df = [](std::span<const NDArray> grads, const Kept& kept) { return Grads{grads[0] * kept.saved(0)}; };
      const autograd::RecordScope record;
      y = autograd::apply(std::move(function), std::vector{a})[0];
    }
    CHECK(!watched.expired());
    y.backward();
    CHECK(a.grad().to_vector<float>() == Values{2, 4});
    CHECK_THROWS_AS(y.backward(), AutogradError);  // used up
  }
  CHECK(watched.expired());
}

TEST_CASE("Faults of a function are typed errors that name it", "[autograd][function]") {
  const NDArray a = variable({1, 2});
  auto function = std::make_shared<Adjustable>();
  function->f = [](std::span<const NDArray> in, Kept& kept) {
    kept.save(in[0]);
    return Grads{in[0] * 2.0f};
  };
  const auto run = [&] {
    const autograd::RecordScope record;
    return autograd::apply(function, std::vector{a})[0];
  };
  function->df = [](std::span<const NDArray>, const Kept&) { return Grads(); };
  CHECK_THROWS_WITH(run().backward(), sluice::test::contains("adjustable: backward gave 0 gradients for 1 inputs"));
  function->df = [](std::span<const NDArray> grads, const Kept&) { return Grads{grads[0].slice(0, 0, 1)}; };
  CHECK_THROWS_AS(run().backward(), AutogradError);
  function->df = [](std::span<const NDArray>, const Kept& kept) { return Grads{kept.saved(1)}; };
  CHECK_THROWS_AS(run().backward(), IndexError);
  function->df = [](std::span<const NDArray> grads, const Kept& kept) { return Grads{grads[0] * kept.saved(0)}; };
  const NDArray y = run();
  a.detach().assign(7);
  CHECK_THROWS_WITH(
      y.backward(), sluice::test::contains("adjustable") && sluice::test::contains("was written after forward"));
  function->f = [](std::span<const NDArray> in, Kept& kept) {  // written by forward itself
    const NDArray own = in[0].copy();
    kept.save(own);
    own.assign(100);
    return Grads{in[0] * 2.0f};
  };
  CHECK_THROWS_WITH(run().backward(), sluice::test::contains("was written after forward"));
  function->df = [](std::span<const NDArray> grads, const Kept&) { return Grads{grads[0].astype(float64)}; };
  CHECK_THROWS_WITH(run().backward(), sluice::test::contains("adjustable: backward gave float64"));
  function->f = [](std::span<const NDArray>, Kept&) { return Grads{NDArray()}; };
  CHECK_THROWS_AS(run(), ValueError);
  CHECK_THROWS_WITH(run(), sluice::test::contains("adjustable: forward gave an undefined NDArray as result 0 of 1"));
  CHECK_THROWS_AS(autograd::apply(nullptr, std::vector{a}), ValueError);
  CHECK_THROWS_AS(autograd::apply(function, std::vector{NDArray()}), ValueError);
}

TEST_CASE("Products with derivatives are those of the matrices", "[autograd][products]") {
  const NDArray x = array(std::vector<double>{0.5, -1, 2}, {3});
  const auto f = [](const NDArray& at) {
    return concat(std::vector{square(at), at.slice(0, 0, 2) * at.slice(0, 1, 3)}, 0);
  };
  const NDArray j = autograd::jacobian(f, x);
  CHECK(j.to_vector<double>() == std::vector<double>{1, 0, 0, 0, -2, 0, 0, 0, 4, -1, 0.5, 0, 0, 2, -1});
  CHECK(j.shape() == Shape{5, 3});
  const NDArray u = array(std::vector<double>{1, 2, 3, 4, 5}, {5}), v = array(std::vector<double>{7, -1, 0.5}, {3});
  const auto [y, pulled] = autograd::vjp(f, x, u);
  CHECK(differences(pulled, matmul(u, j), {1e-15, 1e-15}) == "");
  CHECK(differences(y, f(x), {0, 0}) == "");
  CHECK(differences(autograd::jvp(f, x, v).second, matmul(j, v), {1e-15, 1e-15}) == "");

  const auto energy = [](const NDArray& at) {
    return sum(square(at) * at) + sum(at.slice(0, 0, 1) * at.slice(0, 2, 3));
  };
  const NDArray h = autograd::hessian(energy, x);
  CHECK(h.to_vector<double>() == std::vector<double>{3, 0, 1, 0, -6, 0, 1, 0, 12});
  CHECK(differences(autograd::hvp(energy, x, v), matmul(h, v), {1e-15, 1e-15}) == "");
  CHECK(!x.requires_grad());
}

TEST_CASE("Products go back in the mode that their caller is in", "[autograd][products]") {
  auto function = std::make_shared<Adjustable>();
  bool trains = false;
  function->f = [](std::span<const NDArray> in, Kept&) { return Grads{in[0] * 2.0f}; };
  function->df = [&](std::span<const NDArray> grads, const Kept&) {
    trains = autograd::is_training();
    return Grads{grads[0] * 2.0f};
  };
  const NDArray x = array(Values{1, 2}, {2});
  const auto f = [&](const NDArray& at) { return autograd::apply(function, std::vector{at})[0]; };
  for (const bool training : {false, true}) {
    const autograd::ModeScope mode(false, training);
    trains = !training;
    CHECK(autograd::vjp(f, x, x).second.to_vector<float>() == Values{2, 4});
    CHECK(trains == training);
  }
}

TEST_CASE("Products at the ends: linear and empty functions, wrong shapes", "[autograd][products]") {
  const NDArray x = array(Values{1, 2}, {2});
  const auto linear = [](const NDArray& at) { return sum(at); };
  CHECK(autograd::hessian(linear, x).to_vector<float>() == Values(4, 0.0f));
  CHECK(autograd::hvp(linear, x, x).to_vector<float>() == Values(2, 0.0f));
  CHECK(autograd::jvp(linear, x, x).second.item<float>() == 3.0f);
  CHECK(autograd::jvp([](const NDArray& at) { return sign(at); }, x, x).second.to_vector<float>() == Values(2, 0.0f));
  CHECK(autograd::jacobian([](const NDArray& at) { return at.slice(0, 0, 0); }, x).shape() == Shape{0, 2});
  CHECK(autograd::jacobian(linear, array(Values{}, {0})).shape() == Shape{0});
  CHECK_THROWS_AS(autograd::hvp([](const NDArray& at) { return at; }, x, x), ShapeError);
  CHECK_THROWS_AS(autograd::jvp(linear, x, array(Values{1}, {1})), ShapeError);
  CHECK_THROWS_AS(autograd::vjp(linear, x, x), ShapeError);
  CHECK_THROWS_AS(autograd::jacobian([](const NDArray& at) { return at.detach() * 2.0f; }, x), AutogradError);
}
