#pragma once

// Launches of the special rows for what is computed with, C. One kernel a formula: operands may be stored as any type
// that becomes C, and lie as they like, so each thread takes an element at a time. The functions are long enough to
// keep it busy, or seldom called.
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>

#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/pieces.h>

namespace sluice::detail {

/// An operand: where its elements are, or a number in their place.
template <class C>
struct AnyOperand {
  void* data = nullptr;
  DType dtype = DType::float32;
  C constant{};

  __device__ C at(std::int32_t offset) const {
    if (data == nullptr)
      return constant;
    if constexpr (std::is_same_v<C, float>) {
      if (dtype == DType::float16)
        return static_cast<float>(static_cast<const Half*>(data)[offset]);
      if (dtype == DType::bfloat16)
        return static_cast<float>(static_cast<const BFloat16*>(data)[offset]);
    }
    return static_cast<const C*>(data)[offset];
  }
  __device__ void put(std::int32_t offset, C value) const {
    if constexpr (std::is_same_v<C, float>) {
      if (dtype == DType::float16) {
        static_cast<Half*>(data)[offset] = Half(value);
        return;
      }
      if (dtype == DType::bfloat16) {
        static_cast<BFloat16*>(data)[offset] = BFloat16(value);
        return;
      }
    }
    static_cast<C*>(data)[offset] = value;
  }
};

template <class C, int K>
struct AnyOperands {
  AnyOperand<C> of[K];
};

template <class F, class C, int K, std::size_t... I>
__device__ void apply_special(
    const Geometry<K, std::int32_t>& at, const AnyOperands<C, K>& all, std::int32_t i, std::index_sequence<I...>) {
  const auto offsets = at.offsets(i);
  all.of[0].put(offsets[0], static_cast<C>(F::of(all.of[I + 1].at(offsets[static_cast<int>(I) + 1])...)));
}

template <class F, class C, int K>
__global__ void __launch_bounds__(k_block) special_kernel(Geometry<K, std::int32_t> at, AnyOperands<C, K> all) {
  for (std::int32_t i = first_index(at); i < at.size; i += index_step(at))
    apply_special<F>(at, all, i, std::make_index_sequence<static_cast<std::size_t>(K) - 1>());
}

/// Of formula F with K operands, the result among them.
template <class F, class C, int K>
struct SpecialKernel {
  static void launch(const PointwiseArgs<K>& args, void* stream) {
    launch_in_pieces<K>(args, 1, &launch_piece, stream);
  }

 private:
  static void launch_piece(const PointwiseArgs<K>& args, void* stream) {
    AnyOperands<C, K> all;
    for (int k = 0; k < K; ++k) {
      all.of[k] = {args.data[k], args.dtypes[k], C{}};
      if (args.is_constant[k])
        all.of[k] = {nullptr, args.dtypes[k], args.template constant<C>(k)};
    }
    const Geometry<K, std::int32_t> at(args.plan);
    special_kernel<F, C, K><<<blocks_for(at.size), k_block, 0, static_cast<cudaStream_t>(stream)>>>(at, all);
    check_launch("special elementwise kernel");
  }
};

// Tables as those of unary_cuda.cuh and binary_cuda.cuh, of the special rows alone.
template <class Row, class F, Uses uses, class C, int K>
constexpr PointwiseLaunch<K> special_launch_of() {
  if constexpr (Row::kind != RowKind::special || uses == nothing_) {
    return nullptr;
  } else {
    return &SpecialKernel<F, C, K>::launch;
  }
}
template <Unary row, class C, int P>
constexpr PointwiseLaunch<2 + P> special_value_of() {
  using Row = math::UnaryRow<row>;
  return special_launch_of < Row, typename Row::Value, Row::parameters == P ? x_ : nothing_, C, 2 + P > ();
}
template <Unary row, class C, int P>
constexpr PointwiseLaunch<4 + P> special_gradient_of() {
  using Row = math::UnaryRow<row>;
  return special_launch_of < Row, typename Row::Gradient, Row::parameters == P ? Row::uses : nothing_, C, 4 + P > ();
}
template <Binary row, class C, int operand>
constexpr PointwiseLaunch<5> special_gradient_of() {
  using Row = math::BinaryRow<row>;
  using Gradient = std::conditional_t<operand == 0, typename Row::GradientA, typename Row::GradientB>;
  return special_launch_of < Row, Gradient, operand == 0 ? Row::uses_a : Row::uses_b, C, 5 > ();
}

template <class C, int P>
PointwiseLaunch<2 + P> special_launch_for(Unary row) {
  static constexpr PointwiseLaunch<2 + P> k_launches[] = {
#define UNARY(name, ...) special_value_of<Unary::name, C, P>(),
#include <sluice/operator/elementwise/unary.def>
  };
  return k_launches[static_cast<std::size_t>(row)];
}
template <class C, int P>
PointwiseLaunch<4 + P> special_backward_launch_for(Unary row) {
  static constexpr PointwiseLaunch<4 + P> k_launches[] = {
#define UNARY(name, ...) special_gradient_of<Unary::name, C, P>(),
#include <sluice/operator/elementwise/unary.def>
  };
  return k_launches[static_cast<std::size_t>(row)];
}
template <class C>
PointwiseLaunch<3> special_launch_for(Binary row) {
  static constexpr PointwiseLaunch<3> k_launches[] = {
#define BINARY(name, ...) \
  special_launch_of<math::BinaryRow<Binary::name>, math::BinaryRow<Binary::name>::Value, a_, C, 3>(),
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
  };
  return k_launches[static_cast<std::size_t>(row)];
}
template <class C, int operand>
PointwiseLaunch<5> special_backward_launch_for(Binary row) {
  static constexpr PointwiseLaunch<5> k_launches[] = {
#define BINARY(name, ...) special_gradient_of<Binary::name, C, operand>(),
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
  };
  return k_launches[static_cast<std::size_t>(row)];
}

}  // namespace sluice::detail

/// In namespace sluice::detail: the tables of what is computed with in type C.
#define SLUICE_SPECIAL_LAUNCHES(C)                                       \
  template PointwiseLaunch<2> special_launch_for<C, 0>(Unary);           \
  template PointwiseLaunch<3> special_launch_for<C, 1>(Unary);           \
  template PointwiseLaunch<4> special_launch_for<C, 2>(Unary);           \
  template PointwiseLaunch<4> special_backward_launch_for<C, 0>(Unary);  \
  template PointwiseLaunch<5> special_backward_launch_for<C, 1>(Unary);  \
  template PointwiseLaunch<6> special_backward_launch_for<C, 2>(Unary);  \
  template PointwiseLaunch<3> special_launch_for<C>(Binary);             \
  template PointwiseLaunch<5> special_backward_launch_for<C, 0>(Binary); \
  template PointwiseLaunch<5> special_backward_launch_for<C, 1>(Binary);
