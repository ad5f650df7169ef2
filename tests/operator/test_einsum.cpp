// Products of arrays of any number of axes against sums over all their indices.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/control_cases.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

struct Sum {
  std::string equation;
  std::vector<Shape> shapes;
};

const std::vector<Sum> k_sums = {
    {"ij,jk->ik", {{2, 3}, {3, 4}}},
    {"ij,kj->ki", {{2, 3}, {4, 3}}},
    {"bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}}},
    {"bij,bkj->kbi", {{2, 3, 4}, {2, 5, 4}}},
    {"bijk,bkjl->bl", {{2, 3, 4, 5}, {2, 5, 4, 3}}},
    {"i,i->", {{4}, {4}}},
    {"i,j->ji", {{3}, {4}}},
    {"ij->ji", {{2, 3}}},
    {"ijk->j", {{2, 3, 4}}},
    {"ii->", {{4, 4}}},
    {"ii->i", {{4, 4}}},
    {"iji->ji", {{3, 2, 3}}},
    {"iii->i", {{3, 3, 3}}},
    {"ii,ij->j", {{3, 3}, {3, 2}}},
    {"ij,->ij", {{2, 3}, {}}},
    {"ijk,k->ij", {{2, 3, 4}, {4}}},
    {"ij,ij->ij", {{2, 3}, {2, 3}}},
    {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 2}}},
    {"i,ij,j->", {{3}, {3, 4}, {4}}},
    {"ab,bc,ca->", {{2, 3}, {3, 4}, {4, 2}}},
    {"ai,bi,ci->abc", {{2, 5}, {3, 5}, {4, 5}}},
    {"abcdef,cdefgh->abgh", {{1, 2, 2, 1, 2, 3}, {2, 1, 2, 3, 2, 1}}},
    {"ij,jk->ik", {{0, 3}, {3, 2}}},
    {"ij,jk->ik", {{2, 0}, {0, 3}}},
    {"ij->i", {{3, 0}}},
    {"ij,kj->ik", {{1, 1}, {1, 1}}},
    {"ij,jk->ik", {{2, 1}, {5, 4}}},  // one column stretches
    {"ij,ij->j", {{2, 1}, {1, 3}}},
};

// Sums over all values of all letters, in float64. What has extent 1 stretches.
NDArray summed_up(const std::string& equation, const std::vector<NDArray>& operands) {
  const std::size_t arrow = equation.find("->");
  std::vector<std::string> names(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',')
      names.emplace_back();
    else
      names.back() += c;
  }
  std::string letters = equation.substr(arrow + 2);
  const std::size_t kept = letters.size();
  std::map<char, std::int64_t> extents;
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t axis = 0; axis < names[i].size(); ++axis) {
      std::int64_t& extent = extents.emplace(names[i][axis], 1).first->second;
      const std::int64_t own = operands[i].shape()[static_cast<int>(axis)];
      extent = extent == 1 ? own : extent;
      if (letters.find(names[i][axis]) == std::string::npos)
        letters += names[i][axis];
    }
  }
  std::vector<std::vector<double>> values;
  for (const NDArray& operand : operands)
    values.push_back(operand.to_vector<double>());
  Shape result;
  for (std::size_t i = 0; i < kept; ++i)
    result.push_back(extents[letters[i]]);
  Shape all = result;
  for (std::size_t i = kept; i < letters.size(); ++i)
    all.push_back(extents[letters[i]]);
  std::vector<double> sums(static_cast<std::size_t>(result.size()), 0.0);
  const std::int64_t terms = all.size(), each = result.size() == 0 ? 1 : terms / result.size();
  for (std::int64_t term = 0; term < terms; ++term) {
    std::map<char, std::int64_t> at;
    std::int64_t rest = term;
    for (std::size_t i = letters.size(); i-- > 0;) {
      at[letters[i]] = rest % all[static_cast<int>(i)];
      rest /= all[static_cast<int>(i)];
    }
    double product = 1;
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::int64_t place = 0;
      for (std::size_t axis = 0; axis < names[i].size(); ++axis) {
        const std::int64_t own = operands[i].shape()[static_cast<int>(axis)];
        place = place * own + (own == 1 ? 0 : at[names[i][axis]]);
      }
      product *= values[i][static_cast<std::size_t>(place)];
    }
    sums[static_cast<std::size_t>(term / each)] += product;
  }
  return array(sums, result);
}

