#include <algorithm>
#include <sstream>
#include <stdexcept>

#include <sluice/operator/fused/detail/program_text.h>
#include <sluice/operator/fused/formula.h>
#include <sluice/operator/fused/source.h>
#include <sluice/operator/reduce/calls.h>

namespace sluice::fused {

namespace {

using sluice::detail::ReduceWalk;

class Writer {
 public:
  Writer(const Program& program, const ReductionKernel& kernel)
      : program_(program), kernel_(kernel), text_(text_of_function(program)) {}

  KernelSource write() {
    out_ << "#include <sluice/operator/fused/detail/reduction_kernels.h>\n"
            "namespace sluice::fused {\n"
         << text_.function;
    write_types();
    write_fetched();
    write_terms();
    write_kernel("sluice_together", true);
    if (kernel_.vector > 1)
      write_kernel("sluice_apart", false);
    out_ << "}  // namespace sluice::fused\n";
    return {
        .text = out_.str(),
        .results = static_cast<int>(others()),
        .operands = static_cast<int>(others() + inputs()),
        .neighbours = kernel_.vector,
        .kernels = kernel_.vector > 1 ? std::vector<const char*>{"sluice_together", "sluice_apart"}
                                      : std::vector<const char*>{"sluice_together"}};
  }

 private:
  std::size_t inputs() const { return program_.inputs.size(); }
  std::size_t others() const { return program_.outputs.size() - 1; }
  DType type_of_result(std::size_t i) const { return type_of(program_, program_.outputs[i]); }

  // A bool is read as the byte that it is, as the reductions read it.
  void write_types() {
    const DType terms = type_of_result(0);
    out_ << "namespace {\n"
            "constexpr int K = "
         << inputs() << ", P = " << inputs() + others() << ", N = " << text_.kept() << ", V = " << kernel_.vector
         << ";\nusing Term = " << (terms == DType::bool_ ? "std::uint8_t" : cpp_name(terms))
         << ";\nusing State = decltype(detail::ReductionRow<Reduction::"
         << sluice::detail::operator_of(kernel_.row).name << ">::state<Term>(0, 0));\n";
  }

  // What a thread has of the inputs before it computes.
  void write_fetched() {
    out_ << "template <int U>\nstruct Fetched {\n  std::int32_t first;\n";
    for (std::size_t i = 0; i < inputs(); ++i)
      out_ << "  Neighbours<" << cpp_name(program_.inputs[i]) << ", U> a" << i << ";\n";
    out_ << "};\n";
  }

  // Vectors of all inputs that a thread holds before it takes the first: four, as of an array, but not so many that
  // they leave no registers.
  int under_way() const {
    constexpr std::size_t k_most_bytes = 192;
    std::size_t bytes = 0;
    for (const DType input : program_.inputs)
      bytes += size_of(input) * static_cast<std::size_t>(kernel_.vector);
    int vectors = 4;
    while (vectors > 1 && bytes * static_cast<std::size_t>(vectors) > k_most_bytes)
      vectors /= 2;
    return vectors;
  }

  void write_terms() {
    out_ << "template <bool together>\n"
            "struct Terms : Operands<K, P, N> {\n"
            "  static constexpr int k_under_way = "
         << under_way()
         << ";\n"
            "  __device__ Terms behind(std::int64_t elements) const { return {Operands::behind(elements)}; }\n"
            "  template <int U, class Index>\n"
            "  __device__ Fetched<U> fetch(Index place) const {\n"
            "    Fetched<U> from;\n"
            "    from.first = first + static_cast<std::int32_t>(place);\n"
            "    std::int32_t of[K];\n"
            "    if constexpr (together || U == 1) {\n"
            "      at.offsets(from.first, of);\n";
    for (std::size_t i = 0; i < inputs(); ++i)
      out_ << "      from.a" << i << " = read_vector<U, " << cpp_name(program_.inputs[i]) << ">(data.at["
           << others() + i << "], of[" << i << "], (at.repeated >> " << i << " & 1) != 0);\n";
    out_ << "    } else {\n"
            "#pragma unroll\n"
            "      for (int j = 0; j < U; ++j) {\n"
            "        at.offsets(from.first + j, of);\n";
    for (std::size_t i = 0; i < inputs(); ++i)
      out_ << "        from.a" << i << ".at[j] = static_cast<const " << cpp_name(program_.inputs[i]) << "*>(data.at["
           << others() + i << "])[of[" << i << "]];\n";
    out_ << "      }\n    }\n    return from;\n  }\n";
    write_made();
    out_ << "};\n}\n";
  }

