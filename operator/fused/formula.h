#pragma once

#include <string>
#include <string_view>

#include <boost/container/small_vector.hpp>

#include <sluice/ndarray/scalar.h>
#include <sluice/operator/fused/program.h>

// What the calls of a program compute, as the rows of unary.def and binary.def say it: for kernels in which they stand
// one behind the other.
namespace sluice::fused {

/// What a formula reads: a value of the program, or a number beside arrays.
struct Term {
  bool is_number = false;
  Number value = 0;
  Scalar number = 0;             // as a kernel of the operator alone takes it
  DType dtype = DType::float32;  // of the value; the number is computed with in that type too
};

/// One call as C++ in namespace sluice: `function`(terms...), its result turned into the type of the call.
struct Formula {
  std::string function = {};
  boost::container::small_vector<Term, 4> terms = {};
  bool rounds = false;  // result and operands are no part of what a compiler may fuse with other calls
  bool begins = true;   // an operand may be a term of a sum, as far as is known
};

/// Whether operator `op` has a formula: rows of unary.def and binary.def, their gradients, where, casts and copies.
bool has_formula(const Operator& op);
/// Throws UnsupportedError where the operator has none.
Formula formula_of(const Program& program, const Call& call);

/// Of each value, inputs first.
DType type_of(const Program& program, Number value);
/// "float", "std::int32_t", "Half", ..: the type's elements as C++ in namespace sluice.
std::string_view cpp_name(DType dtype) noexcept;

}  // namespace sluice::fused
