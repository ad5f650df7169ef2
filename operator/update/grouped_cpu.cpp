#include <algorithm>
#include <type_traits>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/update/squares.h>
#include <sluice/operator/update/work.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_block = 512;  // elements that stay in the nearest cache

template <class C>
Rates<C> rates_as(const Rates<double>& rates) {
  Rates<C> made;
  made.at[0] = static_cast<C>(rates.at[0]);
  made.decay = static_cast<C>(rates.decay);
  return made;
}

/// One parameter in its types.
template <class T>
class Grouped {
 public:
  using C = Compute<T>;

  Grouped(const UpdateWork& work, const UpdatePiece& piece)
      : piece_(piece),
        step_(
            *work.grouped,
            rates_as<C>(rates_of(work, piece)),
            {static_cast<C>(rescale_of(work)), static_cast<C>(work.clip)}) {}

  void run() {
    const std::int64_t columns = piece_.columns;
    parallel_for(piece_.size / columns, std::max<std::int64_t>(1, 16384 / columns), [&](auto begin, auto end) {
      for (std::int64_t row = begin; row < end; ++row)
        step_row(row);
    });
  }

 private:
  C grad(std::int64_t i) const { return static_cast<C>(static_cast<const T*>(piece_.grad)[i]); }
  // With all its digits, where it is still what they round to.
  C weight(std::int64_t i) const {
    const C weight = static_cast<C>(static_cast<const T*>(piece_.weight)[i]);
    if constexpr (!std::is_same_v<T, C>) {
      if (piece_.master != nullptr && static_cast<C>(static_cast<T>(piece_.master[i])) == weight)
        return piece_.master[i];
    }
    return weight;
  }
  void step_row(std::int64_t row) const {
    const std::int64_t begin = row * piece_.columns, end = begin + piece_.columns;
    double squares = 0;
    for (std::int64_t at = begin; at < end; at += k_block) {
      const std::int64_t n = std::min(k_block, end - at);
      C of_block[k_block];
      for (std::int64_t k = 0; k < n; ++k)
        of_block[k] = step_.decayed(weight(at + k), grad(at + k));
      squares += sum_of_squares(of_block, n);
    }
    C& history = static_cast<C*>(piece_.state[0])[row];
    history = step_.history(history, squares, piece_.columns);
    for (std::int64_t i = begin; i < end; ++i) {
      const C w = step_.step(weight(i), grad(i), history);
      static_cast<T*>(piece_.weight)[i] = static_cast<T>(w);
      if constexpr (!std::is_same_v<T, C>) {
        if (piece_.master != nullptr)
          piece_.master[i] = w;
      }
    }
  }

  const UpdatePiece& piece_;
  const GroupedStep<C> step_;
};

}  // namespace

void grouped_update_cpu(const UpdateWork& work) {
  for (const UpdatePiece& piece : work.pieces)
    by_floating(piece.dtype, [&]<class T>() { Grouped<T>(work, piece).run(); });
}

}  // namespace sluice::detail