std::vector<NDArray> draw(const std::vector<Shape>& shapes, DType dtype, Device device = cpu()) {
  std::vector<NDArray> drawn;
  const double most = is_integer(dtype) ? 9 : 1;
  for (const Shape& shape : shapes)
    drawn.push_back(random_array(shape, 3 + drawn.size(), -most, most, dtype, device));
  return drawn;
}

void check_sums(Device device) {
  for (const DType dtype : {float32, float64, float16, int32, int64}) {
    for (const Sum& sum : k_sums) {
      CAPTURE(name_of(dtype), sum.equation);
      const std::vector<NDArray> operands = draw(sum.shapes, dtype, device);
      const NDArray y = einsum(sum.equation, operands);
      CHECK(y.dtype() == dtype);
      const Tolerance tolerance = dtype == float16 ? Tolerance{4e-3, 4e-3} : tolerance_of(dtype);
      CHECK(differences(y.to(cpu()), summed_up(sum.equation, operands), tolerance) == "");
    }
  }
}

// The largest array that a traced program makes on its way.
std::int64_t largest(const Program& program, const Arrays& inputs) {
  std::int64_t most = 0;
  const graph::Graph graph = [&] {
    graph::Tracer tracer;
    Arrays taken;
    for (const NDArray& input : inputs)
      taken.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
    return tracer.trace([&] {
      const autograd::RecordScope parts;  // otherwise einsum is one node
      return program(taken);
    });
  }();
  for (const graph::Value& value : graph.values)
    most = std::max(most, value.spec.shape.size());
  return most;
}

}  // namespace

TEST_CASE("einsum gives the sums that its equation names", "[linalg]") {
  check_sums(cpu());
}

TEST_CASE("einsum gives the sums that its equation names on a GPU", "[linalg][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_sums(gpu());
}

TEST_CASE("The gradients of einsum agree with finite differences", "[linalg]") {
  for (const Sum& sum : k_sums) {
    CAPTURE(sum.equation);
    CHECK(
        gradient_differences([&](const auto& v) { return einsum(sum.equation, v); }, draw(sum.shapes, float64)) == "");
  }
}

TEST_CASE("einsum without an arrow, with spaces, and with dots says the same in fewer words", "[linalg]") {
  const auto same = [](const std::string& given, const std::string& meant, const std::vector<Shape>& shapes) {
    CAPTURE(given);
    const std::vector<NDArray> operands = draw(shapes, float64);
    CHECK(differences(einsum(given, operands), summed_up(meant, operands), tolerance_of(float64)) == "");
  };
  same("ij,jk", "ij,jk->ik", {{2, 3}, {3, 4}});
  same("ba", "ba->ab", {{2, 3}});
  same("ii", "ii->", {{3, 3}});
  same(" i j , j k -> i k ", "ij,jk->ik", {{2, 3}, {3, 4}});
  same("...ij,...jk->...ik", "abij,abjk->abik", {{2, 3, 2, 4}, {2, 3, 4, 5}});
  same("...ij,...jk", "abij,bjk->abik", {{2, 3, 2, 4}, {3, 4, 5}});
  same("...ij,...jk->...ik", "abij,abjk->abik", {{2, 1, 2, 4}, {1, 3, 4, 5}});
  same("i...->...", "iab->ab", {{2, 3, 4}});
  same("i...j->j...i", "iabj->jabi", {{2, 3, 4, 5}});
  same("...i->i...", "i->i", {{4}});
  same("...,...", "ab,b->ab", {{2, 3}, {3}});
}

