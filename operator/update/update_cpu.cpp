#include <algorithm>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/update/rule.h>

namespace sluice::detail {

namespace {

// Whether there are states is settled outside the loop, so that it vectorises.
template <bool First, bool Second, class T>
void step_elements(const UpdatePiece& piece, const UpdateWork& work, std::int64_t begin, std::int64_t end) {
  using C = Compute<T>;
  UpdateRule<C> rule = work.rule.as<C>();
  if (work.numbers != nullptr)
    rule.rescale = static_cast<C>(work.numbers[work.count]);
  rule.adam = Second;
  auto* __restrict weight = static_cast<T*>(piece.weight);
  const auto* __restrict grad = static_cast<const T*>(piece.grad);
  auto* __restrict first = static_cast<C*>(piece.state[0]);
  auto* __restrict second = static_cast<C*>(piece.state[1]);
  const C rate = static_cast<C>(work.numbers != nullptr ? work.numbers[piece.number] : piece.learning_rate);
  const C decay = static_cast<C>(piece.weight_decay);
  for (std::int64_t i = begin; i < end; ++i) {
    weight[i] = static_cast<T>(rule.step(
        static_cast<C>(weight[i]),
        static_cast<C>(grad[i]),
        First ? first + i : nullptr,
        Second ? second + i : nullptr,
        rate,
        decay));
  }
}

template <class T>
void step_range(const UpdatePiece& piece, const UpdateWork& work, std::int64_t begin, std::int64_t end) {
  if (work.rule.adam) {
    step_elements<true, true, T>(piece, work, begin, end);
  } else if (piece.state[0] != nullptr) {
    step_elements<true, false, T>(piece, work, begin, end);
  } else {
    step_elements<false, false, T>(piece, work, begin, end);
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
