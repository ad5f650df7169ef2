#include <algorithm>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/simd/update.h>
#include <sluice/operator/update/squares.h>
#include <sluice/operator/update/work.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_block = 512;  // elements that stay in the nearest cache

// Where there are no vectors.
template <class R, class C>
void step_plainly(const R& rule, const simd::UpdateRun<C>& run) {
  for (std::int64_t i = 0; i < run.n; ++i) {
    C state[k_most_states] = {};
    for (int s = 0; s < R::k_states; ++s)
      state[s] = run.state[s][i];
    const C grad = run.form.of(run.grad[i]);
    if constexpr (R::k_trusted) {
      if (run.direction != nullptr)
        run.direction[i] = rule.direction(run.weight[i], grad, state, run.rates);
      else
        run.weight[i] = rule.step(run.weight[i], grad, state, run.rates);
    } else {
      run.weight[i] = rule.step(run.weight[i], grad, state, run.rates);
    }
    for (int s = 0; s < written_states<R>(); ++s)
      run.state[s][i] = state[s];
  }
}

template <class C>
void step_run(const AnyRule<C>& any, const simd::UpdateRun<C>& run) {
  if (!simd::update(any, run))
    std::visit([&](const auto& rule) { step_plainly(rule, run); }, any);
}

bool is_taken(const UpdateWork& work) {
  return work.guard == nullptr || work.guard[2] != 0;
}

double ratio_of(const UpdateWork& work, const UpdatePiece& piece, const SquareSums& sums) {
  const auto of = [&]<class R>(const R& rule) {
    if constexpr (R::k_trusted)
      return rule.ratio(sums, piece.rates.decay);
    return 1.0;
  };
  return piece.plain ? 1 : std::visit(of, work.rule);
}