  // What the reduction is told of a term says nothing of where it is from, as of what lies in memory; see kernels.h.
  std::string term() const {
    if (may_be_fused(program_, program_.outputs[0]))
      return message("n.sealed(read<", text_.uses, ">(r0))");
    const DType dtype = type_of_result(0);
    const bool is_wide = dtype == DType::float32 || dtype == DType::float64;
    return is_wide ? message("read<", text_.uses, ">(r0)") : "static_cast<Term>(r0)";
  }

  void write_made() {
    out_ << "  template <int U>\n"
            "  __device__ Neighbours<Term, U> made(const Fetched<U>& from) const {\n"
            "    Neighbours<Term, U> terms;\n";
    for (std::size_t i = 1; i <= others(); ++i)
      out_ << "    Neighbours<" << cpp_name(type_of_result(i)) << ", U> r" << i << ";\n";
    out_ << "#pragma unroll\n"
            "    for (int j = 0; j < U; ++j) {\n"
            "      "
         << cpp_name(type_of_result(0)) << " r0;\n      run(n";
    for (std::size_t i = 0; i < inputs(); ++i)
      out_ << ", from.a" << i << ".at[j]";
    out_ << ", r0";
    for (std::size_t i = 1; i <= others(); ++i)
      out_ << ", r" << i << ".at[j]";
    out_ << ");\n      terms.at[j] = " << term() << ";\n    }\n";
    for (std::size_t i = 1; i <= others(); ++i)
      out_ << "    write_neighbours<together>(data.at[" << i - 1 << "], from.first, r" << i << ");\n";
    out_ << "    return terms;\n  }\n";
  }

  void write_kernel(const char* name, bool together) {
    struct Walk {
      const char *parameters, *arguments;
    };
    static constexpr Walk k_rows = {"std::int64_t pitch, std::int64_t units, int width", "pitch, units, width"},
                          k_columns = {"detail::ColumnShape shape, std::int64_t units", "shape, units"},
                          k_general = {
                              "detail::Geometry<2, std::int32_t> kept, detail::Geometry<1, std::int32_t> reduced, "
                              "std::int64_t units, int width",
                              "kept, reduced, units, width"};
    const bool is_rows = kernel_.walk == ReduceWalk::rows, is_columns = kernel_.walk == ReduceWalk::columns;
    const Walk& walk = is_rows ? k_rows : is_columns ? k_columns : k_general;
    out_ << "extern \"C\" __global__ void __launch_bounds__(256)\n"
         << name << "(State op, " << walk.parameters
         << ", detail::ReduceTarget<State> to, Layout<K> at, Pointers<P> data, Numbers<N> n) {\n"
            "  detail::start_early();\n"
            "  const Terms<"
         << (together ? "true" : "false")
         << "> x{{at, data, n, 0}};\n"
            "  detail::reduce_"
         << (is_rows      ? "rows"
             : is_columns ? "columns"
                          : "general")
         << "<V>(op, x, " << walk.arguments << ", to);\n}\n";
  }

  const Program& program_;
  const ReductionKernel& kernel_;
  const ProgramText text_;
  std::ostringstream out_;
};

}  // namespace

KernelSource source_of(const Program& program, const ReductionKernel& kernel) {
  if (kernel.walk == ReduceWalk::nothing)
    throw std::invalid_argument("fused: a reduction of nothing has no kernel");
  return Writer(program, kernel).write();
}

}  // namespace sluice::fused
