#include <algorithm>
#include <sstream>

#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/fused/detail/program_text.h>
#include <sluice/operator/fused/formula.h>
#include <sluice/operator/fused/source.h>

namespace sluice::fused {

namespace {

class Writer {
 public:
  explicit Writer(const Program& program) : program_(program) {
    for (const Number output : program.outputs)
      types_.push_back(type_of(program, output));
    types_.insert(types_.end(), program.inputs.begin(), program.inputs.end());
  }

  KernelSource write() {
    choose_widths();
    const ProgramText program = text_of_function(program_);
    out_ << "#include <sluice/operator/fused/detail/kernels.h>\n"
            "namespace sluice::fused {\n"
         << program.function << "namespace {\nconstexpr int K = " << types_.size() << ", N = " << program.kept()
         << ";\n}\n";
    write_kernel("sluice_flat", true);
    write_kernel("sluice_vectors", false);
    write_streams();
    out_ << "}  // namespace sluice::fused\n";
    source_.text = out_.str();
    source_.kernels = {"sluice_flat", "sluice_vectors", "sluice_streams"};
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

  void write_head(const char* name) {
    out_ << "extern \"C\" __global__ void __launch_bounds__(256)\n"
         << name << "(Layout<K> at, Pointers<K> data, Numbers<N> n) {\n"
         << "  detail::start_early();\n"
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
  KernelSource source_;
};

}  // namespace

KernelSource source_of(const Program& program) {
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
