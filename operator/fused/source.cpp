#include <algorithm>
#include <sstream>

#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/fused/formula.h>
#include <sluice/operator/fused/source.h>

namespace sluice::fused {

namespace {

/// What elements of a type are computed with in.
std::string_view compute_name(DType dtype) {
  return by_dtype(dtype, []<class T>() { return cpp_name(dtype_of<sluice::detail::Compute<T>>); });
}

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {
    for (const Number output : program.outputs)
      types_.push_back(type_of(program, output));
    types_.insert(types_.end(), program.inputs.begin(), program.inputs.end());
  }

  Source write() {
    choose_widths();
    write_program();
    out_ << "namespace {\nconstexpr int K = " << types_.size() << ", N = " << std::max(numbers_, 1) << ";\n}\n";
    write_kernel("sluice_flat", true);
    write_kernel("sluice_vectors", false);
    write_streams();
    const std::string head = message(
        "#include <sluice/operator/fused/detail/kernels.h>\n"
        "namespace sluice::fused {\n"
        "__device__ inline void run(const Numbers<",
        std::max(numbers_, 1),
        ">& n");
    source_.text = head + out_.str() + "}  // namespace sluice::fused\n";
    source_.results = static_cast<int>(outputs());
    source_.operands = static_cast<int>(types_.size());
    return source_;
  }

 private:
  std::size_t outputs() const { return program_.outputs.size(); }

  // 16 bytes of the widest operand, as in kernels of single operators; less where the code would become long, and then
  // arithmetic takes the time, not memory.
  void choose_widths() {
    std::size_t widest = 1;
    for (const DType type : types_)
      widest = std::max(widest, size_of(type));
    const int fit = static_cast<int>(std::min<std::size_t>(16 / widest, 8));
    const int calls = static_cast<int>(program_.calls.size());
    source_.neighbours = calls <= 16 ? fit : std::min(fit, 4);
    source_.several = std::min(source_.neighbours, 4);
  }

  // The rest of the parameters of `run`, and its body.
  void write_program() {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i)
      out_ << ", " << cpp_name(program_.inputs[i]) << " v" << i;
    for (std::size_t i = 0; i < outputs(); ++i)
      out_ << ", " << cpp_name(types_[i]) << "& r" << i;
    out_ << ") {\n";
    std::size_t value = program_.inputs.size();
    for (const Call& call : program_.calls)
      write_call(call, value++);
    for (std::size_t i = 0; i < outputs(); ++i)
      out_ << "  r" << i << " = v" << program_.outputs[i] << ";\n";
    out_ << "}\n";
  }

  // Only where a product of one call may meet a sum of another.
  bool is_sealed(const Formula& formula, const Term& term) const {
    const bool is_result = term.value >= program_.inputs.size();
    const bool is_fused = term.dtype == DType::float32 || term.dtype == DType::float64;
    return formula.begins && is_result && is_fused && !rounds_[term.value - program_.inputs.size()];
  }

  void write_call(const Call& call, std::size_t value) {
    const Formula formula = formula_of(program_, call);
    rounds_.push_back(formula.rounds);
    const std::string_view type = cpp_name(call.dtype);
    out_ << "  const " << type << " v" << value << " = static_cast<" << type << ">(" << formula.function << "(";
    const bool moves = formula.function.starts_with("detail::convert");
    for (std::size_t i = 0; i < formula.terms.size(); ++i) {
      const Term& term = formula.terms[i];
      out_ << (i == 0 ? "" : ", ");
      if (term.is_number)
        out_ << "n.as<" << uses_++ << ", " << compute_name(term.dtype) << ">(" << numbers_++ << ")";
      else if (moves)
        out_ << "v" << term.value;
      else if (is_sealed(formula, term))
        out_ << "n.sealed(read<" << uses_++ << ">(v" << term.value << "))";
      else
        out_ << "read<" << uses_++ << ">(v" << term.value << ")";
    }
    out_ << "));  // " << call.op->name << "\n";
  }

  void write_head(const char* name) {
    out_ << "extern \"C\" __global__ void __launch_bounds__(256)\n"
         << name << "(Layout<K> at, Pointers<K> data, Numbers<N> n) {\n"
         << "  start_early();\n"
         << "  for (std::int32_t i = first_index(); i < at.size; i += index_step()) {\n";
  }

  void write_call_of_program(int width) {
    for (std::size_t i = 0; i < outputs(); ++i)
      out_ << "    Neighbours<" << cpp_name(types_[i]) << ", " << width << "> r" << i << ";\n";
    out_ << "#pragma unroll\n    for (int j = 0; j < " << width << "; ++j)\n      run(n";
    for (std::size_t i = 0; i < program_.inputs.size(); ++i)
      out_ << ", a" << i << ".at[j]";
    for (std::size_t i = 0; i < outputs(); ++i)
      out_ << ", r" << i << ".at[j]";
    out_ << ");\n";
  }

  void write_kernel(const char* name, bool flat) {
    write_head(name);
    if (!flat)
      out_ << "    std::int32_t of[K];\n    at.offsets(i, of);\n";
    const auto place = [&](std::size_t k) {
      return flat ? message("i * at.strides[", k, "][0]") : message("of[", k, "]");
    };
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const std::size_t k = outputs() + i;
      out_ << "    const auto a" << i << " = read_vector<" << source_.neighbours << ", " << cpp_name(types_[k])
           << ">(data.at[" << k << "], " << place(k) << ", (at.repeated >> " << k << " & 1) != 0);\n";
    }
    write_call_of_program(source_.neighbours);
    for (std::size_t i = 0; i < outputs(); ++i)
      out_ << "    write_vector(data.at[" << i << "], " << place(i) << ", r" << i << ");\n";
    out_ << "  }\n}\n";
  }

  void write_streams() {
    write_head("sluice_streams");
    out_ << "    std::int32_t of[K];\n    at.offsets(i, of);\n"
            "    const int count = i + (at.streams - 1) * at.size < at.total ? at.streams : at.streams - 1;\n";
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const std::size_t k = outputs() + i;
      out_ << "    const auto a" << i << " = read_several<" << source_.several << ", " << cpp_name(types_[k])
           << ">(data.at[" << k << "], of[" << k << "], at.next[" << k << "], count);\n";
    }
    write_call_of_program(source_.several);
    for (std::size_t i = 0; i < outputs(); ++i)
      out_ << "    write_several(data.at[" << i << "], of[" << i << "], at.next[" << i << "], count, r" << i << ");\n";
    out_ << "  }\n}\n";
  }

  const Program& program_;
  std::vector<DType> types_;  // of the operands of the kernels
  std::ostringstream out_;
  Source source_;
  std::vector<bool> rounds_;  // of calls
  int numbers_ = 0, uses_ = 0;
};

}  // namespace

Source source_of(const Program& program) {
  return Writer(program).write();
}

std::vector<std::uint64_t> numbers_of(const Program& program) {
  std::vector<std::uint64_t> numbers;
  for (const Call& call : program.calls) {
    for (const Term& term : formula_of(program, call).terms) {
      if (term.is_number)
        numbers.push_back(sluice::detail::constant_bits(term.number, term.dtype));
    }
  }
  return numbers;
}

}  // namespace sluice::fused
