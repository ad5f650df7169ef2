// Sources of users: signatures, and what NVRTC makes of sources, which needs no GPU.
#include <filesystem>
#include <string>

#include <sluice/operator/api.h>
#include <sluice/operator/rtc/code.h>
#include <sluice/operator/rtc/signature.h>
#if SLUICE_CUDA
#include <sluice/operator/library/nvrtc.h>
#endif

#include "tests/operator/rtc_sources.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

auto contains(const char* text) {
  return sluice::test::contains(text);
}

bool is(const rtc::Parameter& parameter, DType dtype, bool array, bool constant) {
  return parameter.dtype == dtype && parameter.array == array && parameter.constant == constant;
}

}  // namespace

TEST_CASE("Signatures are read as CUDA C++ has them", "[rtc]") {
  const auto all = rtc::parse_signature(
      "k", " const float *x,float* __restrict__ y , unsigned char const*z, std::int64_t n, const double, long long *");
  REQUIRE(all.size() == 6);
  CHECK(is(all[0], float32, true, true));
  CHECK(is(all[1], float32, true, false));
  CHECK(is(all[2], uint8, true, true));
  CHECK(is(all[3], int64, false, false));
  CHECK(is(all[4], float64, false, true));
  CHECK(is(all[5], int64, true, false));
  CHECK(rtc::parse_signature("k", "").empty());
  CHECK(rtc::parse_signature("k", " \n").empty());
  CHECK(rtc::to_string(all[2]) == "const unsigned char*");
  CHECK(rtc::to_string(all[4]) == "double");
  const auto types =
      rtc::parse_signature("k", "bool a, char b, int c, long d, __half e, __nv_bfloat16* f, signed char g");
  const DType expected[] = {bool_, int8, int32, int64, float16, bfloat16, int8};
  REQUIRE(types.size() == 7);
  for (std::size_t i = 0; i < types.size(); ++i)
    CHECK(types[i].dtype == expected[i]);
  const auto whole = rtc::parse_signature(
      "k", "short a, unsigned short* b, unsigned c, const unsigned int* d, unsigned long long e, std::uint64_t* f");
  const DType widths[] = {int16, uint16, uint32, uint32, uint64, uint64};
  REQUIRE(whole.size() == 6);
  for (std::size_t i = 0; i < whole.size(); ++i)
    CHECK(whole[i].dtype == widths[i]);
  CHECK(rtc::to_string(whole[3]) == "const unsigned int*");
}

TEST_CASE("What is no signature is refused, and the parameter named", "[rtc]") {
  for (const char* const wrong :
       {"float* x,", ",int n", "float x y", "float** x", "float& x", "int n = 3", "int, , int"})
    CHECK_THROWS_AS(rtc::parse_signature("k", wrong), ValueError);
  for (const char* const wrong :
       {"wchar_t* x", "signed n", "cudaStream_t s", "const", "*", "void* x", "unsignedfloat n"})
    CHECK_THROWS_AS(rtc::parse_signature("k", wrong), DTypeError);
  CHECK_THROWS_WITH(rtc::parse_signature("blur", "int n, wchar_t* x"), contains("blur") && contains("\"wchar_t* x\""));
}