TEST_CASE("einsum joins axes where a batch has more than matmul could keep apart", "[linalg]") {
  const std::vector<NDArray> operands = draw({{1, 2, 1, 2, 1, 2, 1, 3}, {1, 2, 1, 2, 1, 2, 1, 3}}, float64);
  const std::string equation = "abcdefgh,abcdefgh->abcdefg";
  CHECK(differences(einsum(equation, operands), summed_up(equation, operands), tolerance_of(float64)) == "");
  CHECK_THROWS_AS(einsum("abcde,fghij->abcdefghij", {ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1})}), ShapeError);
}

TEST_CASE("Equations that say nothing, and operands that do not fit them, are refused by name", "[linalg]") {
  const NDArray a = ones({2, 3}), b = ones({3, 4});
  for (const char* equation :
       {"ij,jk->ii",
        "ij,jk->iz",
        "ij,jk,kl->il",
        "ij->",
        "i-j,jk",
        "ij,jk->i->k",
        "i1,1k->ik",
        "....ij,jk",
        "...ij...,jk",
        "ij..,jk",
        ""}) {
    CAPTURE(equation);
    CHECK_THROWS_AS(einsum(equation, {a, b}), ValueError);
    CHECK_THROWS_WITH(einsum(equation, {a, b}), contains("einsum: ") && contains(equation));
  }
  CHECK_THROWS_AS(einsum("ij", std::vector<NDArray>{}), ValueError);
  CHECK_THROWS_AS(einsum("...i->i", {a}), ValueError);
  CHECK_THROWS_AS(einsum("i,jk->ik", {a, b}), ShapeError);
  CHECK_THROWS_AS(einsum("ijk,jk->ik", {a, b}), ShapeError);
  CHECK_THROWS_AS(einsum("i...jk,jk->ik", {a, b}), ShapeError);
  CHECK_THROWS_WITH(einsum("ij,ik->jk", {a, b}), contains("i is 2 and 3"));
  CHECK_THROWS_AS(einsum("ii", {a}), ShapeError);
  CHECK_THROWS_AS(einsum("ij,jk", {a, NDArray()}), ValueError);
  CHECK_THROWS_AS(einsum("ij,ij->i", {ones({2, 2}, {.dtype = bool_}), ones({2, 2}, {.dtype = bool_})}), DTypeError);
}

TEST_CASE("Operands of einsum are promoted, lie as they like, and may come twice", "[linalg]") {
  const NDArray a = random_array({4, 6}, 1, -5, 5, int32), b = random_array({3, 4}, 2, -1, 1, float64);
  const NDArray y = einsum("ij,ki->kj", {a, b});
  CHECK(y.dtype() == float64);
  CHECK(differences(y, summed_up("ij,ki->kj", {a, b}), tolerance_of(float64)) == "");
  const NDArray part = random_array({9, 8}, 3, -1, 1, float64).slice(0, 8, 0, -2).slice(1, 1, 8, 2);
  const NDArray row = random_array({1, 4}, 4, -1, 1, float64).broadcast_to({4, 4});
  CHECK(differences(einsum("ij,jk,ij->k", {part, row, part}), summed_up("ij,jk,ij->k", {part, row, part})) == "");
}

TEST_CASE("Of many operands einsum multiplies those first that leave the least", "[linalg]") {
  const Program chain = [](const Arrays& in) { return Arrays{einsum("ij,jk,k->i", in)}; };
  CHECK(largest(chain, {ones({40, 30}), ones({30, 50}), ones({50})}) <= 1500);
  // Both sides of a long chain from its thin end.
  const Program thin = [](const Arrays& in) { return Arrays{einsum("a,ab,bc,cd->d", in)}; };
  CHECK(largest(thin, {ones({20}), ones({20, 20}), ones({20, 20}), ones({20, 30})}) <= 600);
}

