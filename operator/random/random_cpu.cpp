#include <algorithm>
#include <numeric>

#include <sluice/engine/parallel.h>
#include <sluice/operator/random/draw.h>
#include <sluice/operator/random/kernels.h>

namespace sluice::detail {

namespace {

template <class Draw>
void fill_random(const KernelCall& call, const Draw& draw) {
  using T = typename Draw::Element;
  T* to = call.outputs[0].as<T>();
  const std::int64_t size = call.outputs[0].size;
  const std::int64_t blocks = (size + Draw::k_count - 1) / Draw::k_count;
  const RandomBlock random = random_source(call).read();
  parallel_for(blocks, 1024, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      T values[Draw::k_count];
      draw(philox(random, static_cast<std::uint64_t>(block)), values);
      const std::int64_t first = block * Draw::k_count;
      std::copy_n(values, std::min<std::int64_t>(Draw::k_count, size - first), to + first);
    }
  });
}

}  // namespace

void random_uniform_cpu(const KernelCall& call) {
  const auto& a = call.attributes.as<RealAttributes>();
  by_floating(a.dtype, [&]<class T>() { fill_random(call, UniformDraw<T>(a.first, a.second)); });
}

void random_normal_cpu(const KernelCall& call) {
  const auto& a = call.attributes.as<RealAttributes>();
  by_floating(a.dtype, [&]<class T>() { fill_random(call, NormalDraw<T>(a.first, a.second)); });
}

void random_randint_cpu(const KernelCall& call) {
  const auto& a = call.attributes.as<IntegerAttributes>();
  by_dtype(a.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      fill_random(call, IntegerDraw<T>(a.first, a.second));
  });
}

void random_bernoulli_cpu(const KernelCall& call) {
  const auto& a = call.attributes.as<RealAttributes>();
  by_dtype(a.dtype, [&]<class T>() { fill_random(call, BernoulliDraw<T>(a.first)); });
}

// Fisher and Yates' shuffle, from the back (Durstenfeld, 1964).
void random_permutation_cpu(const KernelCall& call) {
  auto* to = call.outputs[0].as<std::int64_t>();
  const std::int64_t n = call.outputs[0].size;
  std::iota(to, to + n, std::int64_t{0});
  const RandomBlock random = random_source(call).read();
  PhiloxBlock block{};
  for (std::int64_t i = n - 1, drawn = 0; i > 0; --i, ++drawn) {
    const int half = static_cast<int>(drawn % 2) * 2;
    if (half == 0)
      block = philox(random, static_cast<std::uint64_t>(drawn / 2));
    const std::uint64_t bits = join_words(block.word[half], block.word[half + 1]);
    std::swap(to[i], to[bits % static_cast<std::uint64_t>(i + 1)]);
  }
}

}  // namespace sluice::detail
