// One traced program for batches of all sizes, and what keeps a program from being one.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using gluon::BatchSizes;
using gluon::HybridOptions;

namespace {

namespace nn = gluon::nn;
using Trail = std::vector<std::vector<float>>;
using Program = std::function<Arrays(std::span<const NDArray>, const NDArray& w)>;

/// A block with a parameter of three numbers, which counts the calls of its program.
class Counted : public gluon::Block {
 public:
  explicit Counted(Program program)
      : program_(std::move(program)), w_(parameter("w", {.shape = {3}, .init = gluon::init::Constant(0.5)})) {}
  int calls() const { return *calls_; }

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override {
    ++*calls_;
    return program_(inputs, w_.data());
  }

 private:
  Program program_;
  gluon::Parameter& w_;
  std::shared_ptr<std::atomic<int>> calls_ = std::make_shared<std::atomic<int>>(0);
};

NDArray rows(std::int64_t n, int start = 0) {
  return pattern_array({n, 3}, start);
}

// What a call gives, recorded with the gradients of x and w, or not; what it throws as one number.
Trail call(const Counted& block, std::int64_t n, bool recorded) {
  NDArray x = rows(n, static_cast<int>(n));
  Trail trail;
  try {
    x.attach_grad();
    block.own_parameter("w").zero_grad();
    Arrays made;
    NDArray head;
    {
      const autograd::ModeScope mode(recorded, recorded);
      made = block({x});
      head = made[0] * 2.0;
    }
    if (recorded)
      head.backward();
    for (const NDArray& output : made)
      trail.push_back(values(output.astype(float32)));
    trail.push_back(values(x.grad()));
    trail.push_back(values(block.own_parameter("w").grad()));
  } catch (const ShapeError&) {
    trail = {{-1}};
  } catch (const IndexError&) {
    trail = {{-2}};
  } catch (const Error&) {
    trail = {{-3}};
  }
  return trail;
}

// NaN is the same as itself.
bool is_same(const Trail& a, const Trail& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
  });
}

/// For which batches a program is traced once: of calls without gradients alone, of recorded ones too.
enum class Once { never, predicting, always };

struct Case {
  const char* name;
  Once once;
  Program program;
};

constexpr std::int64_t k_sizes[] = {6, 3, 4, 9, 2, 1, 0, 6, 5};
constexpr std::size_t k_distinct = 8, k_special = 2;

void check(const Case& one, const HybridOptions& options = {}) {
  for (const bool recorded : {false, true}) {
    Counted by_hand(one.program), hybrid(one.program);
    by_hand.initialize();
    hybrid.initialize();
    hybrid.hybridize(true, options);
    for (const std::int64_t n : k_sizes) {
      CAPTURE(one.name, recorded, n);
      CHECK(is_same(call(hybrid, n, recorded), call(by_hand, n, recorded)));
    }
    CAPTURE(one.name, recorded);
    if (one.once == Once::always || (one.once == Once::predicting && !recorded)) {
      CHECK(hybrid.hybrid_traces() == 1 + k_special);
      CHECK(hybrid.calls() == 2 + static_cast<int>(k_special));  // once to compare
    } else {
      CHECK(hybrid.hybrid_traces() >= k_distinct - 4);  // those that throw are none
    }
  }
}

NDArray only(std::span<const NDArray> in) {
  return in[0];
}

}  // namespace

