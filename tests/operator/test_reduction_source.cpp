// Reductions of programs as CUDA source, compiled by NVRTC where there is one: no GPU is needed.
#include <stdexcept>
#include <vector>

#include <sluice/operator/fused/source.h>
#include <sluice/operator/reduce/calls.h>
#ifdef SLUICE_CUDA
#include <sluice/operator/fused/compiled.h>
#include <sluice/operator/library/nvrtc.h>
#endif

#include "tests/operator/reduced_programs.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using fused::ReductionKernel;
using sluice::detail::ReduceWalk;

namespace {

/// x * y, or gelu(x), and x + y beside it.
fused::Program with_another(DType dtype, const char* last) {
  ProgramBuilder build;
  const auto x = build.input(dtype), y = build.input(dtype);
  const bool is_product = std::string(last) == "multiply";
  const auto made = build.call(last, is_product ? std::vector<fused::Number>{x, y} : std::vector<fused::Number>{x});
  const auto other = build.call("add", {x, y});
  return build.with_outputs({made, other});
}

std::string text_of(const fused::Program& program, const ReductionKernel& kernel) {
  return fused::source_of(program, kernel).text;
}

#ifdef SLUICE_CUDA
constexpr int k_target = 90;

std::size_t compiled_size(const fused::Program& program, const ReductionKernel& kernel) {
  return fused::code_of(fused::source_of(program, kernel), k_target, fused::KeptCode("")).size();
}
#endif

}  // namespace

TEST_CASE("A product that ends a program is sealed off from the sum behind it", "[fused][reduction]") {
  const ReductionKernel rows{Reduction::sum, ReduceWalk::rows, 4};
  for (const DType dtype : {float32, float64})
    CHECK_THAT(text_of(with_another(dtype, "gelu"), rows), contains("terms.at[j] = n.sealed(read<3>(r0));"));
  // What is rounded by itself cannot be fused, but may be known to be equal to something else.
  CHECK_THAT(text_of(with_another(float32, "multiply"), rows), contains("terms.at[j] = read<4>(r0);"));
  CHECK_THAT(text_of(with_another(float16, "gelu"), rows), contains("terms.at[j] = static_cast<Term>(r0);"));
}

TEST_CASE("The kernel of a reduction is that of its form, of the state of its row", "[fused][reduction]") {
  const fused::Program program = product_for(Reduction::max, bool_);
  const std::string text = text_of(program, {Reduction::max, ReduceWalk::columns, 1});
  CHECK_THAT(text, contains("detail::reduce_columns<V>(op, x, shape, units, to)"));
  CHECK_THAT(text, contains("using Term = std::uint8_t;"));
  CHECK_THAT(text, contains("ReductionRow<Reduction::max>::state<Term>"));
  CHECK(text.find("sluice_apart") == std::string::npos);
  CHECK_THAT(text_of(program, {Reduction::max, ReduceWalk::general, 16}), contains("sluice_apart"));
  CHECK_THROWS_AS(text_of(program, {Reduction::max, ReduceWalk::nothing, 1}), std::invalid_argument);
}

TEST_CASE("Results beside the terms are operands of the kernel, the terms are not", "[fused][reduction]") {
  const ReductionKernel rows{Reduction::sum, ReduceWalk::rows, 4};
  const fused::KernelSource source = fused::source_of(with_another(float32, "gelu"), rows);
  CHECK(source.results == 1);
  CHECK(source.operands == 3);
  CHECK(source.neighbours == 4);
  CHECK_THAT(source.text, contains("write_neighbours<together>(data.at[0], from.first, r1)"));
  CHECK(fused::source_of(product_for(Reduction::sum, float32), rows).operands == 2);
}

TEST_CASE("Fewer vectors are under way where they are wide, one at least", "[fused][reduction]") {
  const auto under_way = [](int inputs, DType dtype, int vector) {
    ProgramBuilder build;
    fused::Number made = build.input(dtype);
    for (int i = 1; i < inputs; ++i)
      made = build.call("add", {made, build.input(dtype)});
    const std::string text =
        text_of(build.with_outputs({build.call("negative", {made})}), {Reduction::sum, ReduceWalk::rows, vector});
    const std::string mark = "k_under_way = ";
    return text[text.find(mark) + mark.size()];
  };
  CHECK(under_way(1, float32, 4) == '4');
  CHECK(under_way(3, float32, 4) == '4');
  CHECK(under_way(4, float32, 4) == '2');
  CHECK(under_way(7, float32, 4) == '1');
  CHECK(under_way(1, float32, 16) == '2');
  CHECK(under_way(8, float64, 16) == '1');
}

#ifdef SLUICE_CUDA
// All of float32, a few of each other type: a second of a compiler's time each.
TEST_CASE("Reductions of all rows, types and forms behind a program compile for a GPU", "[fused][reduction]") {
  if (!sluice::detail::nvrtc_library().load())
    SLUICE_SKIP(sluice::detail::nvrtc_library().problem());
  const ReduceWalk walks[] = {ReduceWalk::rows, ReduceWalk::columns, ReduceWalk::general};
  std::size_t at = 0;
  for (const DType dtype : k_all_dtypes) {
    std::size_t turn = at;
    for (const Reduction row : all_reductions()) {
      if (!sluice::detail::reads(row, dtype) || (dtype != float32 && turn++ % 4 != 0))
        continue;
      const ReduceWalk walk = walks[at++ % 3];
      const int most = walk == ReduceWalk::columns ? 2 : static_cast<int>(16 / size_of(dtype));
      const ReductionKernel kernel{row, walk, at % 2 == 0 ? 1 : most};
      CAPTURE(dtype, sluice::detail::operator_of(row).name, static_cast<int>(walk), kernel.vector);
      CHECK(compiled_size(product_for(row, dtype), kernel) > 1000);
    }
  }
}

TEST_CASE("Reductions of random programs, of several results, compile in every form", "[fused][reduction]") {
  if (!sluice::detail::nvrtc_library().load())
    SLUICE_SKIP(sluice::detail::nvrtc_library().problem());
  ProgramDraw draw(23);
  for (const ReduceWalk walk : {ReduceWalk::rows, ReduceWalk::columns, ReduceWalk::general}) {
    for (const int vector : {1, 4}) {
      const fused::Program program = draw.draw();
      CAPTURE(fused::to_text(program), static_cast<int>(walk), vector);
      CHECK_NOTHROW(compiled_size(program, {Reduction::sum, walk, vector}));
    }
  }
}
#endif
