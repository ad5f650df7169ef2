#include <algorithm>
#include <cmath>
#include <limits>
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
      if (run.direction[0] != nullptr) {
        C made[R::k_directions];
        rule.directions(run.weight[i], grad, state, run.rates, made);
        for (int d = 0; d < R::k_directions; ++d)
          run.direction[d][i] = made[d];
      } else {
        run.weight[i] = rule.step(run.weight[i], grad, state, run.rates);
      }
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

/// What passes before the step found of one parameter.
struct Lengths {
  double norm = -1;  // of the gradient, where that is to be 1
  double ratio[2] = {1, 1};
};

void find_ratios(const UpdateWork& work, const UpdatePiece& piece, const SquareSums<2>& sums, Lengths& to) {
  const auto find = [&]<class R>(const R& rule) {
    if constexpr (R::k_trusted) {
      SquareSums<R::k_directions> own{sums.weight, {}};
      std::copy_n(sums.direction, R::k_directions, own.direction);
      rule.ratios(own, piece.rates.decay, to.ratio);
    }
  };
  if (!piece.plain)
    std::visit(find, work.rule);
}

/// Elements [begin, end) of one parameter.
struct Part {
  const UpdatePiece& piece;
  const Lengths& lengths;
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
simd::UpdateRun<C> run_of(const UpdateWork& work, const Part& part) {
  const UpdatePiece& piece = part.piece;
  simd::UpdateRun<C> run{.n = part.end - part.begin};
  for (int s = 0; s < k_most_states; ++s)
    run.state[s] = piece.state[s] == nullptr ? nullptr : static_cast<C*>(piece.state[s]) + part.begin;
  const Rates<double> rates = rates_of(work, piece);
  run.rates.decay = static_cast<C>(rates.decay);
  const Lengths& lengths = part.lengths;
  for (int r = 0; r < k_most_rates; ++r)
    run.rates.at[r] = static_cast<C>(r == 0 ? rates.at[r] * lengths.ratio[0] : rates.at[r]);
  run.rates.second = static_cast<C>(rates.at[0] * lengths.ratio[1]);
  double rescale = rescale_of(work);
  if (lengths.norm >= 0 || std::isnan(lengths.norm))
    rescale = rescale_to_one(rescale, lengths.norm, static_cast<double>(std::numeric_limits<C>::max()));
  run.form = {static_cast<C>(rescale), static_cast<C>(work.clip)};
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
    if (run.direction[0] == nullptr) {
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

void step_part(const UpdateWork& work, const Part& part) {
  by_floating(part.piece.dtype, [&]<class T>() {
    using C = Compute<T>;
    simd::UpdateRun<C> run = run_of<C>(work, part);
    if constexpr (std::is_same_v<T, C>) {
      run.weight = static_cast<T*>(part.piece.weight) + part.begin;
      run.grad = static_cast<const T*>(part.piece.grad) + part.begin;
      step_run(rule_of<C>(work), run);
    } else {
      step_halves<T>(work, run, part, [](const auto&) {});
    }
  });
}

// Of the gradient as it is.
double gradient_squares(const Part& part) {
  double sum = 0;
  by_floating(part.piece.dtype, [&]<class T>() {
    using C = Compute<T>;
    C wide[k_block];
    const T* const grad = static_cast<const T*>(part.piece.grad);
    for (std::int64_t at = part.begin; at < part.end; at += k_block) {
      const std::int64_t n = std::min(k_block, part.end - at);
      if constexpr (std::is_same_v<T, C>)
        std::copy_n(grad + at, n, wide);
      else
        simd::convert(grad + at, wide, n);
      sum += sum_of_squares(wide, n);
    }
  });
  return sum;
}

// The first pass: directions of a block at a time, which go no further than their squares.
SquareSums<2> squares_of(const UpdateWork& work, const Part& part, int directions) {
  SquareSums<2> sums{};
  by_floating(part.piece.dtype, [&]<class T>() {
    using C = Compute<T>;
    C direction[2][k_block];
    const auto direct = [&](simd::UpdateRun<C>& run) {
      for (int d = 0; d < directions; ++d)
        run.direction[d] = direction[d];
    };
    const auto add = [&](const simd::UpdateRun<C>& run) {
      sums.weight += sum_of_squares(run.weight, run.n);
      for (int d = 0; d < directions; ++d)
        sums.direction[d] += sum_of_squares(direction[d], run.n);
    };
    if constexpr (std::is_same_v<T, C>) {
      for (std::int64_t at = part.begin; at < part.end; at += k_block) {
        const Part block{part.piece, part.lengths, at, std::min(at + k_block, part.end)};
        simd::UpdateRun<C> run = run_of<C>(work, block);
        direct(run);
        run.weight = static_cast<T*>(part.piece.weight) + at;
        run.grad = static_cast<const T*>(part.piece.grad) + at;
        step_run(rule_of<C>(work), run);
        add(run);
      }
    } else {
      simd::UpdateRun<C> whole = run_of<C>(work, part);
      direct(whole);
      step_halves<T>(work, whole, part, add);
    }
  });
  return sums;
}

// f(part) of all parameters, cut by shape and added up in this order, for f(parameter, sum).
template <class Of, class F>
void each_sum(const UpdateWork& work, const std::vector<Lengths>& lengths, const Of& of, const F& f) {
  std::vector<Part> parts;
  std::vector<std::size_t> first;
  for (std::size_t p = 0; p < work.pieces.size(); ++p) {
    first.push_back(parts.size());
    const UpdatePiece& piece = work.pieces[p];
    for (std::int64_t at = 0; at < piece.size; at += k_per_part)
      parts.push_back({piece, lengths[p], at, std::min(at + k_per_part, piece.size)});
  }
  first.push_back(parts.size());
  std::vector<decltype(of(parts[0]))> sums(parts.size());
  parallel_for(std::ssize(parts), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      sums[i] = of(parts[i]);
  });
  for (std::size_t p = 0; p < work.pieces.size(); ++p) {
    auto all = sums[first[p]];
    for (std::size_t i = first[p] + 1; i < first[p + 1]; ++i)
      all = all + sums[i];
    f(p, all);
  }
}

// Of each parameter; of none where the rule asks for none.
std::vector<Lengths> lengths_of(const UpdateWork& work) {
  std::vector<Lengths> lengths;
  const auto find = [&]<class R>(const R&) {
    if constexpr (R::k_trusted) {
      lengths.resize(work.pieces.size());
      if constexpr (is_normalized<R>())
        each_sum(work, lengths, gradient_squares, [&](std::size_t p, double sum) { lengths[p].norm = std::sqrt(sum); });
      each_sum(
          work,
          lengths,
          [&](const Part& part) { return squares_of(work, part, R::k_directions); },
          [&](std::size_t p, const auto& sums) { find_ratios(work, work.pieces[p], sums, lengths[p]); });
    }
  };
  std::visit(find, work.rule);
  return lengths;
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
  if (work.grouped)
    return grouped_update_cpu(work);
  const std::vector<Lengths> lengths = lengths_of(work);
  const Lengths none;
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
      step_part(work, {piece, lengths.empty() ? none : lengths[at], begin - starts[at], last});
      begin = starts[at] + last;
    }
  });
}

}  // namespace sluice::detail
