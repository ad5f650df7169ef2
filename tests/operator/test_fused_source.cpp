// Fused programs as CUDA source, compiled by NVRTC where there is one (no GPU is needed), and kept on disk.
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

#include <sluice/operator/fused/kept_code.h>
#include <sluice/operator/fused/source.h>
#ifdef SLUICE_CUDA
#include <sluice/operator/fused/compiled.h>
#include <sluice/operator/library/nvrtc.h>
#endif

#include "tests/operator/fused_programs.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
namespace fs = std::filesystem;

namespace {

/// A folder of its own, gone afterwards.
struct Folder {
  fs::path path = fs::temp_directory_path() / message("sluice-kept-", getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
};

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_file(const fs::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// gelu(a) + b and log1p(gelu(a)), of one type.
std::string text_of_gelu(DType dtype) {
  ProgramBuilder build;
  const auto a = build.input(dtype), b = build.input(dtype);
  const auto gelu = build.call("gelu", {a});
  const auto sum = build.call("add", {gelu, b}), log = build.call("log1p", {gelu});
  return fused::source_of(build.with_outputs({sum, log})).text;
}

fused::Program times(Scalar number, const char* name = "multiply") {
  ProgramBuilder build;
  const auto x = build.input(float32);
  return build.with_outputs({build.call(name, {x}, beside_number(number))});
}

#ifdef SLUICE_CUDA
#define SLUICE_NEEDS_NVRTC()           \
  if (!detail::nvrtc_library().load()) \
  SLUICE_SKIP(detail::nvrtc_library().problem())
constexpr int k_target = 90;
#endif

}  // namespace

TEST_CASE("A product that ends a call is sealed off from what may begin with a sum", "[operator][fused]") {
  for (const DType dtype : {float32, float64}) {
    CAPTURE(dtype);
    const std::string text = text_of_gelu(dtype);
    CHECK_THAT(text, contains("fused::add(read<1>(v2), read<2>(v1))"));
    CHECK_THAT(text, contains("Unary::log1p>::Value::of(n.sealed(read<3>(v2)))"));
  }
  // Rounded to sixteen bits in between, it cannot be fused.
  CHECK(text_of_gelu(float16).find("sealed") == std::string::npos);
}

TEST_CASE("Programs that differ in numbers alone have one source", "[operator][fused]") {
  CHECK(fused::source_of(times(0.1)).text == fused::source_of(times(7)).text);
  CHECK(fused::numbers_of(times(0.1)) == std::vector<std::uint64_t>{0x3dcccccd});
  CHECK(fused::numbers_of(times(7)) == std::vector<std::uint64_t>{0x40e00000});
  // A power of 2 is the square that the row makes of it, and no number is left.
  CHECK_THAT(fused::source_of(times(2, "power")).text, contains("fused::square(read<0>(v0))"));
  CHECK(fused::numbers_of(times(2, "power")).empty());
  CHECK_THAT(fused::source_of(times(3, "power")).text, contains("Binary::power"));
}

TEST_CASE("A program with an operator that has no formula is refused by name", "[operator][fused]") {
  fused::Program program{{float32}, {{find_operator("sum"), {}, {0}, float32}}, {1}};
  CHECK_THROWS_WITH(fused::source_of(program), contains("sum"));
}

TEST_CASE("Kept kernels are found again, whole ones of the same key only", "[operator][fused]") {
  const Folder folder;
  const fused::KeptCode kept(folder.path);
  std::string code = "code";
  code += '\0';
  code += "\n\xff of a kernel";
  kept.keep("key\nof two lines", code);
  CHECK(kept.find("key\nof two lines") == code);
  CHECK_FALSE(kept.find("key\nof three lines").has_value());
  const fs::path file = kept.file_of("key\nof two lines");
  const std::string whole = content_of(file);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    write_file(file, changed);
    CHECK_FALSE(kept.find("key\nof two lines").has_value());
    write_file(file, whole.substr(0, at));
    CHECK_FALSE(kept.find("key\nof two lines").has_value());
  }
  // What lies under this key's name but is another's.
  kept.keep("another", code);
  fs::copy_file(kept.file_of("another"), file, fs::copy_options::overwrite_existing);
  CHECK_FALSE(kept.find("key\nof two lines").has_value());
  kept.keep("key\nof two lines", code);
  CHECK(kept.find("key\nof two lines") == code);
}

TEST_CASE("Kernels are kept by many at once, and not at all where there is no folder", "[operator][fused]") {
  const Folder folder;
  std::vector<std::thread> writers;
  std::atomic<int> wrong{0};
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      const fused::KeptCode kept(folder.path / "made");
      for (int i = 0; i < 100; ++i) {
        const std::string key = message("key ", i % 5);
        kept.keep(key, std::string(1000 + static_cast<std::size_t>(i % 5), static_cast<char>('a' + writer)));
        const auto found = kept.find(key);
        wrong += !found || found->size() != 1000 + static_cast<std::size_t>(i % 5) ||
                 found->find_first_not_of((*found)[0]) != std::string::npos;
      }
    });
  }
  for (std::thread& writer : writers)
    writer.join();
  CHECK(wrong == 0);
  const auto files = std::distance(fs::directory_iterator(folder.path / "made"), {});
  CHECK(files == 5);
  const fused::KeptCode large(folder.path / "large");
  large.keep("key", "code");
  fs::resize_file(large.file_of("key"), std::uintmax_t{1} << 40);  // of which nothing is there
  CHECK_FALSE(large.find("key").has_value());
  write_file(large.file_of("key"), "sluice kernels 1 3 1099511627776 7\nkey");
  CHECK_FALSE(large.find("key").has_value());
  fs::remove(large.file_of("key"));
  fs::create_directory(large.file_of("key"));  // can be opened, not read
  CHECK_FALSE(large.find("key").has_value());
  const fused::KeptCode nowhere("");
  nowhere.keep("key", "code");
  CHECK_FALSE(nowhere.find("key").has_value());
  const fused::KeptCode refused("/proc/none");
  refused.keep("key", "code");
  CHECK_FALSE(refused.find("key").has_value());
}