#if SLUICE_CUDA
TEST_CASE("NVRTC compiles a source once, and the code is kept by all that it depends on", "[rtc]") {
  if (!detail::nvrtc_library().load())
    SLUICE_SKIP(detail::nvrtc_library().problem());
  const auto folder = std::filesystem::temp_directory_path() / message("sluice-rtc-", ::getpid());
  const fused::KeptCode kept(folder);
  const rtc::UserSource source{k_rtc_source, {}};
  const std::string code = rtc::machine_code(source, 90, kept);
  CHECK(code.find("add") != std::string::npos);
  CHECK(code.find("scale") != std::string::npos);
  CHECK(kept.find(rtc::key_of(source, 90)) == code);
  kept.keep(rtc::key_of(source, 90), "what lies there");
  CHECK(rtc::machine_code(source, 90, kept) == "what lies there");
  const rtc::UserSource fast{k_rtc_source, {"--use_fast_math"}}, with_files{k_rtc_source, {"-I/nowhere"}};
  CHECK(rtc::machine_code(fast, 90, kept) != "what lies there");
  CHECK(rtc::key_of(with_files, 90).empty());
  CHECK(rtc::machine_code(with_files, 90, kept) != "what lies there");
  CHECK(rtc::key_of(source, 90) != rtc::key_of(source, 80));
  // So is what takes in files without an option.
  const auto key_with = [](const std::string& line, const std::string& option = "-lineinfo") {
    return rtc::key_of({line + "\n" + k_rtc_source, {option}}, 90);
  };
  CHECK(key_with("#include \"helper.cuh\"").empty());
  CHECK(key_with("  # \t include\t</usr/helper.cuh>").empty());
  CHECK(key_with("#\\\ninclude <../helper.cuh>").empty());
  CHECK(key_with("#define FILE \"helper.cuh\"\n#include FILE").empty());
  CHECK(key_with("#include <cuda_fp16.h>\n%: include \"helper.cuh\"").empty());
  CHECK(key_with("", "--pch").empty());
  CHECK(key_with("#inc\\\nlude \"helper.cuh\"").empty());
  CHECK(key_with("#inc\\ \r\nlu\\\n\\\nde \"helper.cuh\"").empty());
  CHECK(key_with("?\?=include \"helper.cuh\"").empty());
  CHECK(key_with("#if __has_include(\"helper.cuh\")\n#endif").empty());
  CHECK(key_with("#if __has_\\\ninclude ( HELPER )\n#endif").empty());
  CHECK(key_with("#if __has_include(</usr/helper.cuh>)\n#endif").empty());
  CHECK_FALSE(key_with("#if __has_include( <cuda_fp16.h> )\n#inc\\\nlude <cuda_fp16.h>\n#endif").empty());
  CHECK_FALSE(key_with("#include <cuda_fp16.h>\n// numbers that include 0").empty());
  std::filesystem::remove_all(folder);
}

TEST_CASE("A source that does not compile is an error with NVRTC's words and lines, and is not kept", "[rtc]") {
  if (!detail::nvrtc_library().load())
    SLUICE_SKIP(detail::nvrtc_library().problem());
  const auto folder = std::filesystem::temp_directory_path() / message("sluice-rtc-wrong-", ::getpid());
  const fused::KeptCode kept(folder);
  const rtc::UserSource source{"extern \"C\" __global__ void k(float* x) {\n  x[0] = no_such_thing;\n}\n", {}};
  for (int time = 0; time < 2; ++time) {
    CHECK_THROWS_AS(rtc::machine_code(source, 90, kept), ValueError);
    CHECK_THROWS_WITH(rtc::machine_code(source, 90, kept), contains("rtc.cu(2): error") && contains("no_such_thing"));
  }
  CHECK_FALSE(std::filesystem::exists(folder));
  CHECK_THROWS_AS(rtc::machine_code({"", {"--no-such-option"}}, 90, fused::KeptCode("")), LibraryError);
  CHECK_THROWS_AS(rtc::machine_code({"#include <nowhere.h>\n", {}}, 90, fused::KeptCode("")), ValueError);
  CHECK_NOTHROW(rtc::machine_code({"", {}}, 90, fused::KeptCode("")));
}
#endif

TEST_CASE("Without a GPU a module is one clear error", "[rtc]") {
  if (num_gpus() > 0)
    SLUICE_SKIP("there is a GPU");
  CHECK_THROWS_AS(rtc::CudaModule(k_rtc_source), UnsupportedError);
  CHECK_THROWS_WITH(rtc::CudaModule(k_rtc_source), contains("rtc: CUDA sources run on a GPU"));
}
