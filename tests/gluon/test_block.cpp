#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

// The example of gluon/block.h.
class Residual : public gluon::Block {
 public:
  explicit Residual(std::int64_t units)
      : body_(child("body", nn::Dense(units, {.activation = "relu"}))),
        scale_(parameter("scale", {.shape = {1}, .init = gluon::init::One()})) {}
  void declare_again() { parameter("body", {}); }
  void declare_dotted() { parameter("a.b", {}); }
  const gluon::Child<nn::Dense>& body() const { return body_; }

 protected:
  NDArray forward(const NDArray& x) const override { return x + scale_.data() * body_(x); }

 private:
  gluon::Child<nn::Dense> body_;
  gluon::Parameter& scale_;
};

nn::Sequential two_layers() {
  nn::Sequential net;
  net.add(nn::Dense(4, {.activation = "tanh"}), nn::Dense(2));
  return net;
}

}  // namespace

static_assert(!std::is_copy_constructible_v<nn::Sequential> && !std::is_copy_constructible_v<nn::Dense>);
static_assert(std::is_nothrow_move_constructible_v<gluon::Block> == false);  // it is abstract
static_assert(std::is_move_constructible_v<nn::Sequential> && std::is_move_constructible_v<nn::BatchNorm>);

TEST_CASE("a block of one's own has parameters, children, and survives a move", "[gluon][block]") {
  Residual first(3);
  first.initialize(gluon::init::Constant(0.5));
  const NDArray x = array<float>({1, 2, 3}, {1, 3});
  check_near(values(first(x)), {4, 5, 6});
  Residual moved = std::move(first);
  check_near(values(moved(x)), {4, 5, 6});
  CHECK(moved.collect_params().names() == "scale, body.weight, body.bias");
  CHECK_THROWS_AS(first.collect_params(), ValueError);
  CHECK_THROWS_AS(moved.declare_again(), ValueError);
  CHECK_THROWS_AS(moved.declare_dotted(), ValueError);
  nn::Sequential net;
  net.add(std::move(moved), nn::Flatten());
  check_near(values(net(x)), {4, 5, 6});
  CHECK(net.collect_params().names() == "0.scale, 0.body.weight, 0.body.bias");
}

TEST_CASE("collect_params works before initialize and selects by pattern", "[gluon][block]") {
  nn::Sequential net = two_layers();
  CHECK(net.collect_params().names() == "0.weight, 0.bias, 1.weight, 1.bias");
  CHECK(net.collect_params("weight$").names() == "0.weight, 1.weight");
  CHECK(net.collect_params("nothing").empty());
  CHECK_THROWS_AS(net.collect_params("("), ValueError);
  CHECK(net.collect_params()["0.weight"].shape() == Shape{4, 0});
}

TEST_CASE("a block that is used before initialize says so", "[gluon][block]") {
  nn::Sequential net = two_layers();
  CHECK_THROWS_WITH(net(zeros({1, 3})), contains("not initialised") && contains("weight"));
}

TEST_CASE("shapes are found at the first forward", "[gluon][block]") {
  nn::Sequential net = two_layers();
  net.initialize(gluon::init::Xavier());
  CHECK(net.collect_params()["0.weight"].is_deferred());
  CHECK(net(zeros({5, 2, 3})).shape() == Shape{5, 2});
  CHECK(net.collect_params()["0.weight"].shape() == Shape{4, 6});
  CHECK_THROWS_AS(net(zeros({5, 7})), ShapeError);
}

TEST_CASE("children are reached by number and name, and visited before their parents", "[gluon][block]") {
  nn::Sequential net = two_layers();
  CHECK(net.num_children() == 2);
  CHECK(&*net.child_named("1") == &*net[1]);
  CHECK_THROWS_AS(net.child_at(2), IndexError);
  CHECK_THROWS_AS(net.child_named("x"), ValueError);
  CHECK(net[0]->own_parameter("bias").shape() == Shape{4});
  CHECK_THROWS_AS(net[0]->own_parameter("gamma"), ValueError);
  std::vector<gluon::Block*> seen;
  net.apply([&](gluon::Block& block) { seen.push_back(&block); });
  CHECK(seen == std::vector<gluon::Block*>{&*net[0], &*net[1], &net});
}

TEST_CASE("parameters go to a file and come back", "[gluon][block]") {
  TemporaryFolder folder;
  nn::Sequential net = two_layers();
  CHECK_THROWS_AS(net.save_parameters(folder / "early.npz"), ValueError);
  net.initialize(gluon::init::Xavier());
  const NDArray x = pattern_array({3, 5});
  const std::vector<float> expected = values(net(x));
  net.save_parameters(folder / "net.npz");

  nn::Sequential fresh = two_layers();
  fresh.load_parameters(folder / "net.npz");  // no initialize, no shapes: the file has both
  CHECK(values(fresh(x)) == expected);
  nn::Sequential deferred = two_layers();
  deferred.initialize(gluon::init::Zero());
  deferred.load_parameters(folder / "net.npz", {.device = cpu()});
  CHECK(values(deferred(x)) == expected);
  CHECK_THROWS_AS(net.load_parameters(folder / "absent.npz"), FileError);
}