TEST_CASE("Traced products are those by hand, with their gradients", "[linalg]") {
  const Program program = [](const Arrays& in) {
    return Arrays{
        einsum("ij,jk,ik->k", in),
        tensordot(in[0], in[1], 1) * 0.5,
        outer(diagonal(in[0]), in[2]),
        kron(in[0], in[1]),
        trace(in[2], -1)};
  };
  check_everywhere(program, {numbers_of(1, {3, 4}), numbers_of(2, {4, 2}), numbers_of(3, {3, 2})}, {}, 1e-5);
}

TEST_CASE("A trace of products holds for batches of another size", "[linalg]") {
  const Program program = [](const Arrays& in) {
    return Arrays{einsum("ni,ij,nj->n", {in[0], in[1], in[0]}), tensordot(in[0], in[1], 1), inner(in[0], in[1])};
  };
  const Arrays few{numbers_of(1, {4, 3}), numbers_of(2, {3, 3})}, many{numbers_of(3, {7, 3}), few[1]};
  for (const bool recorded : {false, true}) {
    // Recorded, each product is the calls that it is made of, otherwise one.
    const graph::Graph graph = traced(
        [&](const Arrays& in) {
          const autograd::ModeScope mode(recorded, true);
          return program(in);
        },
        few);
    const Shape shapes[] = {many[0].shape(), many[1].shape()};
    CAPTURE(recorded);
    CHECK(are_near(graph::evaluate(graph::with_extents(graph, shapes), many), program(many), 1e-5));
  }
}

TEST_CASE("dot, inner, vdot, outer and tensordot are NumPy's", "[linalg]") {
  const auto drawn = [](const Shape& a, const Shape& b) { return draw({a, b}, float64); };
  const auto same = [](const NDArray& y, const std::string& meant, const std::vector<NDArray>& of) {
    CAPTURE(meant);
    CHECK(differences(y, summed_up(meant, of), tolerance_of(float64)) == "");
  };
  const auto check = [&](const auto& product, const std::string& meant, const Shape& a, const Shape& b) {
    const std::vector<NDArray> of = drawn(a, b);
    same(product(of[0], of[1]), meant, of);
    CHECK(gradient_differences([&](const auto& v) { return product(v[0], v[1]); }, of) == "");
  };
  const auto by_dot = [](const NDArray& a, const NDArray& b) { return dot(a, b); };
  check(by_dot, "i,i->", {3}, {3});
  check(by_dot, "ij,jk->ik", {2, 3}, {3, 4});
  check(by_dot, ",ij->ij", {}, {2, 3});
  check(by_dot, "ij,->ij", {2, 3}, {});
  check(by_dot, "ijk,k->ij", {2, 3, 4}, {4});
  check(by_dot, "i,aij->aj", {3}, {2, 3, 4});
  check(by_dot, "abi,cid->abcd", {2, 3, 4}, {2, 4, 3});
  check(by_dot, "ij,jk->ik", {2, 0}, {0, 3});
  const auto by_inner = [](const NDArray& a, const NDArray& b) { return inner(a, b); };
  check(by_inner, "ai,bci->abc", {2, 4}, {3, 2, 4});
  check(by_inner, ",a->a", {}, {3});
  check([](const NDArray& a, const NDArray& b) { return vdot(a, b); }, "ij,ij->", {2, 3}, {2, 3});
  check([](const NDArray& a, const NDArray& b) { return outer(a, b); }, "i,j->ij", {3}, {4});
  const auto by_axes = [](const NDArray& a, const NDArray& b) { return tensordot(a, b, {0, -1}, {2, 0}); };
  check(by_axes, "iaj,jbi->ab", {2, 3, 4}, {4, 5, 2});
  check([](const NDArray& a, const NDArray& b) { return tensordot(a, b); }, "aij,ijb->ab", {3, 2, 4}, {2, 4, 3});
  check([](const NDArray& a, const NDArray& b) { return tensordot(a, b, 0); }, "a,bc->abc", {3}, {2, 4});
  CHECK(vdot(ones({2, 3}), ones({6})).item<float>() == 6);
  CHECK(outer(ones({2, 3}), ones({2, 2})).shape() == Shape{6, 4});
  CHECK_THROWS_AS(dot(ones({2, 3}), ones({2, 3})), ShapeError);
  CHECK_THROWS_WITH(inner(ones({2, 3}), ones({2})), contains("inner: ") && contains("(2, 3)"));
  CHECK_THROWS_WITH(vdot(ones({2, 3}), ones({5})), contains("vdot: "));
  CHECK_THROWS_AS(tensordot(ones({2, 3}), ones({3, 2}), {0}, {0, 1}), ShapeError);
  CHECK_THROWS_AS(tensordot(ones({2, 3}), ones({3, 2}), {2}, {0}), IndexError);
  CHECK_THROWS_AS(tensordot(ones({2, 2}), ones({2, 2}), {0, -2}, {0, 1}), ValueError);
  CHECK_THROWS_AS(tensordot(ones({2, 3}), ones({3, 2}), 3), ShapeError);
  CHECK_THROWS_AS(tensordot(ones({2, 3}), ones({3, 2}), -1), ShapeError);
}

