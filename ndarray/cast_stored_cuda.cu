// Casts from and to stored types. One kernel for all: a switch that is the same for every thread costs less than
// kernels for every pair of types are large.
#include <sluice/ndarray/detail/cast_kernels.cuh>
#include <sluice/ndarray/detail/stored_numbers.h>
#include <sluice/ndarray/early_start.cuh>

namespace sluice::detail {
namespace {

/// A number on its way: whole, or real where either side is floating and int64 does not do.
struct Number {
  std::int64_t whole;
  double real;
};

struct CastTypes {
  DType to, from;
  bool from_floating, rounds_twice;  // rounds_twice: uint64 by way of a double to fewer bits
};

__device__ Number load_number(const void* data, CastTypes types, std::int64_t i) {
  switch (types.from) {
    case DType::int8:
      return {static_cast<const std::int8_t*>(data)[i], 0};
    case DType::int16:
      return {static_cast<const std::int16_t*>(data)[i], 0};
    case DType::uint16:
      return {static_cast<const std::uint16_t*>(data)[i], 0};
    case DType::int32:
      return {static_cast<const std::int32_t*>(data)[i], 0};
    case DType::uint32:
      return {static_cast<const std::uint32_t*>(data)[i], 0};
    case DType::int64:
      return {static_cast<const std::int64_t*>(data)[i], 0};
    case DType::uint64: {
      const std::uint64_t bits = static_cast<const std::uint64_t*>(data)[i];
      return {static_cast<std::int64_t>(bits), types.rounds_twice ? double_with_rest(bits) : static_cast<double>(bits)};
    }
    case DType::float16:
      return {0, convert<double>(static_cast<const Half*>(data)[i])};
    case DType::bfloat16:
      return {0, convert<double>(static_cast<const BFloat16*>(data)[i])};
    case DType::float32:
      return {0, static_cast<const float*>(data)[i]};
    case DType::float64:
      return {0, static_cast<const double*>(data)[i]};
    default:  // bool too, whose bytes are 0 and 1
      return {static_cast<const std::uint8_t*>(data)[i], 0};
  }
}

template <class T>
__device__ void store_floating(void* data, CastTypes types, std::int64_t i, Number number) {
  static_cast<T*>(data)[i] = types.from == DType::uint64 ? convert<T>(number.real) : convert<T>(number.whole);
}

__device__ void store_number(void* data, CastTypes types, std::int64_t i, Number number) {
  std::int64_t whole = number.whole;
  if (types.from_floating)
    whole = types.to == DType::uint64 ? static_cast<std::int64_t>(convert<std::uint64_t>(number.real))
                                      : static_cast<std::int64_t>(number.real);
  switch (types.to) {
    case DType::bool_:
      static_cast<std::uint8_t*>(data)[i] = whole != 0 ? 1 : 0;
      break;
    case DType::uint8:
    case DType::int8:
      static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(whole);
      break;
    case DType::int16:
    case DType::uint16:
      static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(whole);
      break;
    case DType::int32:
    case DType::uint32:
      static_cast<std::uint32_t*>(data)[i] = static_cast<std::uint32_t>(whole);
      break;
    case DType::float16:
      store_floating<Half>(data, types, i, number);
      break;
    case DType::bfloat16:
      store_floating<BFloat16>(data, types, i, number);
      break;
    case DType::float32:
      store_floating<float>(data, types, i, number);
      break;
    case DType::float64:
      store_floating<double>(data, types, i, number);
      break;
    default:
      static_cast<std::int64_t*>(data)[i] = whole;
  }
}

template <class G>
__global__ void cast_stored(G at, void* to, const void* from, CastTypes types) {
  start_early();
  for (auto i = first_index(at); i < at.size; i += index_step(at)) {
    const auto offset = at.offsets(i);
    store_number(to, types, offset[0], load_number(from, types, offset[1]));
  }
}

}  // namespace

void cast_stored_on_gpu(
    void* stream, const CopyPlan& plan, void* to, DType to_type, const void* from, DType from_type) {
  const auto on = static_cast<cudaStream_t>(stream);
  const bool real = meets_floating(to_type, from_type);
  const CastTypes types{to_type, from_type, is_floating(from_type), real && to_type != DType::float64};
  with_geometry(plan, [&](auto at) {
    cast_stored<<<blocks_for(plan.size), k_block, 0, on>>>(at, to, from, types);
    check_early_launch("cast_stored", on);
  });
}

}  // namespace sluice::detail
