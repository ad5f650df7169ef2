#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/random/drawn.h>

namespace sluice::detail {

template <class Draw>
void draw_cpu(const KernelCall& call) {
  const TensorView& to = call.outputs[0];
  const DrawParameters parameters = draw_parameters(call);
  const RandomBlock random = random_source(call).read();
  parallel_for(to.size, 512, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      SubStream stream(random, static_cast<std::uint64_t>(i));
      store_drawn(to.dtype, to.data, i, Draw::draw(parameters, i, stream));
    }
  });
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
    std::vector<double> sums(static_cast<std::size_t>(work.categories));
    for (std::int64_t row = begin; row < end; ++row) {
      add_up_weights(work.weights + row * work.categories, work.categories, sums.data());
      for (std::int64_t i = row * work.draws; i < (row + 1) * work.draws; ++i) {
        SubStream stream(random, static_cast<std::uint64_t>(i));
        work.to[i] = find_category(sums.data(), work.categories, stream);
      }
    }
  });
}

}  // namespace sluice::detail
