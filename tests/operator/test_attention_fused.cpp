// Attention as one kernel: what it gives, of half types, against what the composition gives in float32 on the CPU.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/attention/fused.h>
#include <sluice/operator/graph/passes.h>

#include "tests/operator/fused_attention.h"
#include "tests/operator/random_program.h"
#include "tests/operator/traced.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

void check_cases(Device device) {
  for (const FusedCase& c : fused_cases()) {
    for (const DType dtype : {float16, bfloat16}) {
      CAPTURE(c.name, name_of(dtype));
      const std::vector<NDArray> inputs = inputs_of(c, dtype);
      const Attended want = attend(inputs, c, float32, cpu()), got = attend(inputs, c, dtype, device);
      CHECK(attended_differences(got, want, dtype) == "");
    }
  }
}

// Each is called by its name, whatever scaled_dot_product_attention() takes.
Arrays call_fused(const Arrays& inputs, const char* how = "causal=true, scale=0.5") {
  const Operator& op = *find_operator("attention_fused");
  return invoke(op, inputs, parse_attributes(op, how), SourceLocation::current());
}

std::vector<std::string> names_in(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Node& node : graph.nodes)
    names.emplace_back(node.op->name);
  return names;
}

// Whether a call of arrays like these is one kernel.
bool is_fused(const FusedCase& c, DType dtype, Device device, const AttentionOptions& more = {}) {
  graph::Tracer tracer;
  std::vector<NDArray> inputs;
  for (const Shape& shape : {c.q, c.k, c.v})
    inputs.push_back(tracer.input({shape, dtype, device}));
  AttentionOptions how = more;
  how.causal = c.causal;
  const graph::Graph made =
      tracer.trace([&] { return Arrays{scaled_dot_product_attention(inputs[0], inputs[1], inputs[2], how)}; });
  const std::vector<std::string> names = names_in(made);
  return std::find(names.begin(), names.end(), "attention_fused") != names.end();
}

// A view with the same elements that begins one of them behind its memory.
NDArray one_further(const NDArray& x) {
  NDArray room = zeros({x.size() + 1}, {.dtype = x.dtype(), .device = x.device()});
  NDArray view = room.slice(0, 1, x.size() + 1).reshape(x.shape());
  copy_into(x, view);
  return view;
}

// Attention of all heads at once, beside each group of them by itself.
void check_heads_alone(const Shape& wide, const Shape& shared, const Tolerance& close) {
  const FusedCase c{"", wide, shared, shared, true};
  std::vector<NDArray> in = inputs_of(c, bfloat16);
  const Attended whole = attend(in, c, bfloat16, gpu());
  for (std::int64_t image = 0; image < shared[0]; ++image) {
    for (std::int64_t group = 0; group < shared[1]; ++group) {
      CAPTURE(image, group);
      const auto cut = [&](const NDArray& x) {
        const std::int64_t each = x.shape()[1] / shared[1];
        return x.slice(0, image, image + 1).slice(1, group * each, (group + 1) * each).copy();
      };
      const std::vector<NDArray> given{cut(in[0]), cut(in[1]), cut(in[2])};
      const FusedCase one{"", given[0].shape(), given[1].shape(), given[2].shape(), true};
      const Attended alone = attend(given, one, bfloat16, gpu(), cut(head_of(c, bfloat16)));
      CHECK(differences(cut(whole.y), alone.y, close) == "");
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(differences(cut(whole.grads[i]), alone.grads[i], close) == "");
    }
  }
}

}  // namespace

TEST_CASE("Attention of half types is that of float32, its gradients too", "[attention][fused]") {
  check_cases(cpu());
}

TEST_CASE("Fused attention is attention on a GPU, its gradients too", "[attention][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_cases(gpu());
}

TEST_CASE(
    "Which attention is one kernel: of half types, on a GPU, of widths that it takes", "[attention][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto of_width = [](std::int64_t width, std::int64_t values) {
    return FusedCase{"", {2, 4, 3, width}, {2, 2, 5, width}, {2, 2, 5, values}, true};
  };
  for (const std::int64_t width : {8, 64, 72, 128, 256})
    CHECK(is_fused(of_width(width, 264 - width), bfloat16, gpu()) == (width != 264));
  CHECK(is_fused(of_width(64, 64), float16, gpu()));
  for (const std::int64_t width : {1, 65, 264}) {
    CHECK(!is_fused(of_width(width, 64), bfloat16, gpu()));
    CHECK(!is_fused(of_width(64, width), bfloat16, gpu()));
  }
  for (const DType dtype : {float32, float64})
    CHECK(!is_fused(of_width(64, 64), dtype, gpu()));
  CHECK(!is_fused(of_width(64, 64), bfloat16, cpu()));
  const FusedCase c = of_width(64, 64);
  NDArray mask = zeros({3, 5}).to(gpu());
  CHECK(is_fused(c, bfloat16, gpu(), {.mask = mask}));
  CHECK(is_fused(c, bfloat16, gpu(), {.mask = mask.astype(bool_)}));
  CHECK(is_fused(c, bfloat16, gpu(), {.mask = mask.astype(float64)}));
  CHECK(is_fused(c, bfloat16, gpu(), {.dropout = 0.5}));  // of nothing, outside of training
  const autograd::TrainScope training;
  CHECK(!is_fused(c, bfloat16, gpu(), {.dropout = 0.5}));
  mask.attach_grad();
  CHECK(is_fused(c, bfloat16, gpu(), {.mask = mask}));
  const autograd::RecordScope record;
  CHECK(!is_fused(c, bfloat16, gpu(), {.mask = mask}));
}

