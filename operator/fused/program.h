#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/container/small_vector.hpp>

#include <sluice/engine/export.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/operator/attributes.h>

// Elementwise calls that one kernel runs, one after the other on each element.
namespace sluice::fused {

/// Which value of a program: its inputs come first, then one a call.
using Number = std::uint16_t;

/// One call of an elementwise operator with one result.
struct Call {
  const Operator* op = nullptr;
  Attributes attributes = {};
  boost::container::small_vector<Number, 4> operands = {};
  DType dtype = DType::float32;  // of the result
};

/// A straight-line program over arrays of one shape, to which inputs may have to be stretched. Each call gives, to the
/// last bit, what it gives alone.
struct Program {
  std::vector<DType> inputs = {};
  std::vector<Call> calls = {};
  std::vector<Number> outputs = {};
};

/// "float32 float32; %2 = add(%0, %1) float32; %3 = clip(%2) {low=0, high=6} float32; -> %3"
SLUICE_API std::string to_text(const Program& program);
/// Reads what to_text() writes. Throws ValueError naming the place, also where a call is of an operator that is not
/// elementwise, or gives another type.
SLUICE_API Program parse(std::string_view text);

struct Interned;

/// The attribute of the operator `fused`: its program as text.
struct FusedAttributes {
  std::string program = {};
  const Interned* known = nullptr;  // the same, read; null: not looked up yet

  template <class V>
  void visit(V&& v) {
    v.field("program", program);
  }
};

/// Programs are read once, and kept to the end of the process. Throws what parse() throws.
SLUICE_API const Program& program_of(const Attributes& attributes);
SLUICE_API Attributes attributes_of(const Program& program);

}  // namespace sluice::fused
