// Optimizer steps, random numbers and dropout on every instruction set that this machine has: the bits of the plain
// loops, but for the functions of normal().
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/random/philox.h>
#include <sluice/operator/simd/random.h>

#include "tests/operator/reference.h"
#include "tests/operator/rule_references.h"
#include "tests/operator/simd_targets.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

namespace sluice::test {
namespace {

using simd::TargetScope;
using Arrays = std::vector<NDArray>;

// Lengths of tails of any set, and a long one.
const std::vector<std::int64_t>& lengths() {
  static const std::vector<std::int64_t> all = [] {
    std::vector<std::int64_t> some;
    for (std::int64_t n = 0; n <= 35; ++n)
      some.push_back(n);
    some.insert(some.end(), {511, 512, 513, 1025, 70001});
    return some;
  }();
  return all;
}

template <class Make>
void check_same_on_all(const char* what, DType dtype, Make&& make) {
  const auto on = [&](simd::Target target) {
    const TargetScope scope(target);
    const Arrays made = make();
    Engine::current().wait_all();
    return made;
  };
  const Arrays want = on(simd::Target::scalar);
  for (const simd::Target target : simd_targets()) {
    const Arrays got = on(target);
    REQUIRE(got.size() == want.size());
    int unlike = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      unlike += !equal_bits(got[i], want[i]);
    CAPTURE(what, dtype, name_of(target));
    CHECK(unlike == 0);
  }
}

Arrays of_lengths(std::uint64_t seed, double low, double high, DType dtype) {
  Arrays made;
  for (const std::int64_t n : lengths())
    made.push_back(random_array({n}, seed++, low, high, dtype));
  return made;
}

NDArray line(const std::vector<double>& values) {
  return array(values, {static_cast<std::int64_t>(values.size())});
}

Arrays joined(Arrays a, const Arrays& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("optimizer steps have the bits of the plain loops on every instruction set", "[operator][simd][update]") {
  for (const DType dtype : floating_dtypes()) {
    const DType state = dtype == float64 ? float64 : float32;
    const auto make = [&](bool adam, bool momentum, double clip, double decay) {
      const Arrays weights = of_lengths(1, -1, 1, dtype), grads = of_lengths(100, -1, 1, dtype);
      Arrays first = of_lengths(200, -0.1, 0.1, state);
      const Arrays second = of_lengths(300, 0, 0.1, state);
      if (adam) {
        AdamUpdate options{.learning_rate = 0.03, .weight_decay = decay, .rescale_grad = 0.7, .clip_gradient = clip};
        options.steps.assign(weights.size(), 3);
        adam_update(weights, grads, first, second, options);
        return joined(joined(weights, first), second);
      }
      if (!momentum)
        first.clear();
      sgd_update(
          weights,
          grads,
          first,
          {.learning_rate = 0.03,
           .momentum = momentum ? 0.9 : 0,
           .weight_decay = decay,
           .rescale_grad = 0.7,
           .clip_gradient = clip});
      return joined(weights, first);
    };
    for (const double clip : {-1.0, 0.25}) {
      for (const double decay : {0.0, 0.01}) {
        check_same_on_all("sgd", dtype, [&] { return make(false, false, clip, decay); });
        check_same_on_all("sgd with momentum", dtype, [&] { return make(false, true, clip, decay); });
        check_same_on_all("adam", dtype, [&] { return make(true, false, clip, decay); });
      }
    }
  }
}

TEST_CASE("steps of every rule have the bits of the plain loops on every instruction set", "[operator][simd][update]") {
  each_rule([](const char* name, auto rule) {
    if constexpr (std::is_same_v<decltype(rule), update_rules::Lars>)
      rule.plain.clear();
    for (const DType dtype : floating_dtypes()) {
      check_same_on_all(name, dtype, [&] {
        const Arrays weights = of_lengths(1, -1, 1, dtype), grads = of_lengths(100, -1, 1, dtype);
        std::vector<Arrays> states;
        for (std::size_t s = 0; s < rule.states().size(); ++s) {
          states.push_back(of_lengths(200 + s * 50, 0, 0.1, dtype == float64 ? float64 : float32));
          for (NDArray& state : states.back()) {
            if (update_rules::state_shape(rule, s, state.shape()) != state.shape())
              state = zeros(update_rules::state_shape(rule, s, state.shape()), {.dtype = state.dtype()});
          }
        }
        UpdateOptions options{.learning_rate = 0.03, .weight_decay = 0.01, .rescale_grad = 0.7, .clip_gradient = 0.25};
        options.steps.assign(weights.size(), 3);
        if (dtype == float16 || dtype == bfloat16)
          options.masters = of_lengths(1, -1, 1, float32);
        optimizer_update(rule, weights, grads, states, options);
        Arrays all = joined(weights, options.masters);
        for (const Arrays& list : states)
          all = joined(all, list);
        return all;
      });
    }
  });
}

TEST_CASE("optimizer steps pass NaN and infinities on every instruction set", "[operator][simd][update][special]") {
  constexpr double k_inf = std::numeric_limits<double>::infinity(), k_nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> grads;
  for (int i = 0; i < 40; ++i)
    grads.push_back(i % 4 == 0 ? k_nan : i % 4 == 1 ? k_inf : i % 4 == 2 ? -k_inf : 0.5);
  for (const DType dtype : {float32, float16}) {
    for (const simd::Target target : simd_targets()) {
      const TargetScope scope(target);
      CAPTURE(dtype, name_of(target));
      const Arrays g = {line(grads).astype(dtype)}, w = {zeros({40}, {.dtype = dtype})}, clipped = {w[0].copy()};
      sgd_update(w, g, {}, {.learning_rate = 1});
      sgd_update(clipped, g, {}, {.learning_rate = 1, .clip_gradient = 0.25});
      for (std::size_t i = 0; i < 4; ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const double free = w[0][at].item<double>(), cut = clipped[0][at].item<double>();
        CHECK((i == 0 ? std::isnan(free) && std::isnan(cut) : free == -grads[i] && cut == (i == 2 ? 0.25 : -0.25)));
      }
    }
  }
}

TEST_CASE("Philox blocks in vectors are those of the plain function", "[operator][simd][random]") {
  constexpr std::int64_t k_words = 6 * simd::RandomRows::k_group;
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    const simd::RandomRows* const rows = simd::random_rows();
    CHECK((rows == nullptr) == (target == simd::Target::scalar));
    if (rows == nullptr)
      continue;
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{0xfffffff0}, ~std::uint64_t{0} - 20}) {
      for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{0x299f31d0a4093822}, ~std::uint64_t{0}}) {
        RandomBlock random{};
        random.seed = seed;
        random.offset = offset;
        std::uint32_t words[k_words];
        rows->words(random, 5, k_words, words);
        int wrong = 0;
        for (std::int64_t i = 0; i < k_words; ++i)
          wrong += words[i] != detail::philox(random, static_cast<std::uint64_t>(5 + i / 4)).word[i % 4];
        CAPTURE(name_of(target), offset, seed);
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("random arrays and dropout have the same bits on every instruction set", "[operator][simd][random]") {
  const autograd::TrainScope training;
  for (const DType dtype : floating_dtypes()) {
    const auto each = [&](auto&& one) {
      return [&one] {
        random::seed(12);
        Arrays made;
        for (const std::int64_t n : lengths())
          made.push_back(one(n));
        return made;
      };
    };
    const ArrayOptions options{.dtype = dtype};
    const auto uniform = [&](std::int64_t n) { return random::uniform(-0.3, 1.7, {n}, options); };
    // So narrow that half types round into the open end.
    const auto narrow = [&](std::int64_t n) { return random::uniform(1, 1.01, {n}, options); };
    const auto events = [&](std::int64_t n) { return random::bernoulli(0.3, {n}, options); };
    const auto kept = [&](std::int64_t n) { return dropout(random_array({n}, 3, -1, 1, dtype), 0.3); };
    const auto all_dropped = [&](std::int64_t n) { return dropout(random_array({n}, 3, -1, 1, dtype), 1); };
    check_same_on_all("uniform", dtype, each(uniform));
    check_same_on_all("narrow", dtype, each(narrow));
    check_same_on_all("bernoulli", dtype, each(events));
    check_same_on_all("dropout", dtype, each(kept));
    check_same_on_all("dropout of all", dtype, each(all_dropped));
    const NDArray numbers = random::uniform(1, 1.01, {70001}, options);
    CHECK(max(numbers.astype(float64)).item<double>() < full({1}, 1.01, options).item<double>() + 1e-12);
  }
  const auto whole = [] {
    random::seed(13);
    return Arrays{random::randint(-5, 1000, {1003}), random::randint(0, 7, {33}, {.dtype = uint8})};
  };
  check_same_on_all("randint", int64, whole);
}

TEST_CASE("normal numbers in vectors are those of doubles, closely", "[operator][simd][random]") {
  constexpr std::uint64_t k_seed = 21;
  constexpr std::int64_t k_size = 100003;
  for (const simd::Target target : simd_targets()) {
    const TargetScope scope(target);
    for (const DType dtype : {float32, float16, bfloat16}) {
      random::seed(k_seed);
      const NDArray got = random::normal(0.5, 2, {k_size}, {.dtype = dtype});
      RandomBlock random{};
      random.seed = k_seed;
      std::vector<double> want;
      for (std::int64_t i = 0; i < k_size; ++i) {
        const detail::PhiloxBlock block = detail::philox(random, static_cast<std::uint64_t>(i / 4));
        const std::uint32_t* const pair = block.word + i % 4 / 2 * 2;
        // What the logarithm and the turn are taken of are floats.
        const float positive = static_cast<float>(pair[0]) * 0x1p-32f + 0x1p-33f;
        const float angle = 6.283185307179586f * (static_cast<float>(pair[1] >> 8) * 0x1p-24f);
        const double radius = std::sqrt(-2 * std::log(static_cast<double>(positive)));
        const double turn = i % 2 == 0 ? std::cos(static_cast<double>(angle)) : std::sin(static_cast<double>(angle));
        want.push_back(radius * turn * 2 + 0.5);
      }
      Tolerance tolerance = tolerance_of(dtype);
      if (dtype == float32)
        tolerance = {4e-7, 8e-7};
      CAPTURE(name_of(target), dtype);
      CHECK(differences(got, line(want).astype(dtype), tolerance) == "");
    }
  }
}

}  // namespace sluice::test