TEST_CASE("Fused attention takes arrays as they lie", "[attention][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  // (batch, length, heads * width), all of it in one array, as projections give it; and what begins at no chunk.
  const NDArray joined = random_array({2, 6, 3 * 4 * 16}, 3, -1, 1, bfloat16),
                odd = random_array({2, 4, 6, 33}, 4, -1, 1, bfloat16);
  const auto part = [&](const NDArray& x, std::int64_t i) { return split_heads(x.slice(2, 64 * i, 64 * (i + 1)), 4); };
  const auto check = [&](const auto& views) {
    const std::vector<NDArray> there = views(joined.to(gpu()), odd.to(gpu()));
    const std::vector<NDArray> here = views(joined.astype(float32), odd.astype(float32));
    const FusedCase c{"", there[0].shape(), there[1].shape(), there[2].shape(), true};
    CHECK(attended_differences(attend(there, c, bfloat16, gpu()), attend(here, c, float32, cpu()), bfloat16) == "");
  };
  check([&](const NDArray& x, const NDArray&) { return std::vector<NDArray>{part(x, 0), part(x, 1), part(x, 2)}; });
  check([&](const NDArray& x, const NDArray& y) {
    return std::vector<NDArray>{y.slice(3, 1, 17), y.slice(3, 17, 33), part(x, 2).slice(2, 5, -7, -1)};
  });
  check([&](const NDArray& x, const NDArray& y) {  // heads that are one, stretched, and every other query
    const NDArray one = part(x, 1).slice(1, 2, 3).broadcast_to({2, 4, 6, 16});
    return std::vector<NDArray>{y.slice(3, 8, 24).slice(2, 0, 6, 2), one, part(x, 2)};
  });
}

TEST_CASE("Fused attention reads and writes arrays that begin anywhere", "[attention][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const FusedCase c{"", {1, 2, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 16}, true};
  Arrays given;
  for (const NDArray& x : inputs_of(c, bfloat16))
    given.push_back(x.to(gpu()));
  const auto check = [](const char* name, const Arrays& in) {
    CAPTURE(name);
    const Operator& op = *find_operator(name);
    const Attributes how = parse_attributes(op, "causal=true, scale=0.5");
    const Arrays want = invoke(op, in, how, SourceLocation::current());
    Arrays moved, to;
    for (const NDArray& x : in)
      moved.push_back(one_further(x));
    for (const NDArray& x : want)
      to.push_back(one_further(zeros_like(x)));
    invoke(op, moved, how, SourceLocation::current(), to);
    CHECK((all_bytes(to) == all_bytes(want)));
    return want;
  };
  const Arrays made = check("attention_fused", given);
  given.insert(given.end(), {made[0], made[1], made[0]});
  check("attention_fused_backward", given);
}

TEST_CASE("Fused attention has gradients of stretched heads, and the same bits each time", "[attention][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const FusedCase c{"", {2, 4, 70, 64}, {2, 2, 90, 64}, {2, 2, 90, 64}, true};
  std::vector<NDArray> in = inputs_of(c, bfloat16);
  const auto gradients = [&](Device device, DType dtype, bool by_sum) {
    std::vector<NDArray> given, found;
    for (const NDArray& x : in) {
      given.push_back(x.astype(dtype).to(device));
      given.back().attach_grad();
    }
    {
      const autograd::RecordScope record;
      const NDArray y = scaled_dot_product_attention(given[0], given[1], given[2], {.causal = true});
      NDArray head = ones({1}, {.dtype = dtype, .device = device}).broadcast_to(y.shape());
      if (by_sum)
        sum(y).backward();
      else
        y.backward(head);
    }
    for (const NDArray& x : given)
      found.push_back(x.grad().to(cpu()));
    return found;
  };
  for (const bool by_sum : {false, true}) {
    const std::vector<NDArray> want = gradients(cpu(), float32, by_sum), got = gradients(gpu(), bfloat16, by_sum);
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(differences(got[i].astype(float32), want[i], fused_tolerance(bfloat16, 4)) == "");
    for (int again = 0; again < 3; ++again) {
      const std::vector<NDArray> same = gradients(gpu(), bfloat16, by_sum);
      for (std::size_t i = 0; i < 3; ++i)
        CHECK(differences(same[i], got[i], {0, 0}) == "");
    }
  }
}

