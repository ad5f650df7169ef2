#include <algorithm>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/random/blocks_cpu.h>
#include <sluice/operator/random/draw.h>
#include <sluice/operator/random/drawn.h>
#include <sluice/operator/random/tried_draws.h>
#include <sluice/operator/random/unit_draws.h>

namespace sluice::detail {

namespace {

// Element i takes the first number of its sub-stream, which is Philox block i.
template <class Draw>
void draw_units(const KernelCall& call, const DrawParameters& parameters, const RandomBlock& random) {
  const TensorView& to = call.outputs[0];
  constexpr std::int64_t k_most = BlocksAtATime::k_most;
  parallel_for((to.size + k_most - 1) / k_most, 2, [&](std::int64_t begin, std::int64_t end) {
    BlocksAtATime blocks(random);
    double drawn[k_most], room[k_most];
    for (std::int64_t first = begin * k_most; first < std::min(end * k_most, to.size); first += k_most) {
      const std::int64_t n = std::min(k_most, to.size - first), filled = whole_groups(n);
      blocks.make(first, filled);
      for (std::int64_t i = 0; i < filled; ++i)
        drawn[i] = blocks.unit(i).value;
      UnitDraw<Draw>::draw(*blocks.rows(), parameters, filled, drawn, room);
      store_all_drawn(to.dtype, to.data, first, drawn, n);
    }
  });
}

template <class Draw>
void draw_tried(
    const KernelCall& call, const DrawParameters& parameters, const RandomBlock& random, const simd::RandomRows& rows) {
  const TensorView& to = call.outputs[0];
  constexpr std::int64_t k_most = NormalsAtATime::k_most;
  const TriedDraw<Draw> draw(parameters);
  parallel_for((to.size + k_most - 1) / k_most, 2, [&](std::int64_t begin, std::int64_t end) {
    NormalsAtATime normals(random, rows);
    for (std::int64_t first = begin * k_most; first < std::min(end * k_most, to.size); first += k_most) {
      const auto put = [&](std::int64_t i, double drawn) { store_drawn(to.dtype, to.data, first + i, drawn); };
      const auto again = [&](std::int64_t i) {
        SubStream stream(random, static_cast<std::uint64_t>(first + i));
        put(i, Draw::draw(parameters, first + i, stream));
      };
      const TriedElements<decltype(put), decltype(again)> of{normals, first, put, again};
      const auto take = [&](std::int64_t i, double z, std::uint32_t tried) { return draw.take(of, i, z, tried); };
      normals.draw(first, std::min(k_most, to.size - first), take, again);
    }
  });
}

}  // namespace

template <class Draw>
void draw_cpu(const KernelCall& call) {
  const TensorView& to = call.outputs[0];
  const DrawParameters parameters = draw_parameters(call);
  const RandomBlock random = random_source(call).read();
  if constexpr (UnitDraw<Draw>::exists) {
    if (simd::random_rows() != nullptr)
      return draw_units<Draw>(call, parameters, random);
  }
  if constexpr (TriedDraw<Draw>::exists) {
    const simd::RandomRows* const rows = simd::random_rows();
    if (rows != nullptr && TriedDraw<Draw>::serves(parameters))
      return draw_tried<Draw>(call, parameters, random, *rows);
  }
  const auto each = [&](const auto& draw) {
    parallel_for(to.size, 512, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        SubStream stream(random, static_cast<std::uint64_t>(i));
        store_drawn(to.dtype, to.data, i, draw(i, stream));
      }
    });
  };
  if constexpr (std::is_same_v<Draw, PoissonDraw>) {
    const double lam = parameters.at[0];
    if (parameters.each == nullptr && lam >= 0 && lam < PoissonDraw::k_small) {
      const Exact end = exact_exp(-lam);  // most of the work, if it were done for each
      return each([&](std::int64_t, SubStream& stream) { return PoissonDraw::small(lam, end, stream); });
    }
  }
  each([&](std::int64_t i, SubStream& stream) { return Draw::draw(parameters, i, stream); });
}

template void draw_cpu<ExponentialDraw>(const KernelCall&);
template void draw_cpu<LaplaceDraw>(const KernelCall&);
template void draw_cpu<GumbelDraw>(const KernelCall&);
template void draw_cpu<TruncatedDraw>(const KernelCall&);
template void draw_cpu<GammaDraw>(const KernelCall&);
template void draw_cpu<BetaDraw>(const KernelCall&);
template void draw_cpu<PoissonDraw>(const KernelCall&);

void categorical_cpu(const KernelCall& call) {
  const CategoricalWork work = categorical_work(call);
  const RandomBlock random = random_source(call).read();
  parallel_for(work.rows, 1, [&](std::int64_t begin, std::int64_t end) {
    BlocksAtATime blocks(random);
    std::vector<double> sums(static_cast<std::size_t>(work.categories));
    for (std::int64_t row = begin; row < end; ++row) {
      add_up_weights(work.weights + row * work.categories, work.categories, sums.data());
      for (std::int64_t first = 0; first < work.draws; first += BlocksAtATime::k_most) {
        const std::int64_t n = std::min(BlocksAtATime::k_most, work.draws - first), at = row * work.draws + first;
        blocks.make(at, n);
        for (std::int64_t i = 0; i < n; ++i)
          work.to[at + i] = find_category(sums.data(), work.categories, blocks.unit(i));
      }
    }
  });
}

}  // namespace sluice::detail
