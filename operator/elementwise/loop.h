#pragma once

// The CPU side of elementwise operators: every formula becomes one plain loop over neighbours of its compute type.
// run_loop() brings operands into that form: strided, broadcast, constant and half-precision ones go through small
// buffers that stay in the nearest cache. So a row costs one loop a type, whatever its operands look like.
#include <cstddef>
#include <utility>

#include <sluice/operator/elementwise/math.h>
#include <sluice/operator/elementwise/pointwise.h>

namespace sluice::detail {

/// Runs `loop` over all elements, on the calling thread and idle workers. `grain`: least elements a thread.
template <int K>
void run_loop(const PointwiseArgs<K>& args, PointwiseLoop loop, std::int64_t grain);

extern template void run_loop<2>(const PointwiseArgs<2>&, PointwiseLoop, std::int64_t);
extern template void run_loop<3>(const PointwiseArgs<3>&, PointwiseLoop, std::int64_t);
extern template void run_loop<4>(const PointwiseArgs<4>&, PointwiseLoop, std::int64_t);
extern template void run_loop<5>(const PointwiseArgs<5>&, PointwiseLoop, std::int64_t);
extern template void run_loop<6>(const PointwiseArgs<6>&, PointwiseLoop, std::int64_t);

/// The loop of formula F with operand types In.
template <class F, class Out, class... In>
struct Loop {
  static void run(void* out, const void* const* in, std::int64_t n, bool) {
    over(out, in, n, std::index_sequence_for<In...>{});
  }

 private:
  template <std::size_t... I>
  static void over(void* out, const void* const* in, std::int64_t n, std::index_sequence<I...>) {
    each(static_cast<Out*>(out), n, static_cast<const In*>(in[I])...);
  }
  // Writing over an input of the same geometry is the only overlap there is, so iterations are independent.
  static void each(Out* out, std::int64_t n, const In*... in) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = static_cast<Out>(F::of(in[i]...));
  }
};

/// The loop of formula F with N operands of type T.
template <class F, class Out, class T, std::size_t... I>
constexpr PointwiseLoop loop_of_each(std::index_sequence<I...>) {
  return &Loop<F, Out, Each<T, I>...>::run;
}

}  // namespace sluice::detail