TEST_CASE("kron puts b in the place of each element of a", "[linalg]") {
  const std::vector<NDArray> of = draw({{2, 3}, {2, 2}}, float64);
  const NDArray y = kron(of[0], of[1]);
  CHECK(differences(y, summed_up("ij,kl->ikjl", of).reshape({4, 6}), tolerance_of(float64)) == "");
  CHECK(gradient_differences([](const auto& v) { return kron(v[0], v[1]); }, of) == "");
  CHECK(kron(ones({2}), ones({3, 1, 4})).shape() == Shape{3, 1, 8});
  CHECK(kron(ones({}), ones({})).shape() == Shape{});
  CHECK(kron(ones({0, 2}), ones({3, 2})).shape() == Shape{0, 4});
  CHECK_THROWS_WITH(kron(ones({1, 1, 1, 1, 2}), ones({2})), contains("kron: ") && contains("more than 4 axes"));
}

TEST_CASE("batch_dot transposes each side, and takes two batches that are alike", "[linalg]") {
  const std::vector<NDArray> of = draw({{2, 3, 4, 5}, {2, 3, 6, 4}}, float64);
  CHECK(differences(batch_dot(of[0], of[1], true, true), summed_up("abij,abki->abjk", of)) == "");
  CHECK(gradient_differences([](const auto& v) { return batch_dot(v[0], v[1], true, true); }, of) == "");
  CHECK(differences(matmul(of[0], of[1], true, true), summed_up("abij,abki->abjk", of)) == "");
  CHECK_THROWS_AS(batch_dot(ones({2, 3}), ones({3, 2})), ShapeError);
  CHECK_THROWS_AS(batch_dot(ones({1, 2, 3}), ones({2, 3, 2})), ShapeError);
  CHECK_THROWS_AS(batch_dot(ones({2, 2, 3}), ones({2, 2, 3})), ShapeError);
}

TEST_CASE("einsum of one operand is a view by a handle of its own", "[linalg]") {
  const NDArray x = arange(0, 6).reshape({2, 3});
  const NDArray same = einsum("ij->ij", {x}), number = zeros({});
  CHECK_FALSE(same.same(x));
  CHECK_FALSE(einsum("->", {number}).same(number));
  same.slice(0, 0, 1).assign(-1);
  CHECK(x.to_vector<int>() == std::vector<int>{-1, -1, -1, 3, 4, 5});
  CHECK(gradient_differences([](const auto& v) { return einsum("ij->ij", {v[0]}); }, {x.astype(float64)}) == "");
}