TEST_CASE("Gradients of gradients pass fused attention", "[attention][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const FusedCase c{"", {1, 4, 5, 8}, {1, 2, 6, 8}, {1, 2, 6, 16}, true};
  const auto second = [&](Device device, DType dtype) {
    std::vector<NDArray> given, found;
    for (const NDArray& x : inputs_of(c, bfloat16)) {
      given.push_back(x.astype(dtype).to(device));
      given.back().attach_grad();
    }
    const autograd::RecordScope record;
    const NDArray y = scaled_dot_product_attention(given[0], given[1], given[2], {.causal = true});
    const std::vector<NDArray> first = autograd::grad(std::vector{sum(y * y)}, given, {}, {.create_graph = true});
    NDArray total = sum(first[0] * first[0]);
    for (std::size_t i = 1; i < 3; ++i)
      total = total + sum(first[i] * first[i]);
    for (const NDArray& x : autograd::grad(std::vector{total}, given))
      found.push_back(x.to(cpu()).astype(float32));
    return found;
  };
  const std::vector<NDArray> want = second(cpu(), float32), got = second(gpu(), bfloat16);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(differences(got[i], want[i], fused_tolerance(bfloat16, 8)) == "");
}

TEST_CASE("Fused attention of nothing, of NaN, and behind masks that leave nothing", "[attention][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const ArrayOptions there{.dtype = bfloat16, .device = gpu()};
  const auto attend_to = [&](const Shape& q, const Shape& k) {
    return scaled_dot_product_attention(ones(q, there), ones(k, there), ones(k, there)).to(cpu()).astype(float32);
  };
  CHECK(differences(attend_to({2, 4, 3, 8}, {2, 2, 0, 8}), zeros({2, 4, 3, 8})) == "");
  CHECK(attend_to({0, 4, 3, 8}, {0, 2, 5, 8}).shape() == Shape{0, 4, 3, 8});
  CHECK(attend_to({2, 4, 0, 8}, {2, 2, 5, 8}).shape() == Shape{2, 4, 0, 8});
  const Arrays nothing =
      call_fused({ones({2, 4, 3, 8}, there), zeros({2, 2, 0, 8}, there), zeros({2, 2, 0, 8}, there)});
  CHECK(all(nothing[0].to(cpu()) == 0).item<bool>());
  CHECK(all(isinf(nothing[1].to(cpu()))).item<bool>());

  NDArray q = random_array({1, 2, 4, 8}, 1, -1, 1, bfloat16);
  q.slice(2, 1, 2).assign(std::numeric_limits<double>::quiet_NaN());
  const NDArray k = random_array({1, 2, 5, 8}, 2, -1, 1, bfloat16);
  const NDArray y = scaled_dot_product_attention(q.to(gpu()), k.to(gpu()), k.to(gpu())).to(cpu());
  CHECK(all(isnan(y.slice(2, 1, 2))).item<bool>());
  CHECK(!any(isnan(y.slice(2, 2, 4))).item<bool>());
}

TEST_CASE("Fused attention is in graphs what it is by hand", "[attention][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = random_array({2, 6, 64}, 1, -1, 1, bfloat16).to(gpu());
  const NDArray mask = random_array({2, 1, 1, 6}, 2, -1, 1, bfloat16).to(gpu());
  const auto f = [](const auto& in) {
    const NDArray heads = split_heads(in[0], 4), shared = split_heads(in[0].slice(2, 0, 32), 2);
    return join_heads(scaled_dot_product_attention(heads, shared, shared, {.mask = in[1], .causal = true}));
  };
  CHECK(traced_differences(f, {x, mask}) == "");
  for (const std::size_t place : {std::size_t{0}, std::size_t{1}}) {
    const auto gradient = [&](const auto& in) {
      std::vector<NDArray> variables{split_heads(in[0], 4).detach(), split_heads(in[0], 4).detach()};
      for (NDArray& variable : variables)
        variable.attach_grad();
      NDArray y;
      {
        const autograd::RecordScope record;
        const AttentionOptions how{.mask = in[1], .causal = true};
        y = scaled_dot_product_attention(variables[0], variables[1], variables[1], how);
      }
      return autograd::grad(std::vector{y}, variables, std::vector{y * 2})[place];
    };
    CHECK(traced_differences(gradient, {x, mask}) == "");
  }
}

