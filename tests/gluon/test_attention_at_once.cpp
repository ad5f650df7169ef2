// Self-attention in training multiplies by the weights of query, key and value at once: what comes of it, by hand and
// in graphs.
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/gluon/attention_kinds.h"

using namespace sluice;
using namespace sluice::test;
namespace nn = gluon::nn;

namespace {

void check_graphs(Device device, DType dtype, bool cast) {
  for (const AttentionKind& kind : attention_kinds()) {
    CAPTURE(kind.name, name_of(dtype), cast);
    nn::MultiHeadAttention layer = made_attention(kind, dtype, device);
    const auto run = [&](std::int64_t batch) {
      const amp::AutocastScope scope = amp::autocast(bfloat16, cast);
      return trained_attention(layer, kind, attention_input(dtype, device, batch));
    };
    const Arrays by_hand = run(3), larger = run(6);
    layer.hybridize();
    const auto check = [&](const Arrays& got, const Arrays& want) {
      INFO(difference_of_all(got, want, {0, 0}));
      CHECK(are_all_same(got, want));
    };
    check(run(3), by_hand);
    check(run(6), larger);
    CHECK(layer.hybrid_traces() == 1);
    check(run(3), by_hand);
  }
}

}  // namespace

TEST_CASE("Attention to itself is in training what three projections give, gradients too", "[gluon][attention]") {
  for (const AttentionKind& kind : attention_kinds()) {
    for (const DType dtype : {float64, float32, float16, bfloat16}) {
      CAPTURE(kind.name, name_of(dtype));
      nn::MultiHeadAttention layer = made_attention(kind, dtype);
      const NDArray x = attention_input(dtype, cpu());
      CHECK(products_in_training(layer, x) == 2);
      const double scale = dtype == bfloat16 ? 0.03 : dtype == float16 ? 4e-3 : dtype == float32 ? 1e-5 : 1e-13;
      if (!(kind.masked && kind.options.rotary))
        CHECK(
            difference_of_all(
                trained_attention(layer, kind, x), trained_attention(layer, kind, x, true), {scale, 8 * scale}) == "");
    }
  }
}

TEST_CASE("Projections at once are in graphs what they are by hand, to the last bit", "[gluon][attention]") {
  for (const DType dtype : {float64, float32, float16})
    check_graphs(cpu(), dtype, false);
  check_graphs(cpu(), float32, true);
}

TEST_CASE("Projections at once are on a GPU in graphs what they are by hand", "[gluon][attention][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, bfloat16})
    check_graphs(gpu(), dtype, false);
  check_graphs(gpu(), float32, true);
  for (const AttentionKind& kind : attention_kinds()) {
    CAPTURE(kind.name);
    const nn::MultiHeadAttention half = made_attention(kind, bfloat16, gpu());
    const NDArray few = attention_input(bfloat16, gpu());
    CHECK(
        difference_of_all(trained_attention(half, kind, few), trained_attention(half, kind, few, true), {0.03, 0.24}) ==
        "");
    const nn::MultiHeadAttention layer = made_attention(kind, float32, gpu()), host = made_attention(kind);
    CHECK(
        difference_of_all(
            trained_attention(layer, kind, attention_input(float32, gpu())),
            trained_attention(host, kind, attention_input(float32, cpu())),
            {1e-4, 1e-4}) == "");
  }
}

TEST_CASE("Under autocast weights become one array of the half type, gradients of their own", "[gluon][attention]") {
  const AttentionKind kind{"", {.kv_heads = 2}};
  nn::MultiHeadAttention layer = made_attention(kind), half = made_attention(kind, bfloat16);
  const NDArray x = attention_input(float32, cpu());
  Arrays got;
  {
    const amp::AutocastScope scope = amp::autocast(bfloat16);
    CHECK(products_in_training(layer, x) == 2);
    got = trained_attention(layer, kind, x);
  }
  const Arrays want = trained_attention(half, kind, x.astype(bfloat16));
  CHECK(got[0].dtype() == bfloat16);
  for (std::size_t i = 1; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(got[i].dtype() == float32);
    CHECK(values(got[i]) == values(want[i].astype(float32)));
  }
}

TEST_CASE("Gradients of gradients of attention at once are those of three projections", "[gluon][attention]") {
  nn::MultiHeadAttention layer = made_attention({"", {.causal = true, .kv_heads = 2}}, float64);
  const NDArray given = attention_input(float64, cpu());
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
  CHECK(difference_of_all(second(false), second(true), {1e-10, 1e-10}) == "");
}

TEST_CASE("Projections at once follow casts and new values, by hand and in graphs", "[gluon][attention]") {
  const AttentionKind kind{"", {}};
  nn::MultiHeadAttention layer = made_attention(kind);
  layer.hybridize();
  trained_attention(layer, kind, attention_input(float32, cpu()));
  layer.cast(float64);
  const NDArray x = attention_input(float64, cpu());
  trained_attention(layer, kind, x);
  layer.initialize(gluon::init::Normal(0.3), cpu(), true);
  const Arrays graph = trained_attention(layer, kind, x);
  layer.hybridize(false);
  CHECK(are_all_same(trained_attention(layer, kind, x), graph));
  CHECK(difference_of_all(graph, trained_attention(layer, kind, x, true), {1e-12, 1e-12}) == "");
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

TEST_CASE("Arrays that are joined as another type are what they are when they are cast", "[gluon][attention]") {
  const NDArray small = array(std::vector<double>{1e-40, 1, 1e-320, -1e-40}), x = small.astype(float32);
  CHECK(values(concat(std::vector<NDArray>{small, small}, 0, float32).slice(0, 4, 8)) == values(x));
  CHECK(values(concat(std::vector<NDArray>{x}, 0, float64)) == values(x.astype(float64)));
}
