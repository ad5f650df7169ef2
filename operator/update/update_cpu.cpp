#include <algorithm>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/simd/update.h>
#include <sluice/operator/update/rule.h>

namespace sluice::detail {

namespace {

// Where there are no vectors. Whether there are states is settled outside the loop.
template <bool First, bool Second, class C>
void step_plainly(UpdateRule<C> rule, const simd::UpdateRun<C>& run) {
  rule.adam = Second;
  auto* __restrict weight = run.weight;
  const auto* __restrict grad = run.grad;
  auto* __restrict first = run.first;
  auto* __restrict second = run.second;
  const C rate = run.learning_rate, decay = run.weight_decay;
  for (std::int64_t i = 0; i < run.n; ++i)
    weight[i] = rule.step(weight[i], grad[i], First ? first + i : nullptr, Second ? second + i : nullptr, rate, decay);
}

template <class C>
void step_run(const UpdateRule<C>& rule, const simd::UpdateRun<C>& run) {
  if (simd::update(rule, run))
    return;
  if (rule.adam) {
    step_plainly<true, true>(rule, run);
  } else if (run.first != nullptr) {
    step_plainly<true, false>(rule, run);
  } else {
    step_plainly<false, false>(rule, run);
  }
}

// Half types go through blocks of floats that stay in the nearest cache.
template <class T>
void step_halves(const UpdateRule<float>& rule, simd::UpdateRun<float> run, T* weight, const T* grad) {
  constexpr std::int64_t k_block = 512;
  float wide[k_block], gradients[k_block];
  for (std::int64_t left = run.n; left > 0; left -= run.n) {
    run.n = std::min(left, k_block);
    simd::convert(weight, wide, run.n);
    simd::convert(grad, gradients, run.n);
    run.weight = wide;
    run.grad = gradients;
    step_run(rule, run);
    simd::convert(wide, weight, run.n);
    weight += run.n;
    grad += run.n;
    run.first = run.first == nullptr ? nullptr : run.first + run.n;
    run.second = run.second == nullptr ? nullptr : run.second + run.n;
  }
}

template <class T>
void step_range(const UpdatePiece& piece, const UpdateWork& work, std::int64_t begin, std::int64_t end) {
  using C = Compute<T>;
  UpdateRule<C> rule = work.rule.as<C>();
  if (work.numbers != nullptr)
    rule.rescale = static_cast<C>(work.numbers[work.count]);
  const auto state = [&](int i) {
    return piece.state[i] == nullptr ? nullptr : static_cast<C*>(piece.state[i]) + begin;
  };
  auto* weight = static_cast<T*>(piece.weight) + begin;
  const auto* grad = static_cast<const T*>(piece.grad) + begin;
  simd::UpdateRun<C> run{.first = state(0), .second = state(1), .n = end - begin};
  run.learning_rate = static_cast<C>(work.numbers != nullptr ? work.numbers[piece.number] : piece.learning_rate);
  run.weight_decay = static_cast<C>(piece.weight_decay);
  if constexpr (std::is_same_v<T, C>) {
    run.weight = weight;
    run.grad = grad;
    step_run(rule, run);
  } else {
    step_halves(rule, run, weight, grad);
  }
}

}  // namespace

void update_cpu(const UpdateWork& work) {
  std::vector<std::int64_t> starts;  // of each parameter, in the elements of all of them
  std::int64_t total = 0;
  for (const UpdatePiece& piece : work.pieces) {
    starts.push_back(total);
    total += piece.size;
  }
  parallel_for(total, 16384, [&](std::int64_t begin, std::int64_t end) {
    auto at = static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin()) - 1;
    for (; begin < end; ++at) {
      const UpdatePiece& piece = work.pieces[at];
      const std::int64_t first = begin - starts[at], last = std::min(end - starts[at], piece.size);
      by_floating(piece.dtype, [&]<class T>() { step_range<T>(piece, work, first, last); });
      begin = starts[at] + last;
    }
  });
}

}  // namespace sluice::detail