TEST_CASE("a file that does not fit the network changes nothing and says why", "[gluon][block]") {
  TemporaryFolder folder;
  const auto file = folder / "net.npz";
  nn::Sequential net = two_layers();
  net.initialize(gluon::init::One());
  net(zeros({1, 3}));
  const auto weight = [&] { return values(net.collect_params()["0.weight"].data()); };
  std::map<std::string, NDArray> arrays = {
      {"0.weight", zeros({4, 3})}, {"0.bias", zeros({4})}, {"1.weight", zeros({2, 4})}};

  save(file, arrays);
  CHECK_THROWS_WITH(net.load_parameters(file), contains("'1.bias'") && contains(file.string()));
  CHECK(weight() == std::vector<float>(12, 1));
  net.load_parameters(file, {.allow_missing = true});
  CHECK(weight() == std::vector<float>(12, 0));

  arrays["1.bias"] = zeros({3});
  arrays["0.weight"] = ones({4, 3});
  save(file, arrays);
  CHECK_THROWS_AS(net.load_parameters(file), ShapeError);
  CHECK(weight() == std::vector<float>(12, 0));

  arrays["1.bias"] = zeros({2});
  arrays["2.bias"] = zeros({2});
  save(file, arrays);
  CHECK_THROWS_WITH(net.load_parameters(file), contains("'2.bias'"));
  net.load_parameters(file, {.ignore_extra = true});
  CHECK(weight() == std::vector<float>(12, 1));

  arrays.erase("2.bias");
  arrays["0.weight"] = full({4, 3}, 2, {.dtype = float64});
  save(file, arrays);
  CHECK_THROWS_AS(net.load_parameters(file), DTypeError);
  net.load_parameters(file, {.cast_dtype = true});
  CHECK(weight() == std::vector<float>(12, 2));
}

TEST_CASE("loading that runs out of memory sets no parameter", "[gluon][block]") {
  TemporaryFolder folder;
  const auto net_of = [](std::int64_t wide) {
    nn::Sequential net;
    net.add(nn::Dense(2, {.use_bias = false, .in_units = 3}), nn::Dense(wide, {.use_bias = false, .in_units = 2}));
    return net;
  };
  {
    nn::Sequential saved = net_of(1 << 20);
    saved.initialize(gluon::init::One());
    saved.save_parameters(folder / "net.npz");
  }
  Engine& engine = Engine::current();
  engine.wait_all();
  Pool& pool = Storage::of(engine).pool(cpu());
  const auto limited = [&](auto call) {
    pool.trim();
    pool.set_limit(pool.stats().reserved + (std::size_t{12} << 20));  // the file's 8 MiB, not as much again
    CHECK_THROWS_AS(call(), OutOfMemory);
    pool.set_limit(0);
  };
  nn::Sequential fresh = net_of(1 << 20);
  limited([&] { fresh.load_parameters(folder / "net.npz"); });
  CHECK_FALSE(fresh.collect_params()["0.weight"].is_initialized());

  nn::Sequential half = net_of(1 << 20);
  half.collect_params()["0.weight"].initialize(gluon::init::Zero(), cpu());
  limited([&] { half.load_parameters(folder / "net.npz"); });
  CHECK(values(half.collect_params()["0.weight"].data()) == std::vector<float>(6, 0));
  CHECK_FALSE(half.collect_params()["1.weight"].is_initialized());
  half.load_parameters(folder / "net.npz");
  CHECK(values(half.collect_params()["0.weight"].data()) == std::vector<float>(6, 1));
  CHECK(half.collect_params()["1.weight"].is_initialized());
  CHECK(half.collect_params()["1.weight"].data().requires_grad());
}

TEST_CASE("two blocks share parameters", "[gluon][block]") {
  nn::Sequential a = two_layers(), b = two_layers();
  a.initialize(gluon::init::Xavier());
  const NDArray x = pattern_array({2, 3});
  const std::vector<float> expected = values(a(x));
  b.share_parameters(a.collect_params());
  CHECK(values(b(x)) == expected);
  a.collect_params()["1.bias"].set_data(full({2}, 10));
  CHECK(values(b(x))[0] == Approx(expected[0] + 10));

  nn::Sequential other;
  other.add(nn::Dense(5));
  CHECK_THROWS_AS(other.share_parameters(a.collect_params()), ShapeError);
  other.collect_params();
  nn::Sequential nameless;
  nameless.add(nn::Flatten());
  CHECK_THROWS_AS(nameless.share_parameters(a.collect_params()), ValueError);

  auto shared = std::make_shared<nn::Dense>(3);
  nn::Sequential twice;
  twice.add(shared);
  twice.add(shared);
  twice.initialize(gluon::init::One());
  check_near(values(twice(array<float>({1, 0, 0}, {1, 3}))), {3, 3, 3});
  CHECK_THROWS_AS(twice.add(std::shared_ptr<gluon::Block>()), ValueError);
}

TEST_CASE("cast and zero_grad reach every parameter", "[gluon][block]") {
  nn::Sequential net = two_layers();
  net.initialize(gluon::init::Xavier());
  net.cast(float64);
  CHECK(net(zeros({1, 3}, {.dtype = float64})).dtype() == float64);
  NDArray y;
  {
    autograd::RecordScope record;
    y = net(ones({1, 3}, {.dtype = float64}));
  }
  y.backward();
  CHECK(values(net.collect_params()["1.bias"].grad()) == std::vector<float>{1, 1});
  net.zero_grad();
  CHECK(values(net.collect_params()["1.bias"].grad()) == std::vector<float>{0, 0});
}
