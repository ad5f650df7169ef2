#pragma once

#include <cfloat>
#include <cstdint>
#include <type_traits>

#include <sluice/operator/group.cuh>
#include <sluice/operator/update/floats.cuh>
#include <sluice/operator/update/work.h>

// The table of parameters of one launch, which is an argument of its kernel.
namespace sluice::detail {

inline constexpr int k_neighbours_updated = 4;
/// Elements of one parameter that a block updates: one vector a thread, so that small networks fill a GPU.
inline constexpr std::int64_t k_per_block = std::int64_t{k_group_block} * k_neighbours_updated;

/// What an entry has beside the rest.
template <class R>
struct EntryOf {};
template <>
struct EntryOf<GroupedRule> {
  std::int64_t columns;
  int width;  // threads a row
};

template <class R>
struct UpdateEntry : EntryOf<R> {
  void* weight;
  const void* grad;
  void* state[R::k_states == 0 ? 1 : R::k_states];
  float* master;
  std::int64_t size;
  double rates[R::k_rates];
  double decay;
  std::int32_t number;
  DType dtype;
  bool aligned;  // all of it in vectors
  bool plain;
};

/// As many parameters as the 4 KiB of arguments hold.
template <class R>
struct UpdateTable {
  static constexpr int k_room = 4096 - 128 - static_cast<int>(sizeof(R));
  static constexpr int k_entries = k_room / static_cast<int>(sizeof(UpdateEntry<R>) + sizeof(unsigned));

  UpdateEntry<R> entries[k_entries];
  unsigned first_block[k_entries];
  int count = 0;
  unsigned blocks = 0;
  double rescale = 1;
  double clip = -1;
  const double* numbers = nullptr;  // as of UpdateWork
  const double* guard = nullptr;
  std::int64_t parameters = 0;

  __device__ bool is_taken() const { return guard == nullptr || guard[2] != 0; }
  /// The last entry that begins at this block or before.
  __device__ int entry_of_block() const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first_block[middle] <= blockIdx.x)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
  /// `norm`, if not null: of the gradient, which is to be 1.
  template <class C>
  __device__ GradientForm<C> form(const double* norm = nullptr) const {
    const double given = numbers == nullptr ? rescale : numbers[parameters * R::k_rates];
    const double guarded = guard == nullptr ? given : given * guard[1];
    constexpr double k_most = std::is_same_v<C, double> ? DBL_MAX : FLT_MAX;
    return {static_cast<C>(norm == nullptr ? guarded : rescale_to_one(guarded, *norm, k_most)), static_cast<C>(clip)};
  }
  /// `ratios`, if not null: of each direction.
  template <class C>
  __device__ Rates<C> rates_of(const UpdateEntry<R>& entry, const double* ratios = nullptr) const {
    Rates<C> made;
    made.decay = static_cast<C>(entry.decay);
#pragma unroll
    for (int r = 0; r < R::k_rates; ++r) {
      const double rate = numbers == nullptr ? entry.rates[r] : numbers[entry.number * R::k_rates + r];
      made.at[r] = static_cast<C>(r == 0 && ratios != nullptr ? rate * ratios[0] : rate);
      if constexpr (directions_of<R>() > 1) {
        if (r == 0 && ratios != nullptr)
          made.second = static_cast<C>(rate * ratios[1]);
      }
    }
    return made;
  }
};

/// V neighbours of one parameter, and what belongs to each.
template <int V, class C, class R>
struct Updated {
  C weight[V], grad[V], state[R::k_states == 0 ? 1 : R::k_states][V];

  __device__ void load(const UpdateEntry<R>& entry, std::int64_t i) {
    load_floats(entry.dtype, entry.weight, i, weight);
    load_floats(entry.dtype, entry.grad, i, grad);
#pragma unroll
    for (int s = 0; s < R::k_states; ++s)
      load_of<C>(entry.state[s], i, state[s]);
    if constexpr (std::is_same_v<C, float>) {
      if (entry.master == nullptr)
        return;
      float master[V];
      load_of<float>(entry.master, i, master);
#pragma unroll
      for (int j = 0; j < V; ++j)  // unless somebody wrote the weight since
        weight[j] = rounded_as(entry.dtype, master[j]) == weight[j] ? master[j] : weight[j];
    }
  }
  __device__ void store_states(const UpdateEntry<R>& entry, std::int64_t i) const {
#pragma unroll
    for (int s = 0; s < written_states<R>(); ++s)
      store_of<C>(entry.state[s], i, state[s]);
  }
  __device__ void store(const UpdateEntry<R>& entry, std::int64_t i) const {
    store_floats(entry.dtype, entry.weight, i, weight);
    store_states(entry, i);
    if constexpr (std::is_same_v<C, float>) {
      if (entry.master != nullptr)
        store_of<float>(entry.master, i, weight);
    }
  }
  /// f(j, gradient, states) of each, which changes states.
  template <class F>
  __device__ void each(const F& f) {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      C own[k_most_states] = {};
#pragma unroll
      for (int s = 0; s < R::k_states; ++s)
        own[s] = state[s][j];
      f(j, grad[j], own);
#pragma unroll
      for (int s = 0; s < R::k_states; ++s)
        state[s][j] = own[s];
    }
  }
};

}  // namespace sluice::detail