/// Elements [begin, end) of one parameter.
struct Part {
  const UpdatePiece& piece;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

template <class C>
const AnyRule<C>& rule_of(const UpdateWork& work) {
  if constexpr (std::is_same_v<C, double>) {
    return work.rule64;
  } else {
    return work.rule;
  }
}

template <class C>
simd::UpdateRun<C> run_of(const UpdateWork& work, const Part& part, double ratio) {
  const UpdatePiece& piece = part.piece;
  simd::UpdateRun<C> run{.n = part.end - part.begin};
  for (int s = 0; s < k_most_states; ++s)
    run.state[s] = piece.state[s] == nullptr ? nullptr : static_cast<C*>(piece.state[s]) + part.begin;
  const Rates<double> rates = rates_of(work, piece);
  run.rates.decay = static_cast<C>(rates.decay);
  for (int r = 0; r < k_most_rates; ++r)
    run.rates.at[r] = static_cast<C>(r == 0 ? rates.at[r] * ratio : rates.at[r]);
  run.form = {static_cast<C>(rescale_of(work)), static_cast<C>(work.clip)};
  return run;
}

// The weight with all its digits, where it is still what they round to.
template <class T>
void take_master(const float* master, std::int64_t n, float* weight) {
  T rounded[k_block];
  float back[k_block];
  simd::convert(master, rounded, n);
  simd::convert(rounded, back, n);
  for (std::int64_t i = 0; i < n; ++i)
    weight[i] = back[i] == weight[i] ? master[i] : weight[i];
}

// Half types go through blocks of floats.
template <class T, class After>
void step_halves(const UpdateWork& work, simd::UpdateRun<float> run, const Part& part, const After& after) {
  float wide[k_block], gradients[k_block];
  auto* weight = static_cast<T*>(part.piece.weight) + part.begin;
  const auto* grad = static_cast<const T*>(part.piece.grad) + part.begin;
  float* master = part.piece.master == nullptr ? nullptr : part.piece.master + part.begin;
  for (std::int64_t left = run.n; left > 0; left -= run.n) {
    run.n = std::min(left, k_block);
    simd::convert(weight, wide, run.n);
    simd::convert(grad, gradients, run.n);
    if (master != nullptr)
      take_master<T>(master, run.n, wide);
    run.weight = wide;
    run.grad = gradients;
    step_run(work.rule, run);
    after(run);
    if (run.direction == nullptr) {
      simd::convert(wide, weight, run.n);
      if (master != nullptr)
        std::copy_n(wide, run.n, master);
    }
    weight += run.n;
    grad += run.n;
    master = master == nullptr ? nullptr : master + run.n;
    for (float*& state : run.state)
      state = state == nullptr ? nullptr : state + run.n;
  }
}

void step_part(const UpdateWork& work, const Part& part, double ratio) {
  by_floating(part.piece.dtype, [&]<class T>() {
    using C = Compute<T>;
    simd::UpdateRun<C> run = run_of<C>(work, part, ratio);
    if constexpr (std::is_same_v<T, C>) {
      run.weight = static_cast<T*>(part.piece.weight) + part.begin;
      run.grad = static_cast<const T*>(part.piece.grad) + part.begin;
      step_run(rule_of<C>(work), run);
    } else {
      step_halves<T>(work, run, part, [](const auto&) {});
    }
  });
}

// The first pass: directions of a block at a time, which go no further than their squares.
SquareSums squares_of(const UpdateWork& work, const Part& part) {
  SquareSums sums{};
  by_floating(part.piece.dtype, [&]<class T>() {
    using C = Compute<T>;
    C direction[k_block];
    const auto add = [&](const simd::UpdateRun<C>& run) {
      sums.weight += sum_of_squares(run.weight, run.n);
      sums.direction += sum_of_squares(direction, run.n);
    };
    simd::UpdateRun<C> whole = run_of<C>(work, part, 1);
    whole.direction = direction;
    if constexpr (std::is_same_v<T, C>) {
      for (std::int64_t at = part.begin; at < part.end; at += k_block) {
        const Part block{part.piece, at, std::min(at + k_block, part.end)};
        simd::UpdateRun<C> run = run_of<C>(work, block, 1);
        run.direction = direction;
        run.weight = static_cast<T*>(part.piece.weight) + at;
        run.grad = static_cast<const T*>(part.piece.grad) + at;
        step_run(rule_of<C>(work), run);
        add(run);
      }
    } else {
      step_halves<T>(work, whole, part, add);
    }
  });
  return sums;
}

// Of each piece. Sums of parts that are cut by shape, in their order.
std::vector<double> ratios_of(const UpdateWork& work) {
  std::vector<Part> parts;
  std::vector<std::size_t> first;
  for (const UpdatePiece& piece : work.pieces) {
    first.push_back(parts.size());
    for (std::int64_t at = 0; at < piece.size; at += k_per_part)
      parts.push_back({piece, at, std::min(at + k_per_part, piece.size)});
  }
  first.push_back(parts.size());
  std::vector<SquareSums> sums(parts.size());
  parallel_for(std::ssize(parts), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      sums[i] = squares_of(work, parts[i]);
  });
  std::vector<double> ratios;
  for (std::size_t p = 0; p < work.pieces.size(); ++p) {
    SquareSums all{};
    for (std::size_t i = first[p]; i < first[p + 1]; ++i) {
      all.weight += sums[i].weight;
      all.direction += sums[i].direction;
    }
    ratios.push_back(ratio_of(work, work.pieces[p], all));
  }
  return ratios;
}

}  // namespace

double rescale_of(const UpdateWork& work) {
  const double rescale = work.numbers == nullptr ? work.rescale : work.numbers[work.count * rates_a_parameter(work)];
  return work.guard == nullptr ? rescale : rescale * work.guard[1];
}

Rates<double> rates_of(const UpdateWork& work, const UpdatePiece& piece) {
  Rates<double> rates = piece.rates;
  const int count = rates_a_parameter(work);
  for (int r = 0; work.numbers != nullptr && r < count; ++r)
    rates.at[r] = work.numbers[piece.number * count + r];
  return rates;
}

void update_cpu(const UpdateWork& work) {
  if (!is_taken(work))
    return;
  if (work.factored)
    return factored_update_cpu(work);
  const std::vector<double> ratios = has_two_passes(work) ? ratios_of(work) : std::vector<double>();
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
      const std::int64_t last = std::min(end - starts[at], piece.size);
      step_part(work, {piece, begin - starts[at], last}, ratios.empty() ? 1 : ratios[at]);
      begin = starts[at] + last;
    }
  });
}

}  // namespace sluice::detail