TEST_CASE("diagonal is a view from an offset along two axes, and trace its sum", "[linalg]") {
  const NDArray x = arange(0, 24).reshape({2, 3, 4});
  CHECK(diagonal(x, 0, 1, 2).to_vector<int>() == std::vector<int>{0, 5, 10, 12, 17, 22});
  CHECK(diagonal(x, 2, 1, 2).to_vector<int>() == std::vector<int>{2, 7, 14, 19});
  CHECK(diagonal(x, -2, -2, -1).to_vector<int>() == std::vector<int>{8, 20});
  CHECK(diagonal(x, 0, 2, 0).shape() == Shape{3, 2});
  CHECK(diagonal(x, 0, 2, 0).to_vector<int>() == std::vector<int>{0, 13, 4, 17, 8, 21});
  for (const std::int64_t beyond : {std::int64_t{4}, std::int64_t{-3}, INT64_MAX, INT64_MIN})
    CHECK(diagonal(x, beyond, 1, 2).shape() == Shape{2, 0});
  CHECK(diagonal(ones({0, 3})).shape() == Shape{0});
  const NDArray back = x.slice(2, INT64_MAX, INT64_MIN, -1);
  CHECK(diagonal(back, 0, 1, 2).to_vector<int>() == std::vector<int>{3, 6, 9, 15, 18, 21});
  diagonal(x, 0, 1, 2).assign(-1);
  CHECK(x.slice(0, 0, 1).to_vector<int>() == std::vector<int>{-1, 1, 2, 3, 4, -1, 6, 7, 8, 9, -1, 11});
  CHECK(trace(x, 1, 1, 2).to_vector<int>() == std::vector<int>{18, 54});
  CHECK(trace(ones({3, 3}, {.dtype = bool_})).item<int>() == 3);
  CHECK(trace(ones({0, 0})).item<float>() == 0);
  CHECK_THROWS_AS(diagonal(x, 0, 1, 1), ValueError);
  CHECK_THROWS_AS(diagonal(x, 0, 1, -2), ValueError);
  CHECK_THROWS_AS(diagonal(x, 0, 1, 3), IndexError);
  CHECK_THROWS_WITH(trace(ones({3})), contains("trace: "));
}

TEST_CASE("Truths are multiplied as numbers, as inference says", "[operator]") {
  const auto truths = [](const Shape& shape) { return ones(shape, {.dtype = bool_}); };
  for (const Shape& shape : {Shape{}, Shape{3}}) {
    for (const char* name : {"dot", "inner", "vdot", "outer", "kron"}) {
      CAPTURE(name, shape);
      const Operator& op = *find_operator(name);
      const ArraySpec spec{shape, bool_, cpu()};
      const Specs inferred = infer(op, std::vector{spec, spec}, {});
      CHECK(inferred[0].dtype == int64);
      const NDArray made = invoke_one(op, {truths(shape), truths(shape)}, {}, SourceLocation::current());
      CHECK(made.dtype() == inferred[0].dtype);
      CHECK(made.shape() == inferred[0].shape);
      CHECK(sum(made).item<int>() == (made.size() == 1 ? shape.size() : 9));
    }
  }
  CHECK(tensordot(truths({2, 3}), truths({3, 2}), {1}, {0}).to_vector<int>() == std::vector<int>(4, 3));

  const Operator& op = *find_operator("einsum");
  const auto inferred = [&](const char* equation, const std::vector<Shape>& shapes) {
    std::vector<ArraySpec> specs;
    for (const Shape& shape : shapes)
      specs.push_back({shape, bool_, cpu()});
    const std::vector<NamedValue> named{{"equation", std::string(equation)}};
    return infer(op, specs, make_attributes(op, named))[0].dtype;
  };
  for (const char* equation : {"i,i->", "i,j->", "i,j->ij"}) {
    INFO(equation);
    const NDArray made = einsum(equation, {truths({3}), truths({3})});
    CHECK(inferred(equation, {{3}, {3}}) == int64);
    CHECK(made.dtype() == int64);
    CHECK(sum(made).item<int>() == (equation[2] == 'i' ? 3 : 9));
  }
  CHECK(inferred("i->i", {{3}}) == bool_);
  CHECK(einsum("i->i", {truths({3})}).dtype() == bool_);
}
