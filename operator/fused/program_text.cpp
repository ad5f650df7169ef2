#include <sstream>
#include <vector>

#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/fused/detail/program_text.h>
#include <sluice/operator/fused/formula.h>

namespace sluice::fused {

namespace {

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {}

  ProgramText write() {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i)
      out_ << ", " << cpp_name(program_.inputs[i]) << " v" << i;
    for (std::size_t i = 0; i < program_.outputs.size(); ++i)
      out_ << ", " << cpp_name(type_of(program_, program_.outputs[i])) << "& r" << i;
    out_ << ") {\n";
    std::size_t value = program_.inputs.size();
    for (const Call& call : program_.calls)
      write_call(call, value++);
    for (std::size_t i = 0; i < program_.outputs.size(); ++i)
      out_ << "  r" << i << " = v" << program_.outputs[i] << ";\n";
    out_ << "}\n";
    text_.function =
        message("__device__ inline void run([[maybe_unused]] const Numbers<", text_.kept(), ">& n") + out_.str();
    return text_;
  }

 private:
  void write_call(const Call& call, std::size_t value) {
    const Formula formula = formula_of(program_, call);
    const std::string_view type = cpp_name(call.dtype);
    out_ << "  const " << type << " v" << value << " = static_cast<" << type << ">(" << formula.function << "(";
    const bool moves = formula.function.starts_with("detail::convert");
    for (std::size_t i = 0; i < formula.terms.size(); ++i) {
      const Term& term = formula.terms[i];
      out_ << (i == 0 ? "" : ", ");
      if (term.is_number)
        out_ << "n.as<" << text_.uses++ << ", " << compute_name(term.dtype) << ">(" << text_.numbers++ << ")";
      else if (moves)
        out_ << "v" << term.value;
      else if (formula.begins && may_be_fused(program_, term.value))
        out_ << "n.sealed(read<" << text_.uses++ << ">(v" << term.value << "))";
      else
        out_ << "read<" << text_.uses++ << ">(v" << term.value << ")";
    }
    out_ << "));  // " << call.op->name << "\n";
  }

  const Program& program_;
  std::ostringstream out_;
  ProgramText text_;
};

}  // namespace

ProgramText text_of_function(const Program& program) {
  return Writer(program).write();
}

std::string_view compute_name(DType dtype) {
  return by_dtype(dtype, []<class T>() { return cpp_name(dtype_of<sluice::detail::Compute<T>>); });
}

bool may_be_fused(const Program& program, Number value) {
  const std::size_t inputs = program.inputs.size();
  const DType dtype = type_of(program, value);
  const bool is_wide = dtype == DType::float32 || dtype == DType::float64;  // halves are rounded in between
  return value >= inputs && is_wide && !formula_of(program, program.calls[value - inputs]).rounds;
}

}  // namespace sluice::fused