TEST_CASE("Batches of other sizes do not call a hybridized forward", "[gluon][graph][hybrid][batch]") {
  const Case cases[] = {
      {"elementwise", Once::always, [](auto in, const NDArray& w) { return Arrays{tanh(only(in) * w) + 1.0}; }},
      {"several",
       Once::always,
       [](auto in, const NDArray& w) {
         return Arrays{only(in) * w, only(in), exp(only(in))};
       }},
      {"sums",
       Once::always,
       [](auto in, const NDArray& w) {
         return Arrays{sum(only(in) * w, {1}) - sum(only(in)), w};
       }},
      {"mean of the batch",
       Once::predicting,
       [](auto in, const NDArray& w) { return Arrays{mean(only(in) * w, {0})}; }},
      {"turned", Once::always, [](auto in, const NDArray& w) { return Arrays{matmul((only(in) * w).T(), only(in))}; }},
      {"open reshape",
       Once::always,
       [](auto in, const NDArray& w) { return Arrays{(only(in) * w).reshape({-1}) * 2.0}; }},
      {"softmax", Once::always, [](auto in, const NDArray& w) { return Arrays{softmax(only(in) * w)}; }},
      {"twice the rows",
       Once::predicting,
       [](auto in, const NDArray& w) {
         return Arrays{concat({only(in), only(in) * w}, 0)};
       }},
      {"columns", Once::always, [](auto in, const NDArray& w) { return Arrays{(only(in) * w).slice(1, 0, 2) * 3.0}; }},
      {"first rows",
       Once::always,
       [](auto in, const NDArray& w) { return Arrays{(only(in) * w).slice(0, 0, 2) * 3.0}; }},
      {"rolled", Once::always, [](auto in, const NDArray& w) { return Arrays{roll(only(in) * w, 2, 0) * 2.0}; }},
      {"tiled",
       Once::always,
       [](auto in, const NDArray& w) {
         return Arrays{tile(only(in) * w, {2, 1}) * 2.0};
       }},
      {"padded",
       Once::always,
       [](auto in, const NDArray& w) {
         return Arrays{pad(only(in) * w, {{1, 2}, {0, 1}}) * 2.0};
       }},
      {"three operands in one order",
       Once::always,
       [](auto in, const NDArray& w) {
         return Arrays{einsum("ij,j,j->i", {only(in), w, w}) * 2.0};
       }},
      {"matrices of a batch",
       Once::always,
       [](auto in, const NDArray& w) { return Arrays{svd((only(in) * w).expand_dims(2)).u * 2.0}; }},
      {"in place",
       Once::always,
       [](auto in, const NDArray& w) {
         const NDArray y = exp(only(in).detach());
         y.slice(1, 0, 1).assign(Scalar(0.0));
         return Arrays{y + w};
       }},
  };
  for (const Case& one : cases)
    check(one);
}

TEST_CASE("A forward that asks for the size of the batch gets what it asked for", "[gluon][graph][hybrid][batch]") {
  const Case cases[] = {
      {"scalar",
       Once::never,
       [](auto in, const NDArray& w) { return Arrays{only(in) * w / static_cast<double>(only(in).shape()[0] + 1)}; }},
      {"size",
       Once::never,
       [](auto in, const NDArray& w) { return Arrays{only(in) * w * static_cast<double>(only(in).size())}; }},
      {"branch",
       Once::never,
       [](auto in, const NDArray& w) { return Arrays{only(in).shape()[0] > 4 ? only(in) * w : exp(only(in)) - w}; }},
      {"branch of a result",
       Once::never,
       [](auto in, const NDArray& w) {
         const NDArray y = (only(in) * w).reshape({-1});
         return Arrays{y.shape()[0] > 11 ? y : y * y};
       }},
      {"strides",
       Once::never,
       [](auto in, const NDArray& w) {
         const NDArray y = (only(in) * w).T().copy();
         return Arrays{y.strides()[0] > 4 ? y : y * y};
       }},
      {"literal extent",
       Once::never,
       [](auto in, const NDArray& w) {
         const Shape shape = only(in).shape();
         return Arrays{(only(in) * w).reshape({shape[1], shape[0]}) * 2.0};
       }},
      {"rows one by one",
       Once::never,
       [](auto in, const NDArray& w) {
         NDArray y = w;
         for (std::int64_t row = 0; row < only(in).shape()[0]; ++row)
           y = tanh(y * only(in)[row]);
         return Arrays{y};
       }},
      {"full",
       Once::never,
       [](auto in, const NDArray& w) {
         return Arrays{only(in) * w + full({only(in).shape()[0], 3}, 0.25f)};
       }},
      {"made like",
       Once::never,
       [](auto in, const NDArray& w) { return Arrays{only(in) * w + ones(only(in).shape())}; }},
      {"a loop's body",
       Once::never,
       [](auto in, const NDArray& w) {
         const auto turn = [&](const Arrays& data, const Arrays& states) {
           return LoopResult{{data[0] * w}, {states[0] + data[0]}};
         };
         const LoopResult made = foreach(turn, {only(in)}, {w * 1.0});
         return Arrays{made.outputs[0], made.states[0]};
       }},
  };
  for (const Case& one : cases)
    check(one);
}

