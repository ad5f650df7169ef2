#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/operator/elementwise/pointwise.h>
#include <sluice/operator/fused/program.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/operator.h>

// A program as the CPU runs it: loops over short neighbours, and where their operands are.
namespace sluice::fused {

/// The type that a call of operands of these types gives; none where a program cannot hold it. Throws what inference
/// throws.
std::optional<DType> type_of_call(const Operator& op, std::span<const DType> operands, const Attributes& attributes);

/// One call. It reads and writes slots: values by their numbers, and behind them numbers that stand in calls.
struct Step {
  sluice::detail::PointwiseLoop loop = nullptr;  // null: a cast
  sluice::detail::CpuCast cast = nullptr;        // null: of the same register type
  boost::container::small_vector<std::uint16_t, 5> operands = {};
  Number result = 0;
};

/// A number that stands in a call.
struct Constant {
  DType dtype = DType::float32;
  std::uint64_t bits = 0;  // in its compute type
};

/// Values lie in registers in their compute types: halves as floats, rounded after each call.
struct Schedule {
  std::vector<DType> types = {};  // by value
  std::vector<Step> steps = {};
  std::vector<Constant> constants = {};
  std::vector<int> last_reader = {};            // by value: the last step that reads it, -1 if none does
  std::vector<std::uint16_t> register_of = {};  // by value; of inputs without meaning
  std::vector<std::size_t> registers = {};      // bytes an element
  std::size_t bytes = 0;                        // an element of all that a run touches
};

constexpr DType register_type(DType dtype) noexcept {
  return sluice::detail::is_half(dtype) ? DType::float32 : dtype;
}

Schedule schedule_of(const Program& program);

/// A program that is known by its text, to the end of the process.
struct Interned {
  std::string text;
  Program program;
  Schedule schedule;
  const Interned* next = nullptr;  // of the same bucket
};

/// The one of that text. Takes no lock. Throws what parse() throws.
const Interned& interned(std::string_view text);
/// The same from attributes, which mostly know it.
const Interned& interned(const Attributes& attributes);
/// The same from those of `fused_reduction`.
const Interned& interned_reduced(const Attributes& attributes);

}  // namespace sluice::fused