#ifdef SLUICE_CUDA
TEST_CASE("Every row of every type it takes compiles for a GPU", "[operator][fused]") {
  SLUICE_NEEDS_NVRTC();
  for (const DType dtype : {bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64}) {
    ProgramBuilder build;
    const auto condition = build.input(bool_);
    std::vector<fused::Number> operands;
    for (int i = 0; i < 4; ++i)
      operands.push_back(build.input(dtype));
    for (const Operator* const op : fusable_operators()) {
      if (program_of_one(*op, dtype).calls.empty())
        continue;
      std::vector<fused::Number> given(operands.begin(), operands.begin() + static_cast<long>(operands_of(*op)));
      if (std::string(op->name) == "where")
        given[0] = condition;
      build.call(op->name, given, default_attributes(*op));
    }
    for (const DType to : {bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64})
      build.call("astype", {operands[0]}, to_type(to));
    CAPTURE(dtype, build.program.calls.size());
    const auto last = static_cast<fused::Number>(build.program.inputs.size() + build.program.calls.size() - 1);
    const fused::KernelSource source = fused::source_of(build.with_outputs({last}));
    CHECK(fused::code_of(source, k_target, fused::KeptCode("")).size() > 1000);
  }
}

TEST_CASE("Programs drawn at random compile", "[operator][fused]") {
  SLUICE_NEEDS_NVRTC();
  ProgramDraw draw(17);
  for (int i = 0; i < 5; ++i) {
    const fused::Program program = draw.draw();
    CAPTURE(fused::to_text(program));
    CHECK_NOTHROW(fused::code_of(fused::source_of(program), k_target, fused::KeptCode("")));
  }
}

TEST_CASE("A compiled program is taken from disk the second time, one of other headers is not", "[operator][fused]") {
  SLUICE_NEEDS_NVRTC();
  const Folder folder;
  const fused::KeptCode kept(folder.path);
  const fused::KernelSource source = fused::source_of(times(3));
  const std::string code = fused::code_of(source, k_target, kept);
  const std::string key = fused::key_of(source, k_target);
  CHECK(kept.find(key) == code);
  kept.keep(key, "what lies there");
  CHECK(fused::code_of(source, k_target, kept) == "what lies there");
  CHECK(fused::key_of(source, 80) != key);
  CHECK_THAT(key, contains("--ftz=true") && contains("headers") && contains(detail::nvrtc_version()));
}

TEST_CASE("A source that NVRTC refuses is an error with its text and what NVRTC says", "[operator][fused]") {
  SLUICE_NEEDS_NVRTC();
  fused::KernelSource source = fused::source_of(times(3));
  source.text += "\nint nonsense = no_such_thing;\n";
  CHECK_THROWS_AS(fused::code_of(source, k_target, fused::KeptCode("")), LibraryError);
  CHECK_THROWS_WITH(
      fused::code_of(source, k_target, fused::KeptCode("")),
      contains("no_such_thing") && contains("fused.cu") && contains("fused::multiply"));
}

TEST_CASE("Code for a GPU is that of its generation, not later than it", "[operator][fused]") {
  const int known[] = {75, 80, 86, 90, 100, 120};
  CHECK(detail::nvrtc_target(90, known) == 90);
  CHECK(detail::nvrtc_target(89, known) == 86);
  CHECK(detail::nvrtc_target(103, known) == 100);
  CHECK(detail::nvrtc_target(70, known) == 0);
  CHECK(detail::nvrtc_target(130, known) == 0);
}
#endif