TEST_CASE("A forward that catches an error of one size is traced for each", "[gluon][graph][hybrid][batch]") {
  const Case cases[] = {
      {"six rows",
       Once::never,
       [](auto in, const NDArray& w) {
         const NDArray y = only(in) * w;
         try {
           return Arrays{y.reshape({6, 3}) * 2.0};
         } catch (const ShapeError&) {
           return Arrays{y};
         }
       }},
      {"the sixth row",
       Once::never,
       [](auto in, const NDArray& w) {
         try {
           return Arrays{only(in)[5] * w};
         } catch (const IndexError&) {
           return Arrays{only(in) * w};
         }
       }},
  };
  for (const Case& one : cases) {
    Counted by_hand(one.program), hybrid(one.program);
    by_hand.initialize();
    hybrid.initialize();
    hybrid.hybridize();
    for (const std::int64_t n : {4, 6, 7, 2, 6}) {  // that of 4, and of 9 to compare, do not have it
      CAPTURE(one.name, n);
      CHECK(is_same(call(hybrid, n, true), call(by_hand, n, true)));
    }
  }
}

TEST_CASE("A forward whose operators hold an extent is traced for each size", "[gluon][graph][hybrid][batch]") {
  const Case cases[] = {
      {"the last row", Once::never, [](auto in, const NDArray& w) { return Arrays{only(in)[-1] * w}; }},
      {"only six rows",
       Once::never,
       [](auto in, const NDArray& w) {
         return Arrays{(only(in) * w).reshape({6, -1}) * 2.0};
       }},
      {"a table of six rows",
       Once::never,
       [](auto in, const NDArray& w) {
         static const NDArray table = pattern_array({6, 3}, 5);
         return Arrays{only(in) * w * table};
       }},
      {"mirrored beyond small batches",
       Once::never,
       [](auto in, const NDArray& w) {
         const NDArray y = pad(only(in) * w, {{3, 2}, {0, 0}}, PadMode::reflect);
         return Arrays{y * y};
       }},
      {"edges",
       Once::never,
       [](auto in, const NDArray& w) {
         const NDArray y = pad(only(in) * w, {{3, 2}, {1, 0}}, PadMode::edge);
         return Arrays{y * y};
       }},
      {"three operands whose order follows their rows",
       Once::never,
       [](auto in, const NDArray& w) {
         return Arrays{einsum("ij,kj,kl->il", {only(in) * w, only(in), only(in) * w})};
       }},
      {"a matrix, tall or wide",
       Once::never,
       [](auto in, const NDArray& w) {
         const Svd parts = svd(only(in) * only(in) * w);
         return Arrays{parts.u * 2.0, parts.vh};
       }},
      {"right vectors of a matrix, tall or wide",
       Once::never,
       [](auto in, const NDArray& w) { return Arrays{svd(only(in) * only(in) * w).vh * 2.0}; }},
      {"halves",
       Once::never,
       [](auto in, const NDArray& w) {
         const std::vector<NDArray> parts = split(only(in) * w, 3, 0);
         return Arrays{parts[0] - parts[2]};
       }},
  };
  for (const Case& one : cases) {
    for (const bool recorded : {false, true}) {
      Counted by_hand(one.program), hybrid(one.program);
      by_hand.initialize();
      hybrid.initialize();
      hybrid.hybridize();
      for (const std::int64_t n : k_sizes) {
        CAPTURE(one.name, recorded, n);
        CHECK(is_same(call(hybrid, n, recorded), call(by_hand, n, recorded)));
      }
    }
  }
}