TEST_CASE("Heads are split and joined around fused attention without a copy", "[attention][fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  graph::Tracer tracer;
  const NDArray x = tracer.input({{2, 6, 96}, bfloat16, gpu()}), head = tracer.input({{2, 6, 32}, bfloat16, gpu()});
  const graph::Graph made = tracer.trace([&] {
    std::vector<NDArray> parts;
    for (std::int64_t i = 0; i < 3; ++i) {
      parts.push_back(x.slice(2, 32 * i, 32 * (i + 1)));
      parts.back() = parts.back().detach();
      parts.back().attach_grad();
    }
    NDArray y;
    {
      const autograd::RecordScope record;
      y = join_heads(scaled_dot_product_attention(
          split_heads(parts[0], 4), split_heads(parts[1], 4), split_heads(parts[2], 4), {.causal = true}));
    }
    Arrays all{y};
    for (const NDArray& gradient : autograd::grad(std::vector{y}, parts, std::vector{head}))
      all.push_back(gradient);
    return all;
  });
  int calls = 0;
  for (const graph::Node& node : without_dead_code(made).nodes)
    calls += node.is_view() ? 0 : 1;
  CHECK(calls == 2);
}

TEST_CASE("Fused attention refuses what does not fit, by name and values", "[attention][fused]") {
  const ArrayOptions half{.dtype = bfloat16};
  const NDArray q = ones({2, 4, 3, 8}, half), k = ones({2, 2, 5, 8}, half), v = ones({2, 2, 5, 16}, half);
  CHECK(call_fused({q, k, v})[0].shape() == Shape{2, 3, 4, 16});
  CHECK(call_fused({q, k, v})[1].shape() == Shape{2, 4, 3});
  CHECK_THROWS_AS(call_fused({q, k}), ValueError);
  CHECK_THROWS_AS(call_fused({q.astype(float32), k.astype(float32), v.astype(float32)}), DTypeError);
  CHECK_THROWS_AS(call_fused({q, k, v.astype(float16)}), DTypeError);
  CHECK_THROWS_WITH(
      call_fused({ones({2, 4, 3, 9}, half), ones({2, 2, 5, 9}, half), v}),
      contains("attention_fused") && contains("(2, 4, 3, 9)") && contains("256"));
  CHECK_THROWS_AS(call_fused({q, k, ones({2, 2, 5, 264}, half)}), ShapeError);
  CHECK_THROWS_AS(call_fused({q, k, v, ones({3, 5})}), ShapeError);
  CHECK_THROWS_AS(call_fused({q, k, v, ones({2, 4, 3, 2})}), ShapeError);
  CHECK_THROWS_AS(call_fused({q, k, v, ones({1, 1, 3, 5}, {.dtype = float64})}), DTypeError);
  CHECK_THROWS_AS(call_fused({q, k, v}, "causal=true, scale=inf"), ValueError);
  const Operator& backward = *find_operator("attention_fused_backward");
  const Arrays made = call_fused({q, k, v});
  const auto back = [&](const Arrays& in) {
    return invoke(backward, in, parse_attributes(backward, "causal=true, scale=1"), SourceLocation::current());
  };
  CHECK(back({q, k, v, made[0], made[1], made[0]}).size() == 3);
  CHECK_THROWS_AS(back({q, k, v, made[0], made[1]}), ValueError);
  CHECK_THROWS_AS(back({q, k, v, made[0], made[1].astype(bfloat16), made[0]}), DTypeError);
  CHECK_THROWS_AS(back({q, k, v, made[0], made[1], made[0].slice(1, 0, 2)}), ShapeError);
}

TEST_CASE(
    "Heads whose scratch is large come one after the other, with the same bits", "[attention][fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  check_heads_alone({2, 6, 16384, 64}, {2, 3, 16384, 64}, {0, 0});  // 512 MiB of scratch a head: two groups at once
}

TEST_CASE("Parts of an attention may begin off 16 bytes", "[attention][fused][gpu][hardware]") {
  SLUICE_NEEDS_GPUS(1);
  const Shape odd{1, 12, 10001, 64};  // ten heads at once: statistics of the others begin at 8 of 16 bytes
  check_heads_alone(odd, odd, tolerance_of(bfloat16));
}

// As a build without CUDA calls it: nothing was inferred before.
TEST_CASE("Fused attention that is composed counts what it is given", "[attention][fused]") {
  const Operator& forward = detail::attention_fused_op;
  const Operator& backward = detail::attention_fused_backward_op;
  const Attributes how = Attributes::of(detail::FusedAttentionAttributes{});
  const NDArray q = ones({1, 1, 2, 8}, {.dtype = float16});
  for (const std::size_t count : {std::size_t{0}, std::size_t{2}, std::size_t{5}, std::size_t{8}}) {
    CAPTURE(count);
    const std::vector<NDArray> given(count, q);
    CHECK_THROWS_AS(forward.composition(given, how, {}), ValueError);
    CHECK_THROWS_WITH(backward.composition(given, how, {}), contains("was given " + std::to_string(count)));
  }
}
