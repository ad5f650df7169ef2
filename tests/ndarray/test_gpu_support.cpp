// What is said of a GPU that the build has no code for, and when.
#include <array>

#include <sluice/engine/error.h>
#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/gpu_build.h>

#include "tests/engine/expect.h"

using namespace sluice;
using namespace sluice::test;
using detail::describe_refusal;
using detail::GpuBuild;
using detail::GpuFacts;
using detail::has_code_for;

namespace {

constexpr std::array k_list = {75, 80, 90};
constexpr GpuBuild k_build{.capabilities = k_list};
constexpr GpuBuild k_with_ptx{.capabilities = k_list, .ptx = 90};

std::string refusal_of(int capability, const GpuBuild& build, const char* said = "no kernel image") {
  return describe_refusal(gpu(1), {.name = "GPU", .capability = capability, .refusal = said}, build);
}

}  // namespace

TEST_CASE("Machine code serves its generation from its own minor version on", "[gpu_build]") {
  for (const int served : {75, 80, 86, 89, 90})
    CHECK(has_code_for(k_build, served));
  for (const int not_served : {70, 72, 100, 120})
    CHECK_FALSE(has_code_for(k_build, not_served));
  constexpr std::array later = {86};
  CHECK(has_code_for({.capabilities = later}, 89));
  CHECK_FALSE(has_code_for({.capabilities = later}, 80));
  CHECK_FALSE(has_code_for({}, 90));
}

TEST_CASE("PTX serves its GPU and all later ones, and none before", "[gpu_build]") {
  for (const int served : {90, 100, 121, 130})
    CHECK(has_code_for(k_with_ptx, served));
  CHECK_FALSE(has_code_for(k_with_ptx, 70));
  CHECK(has_code_for({.ptx = 120}, 120));
  CHECK_FALSE(has_code_for({.ptx = 120}, 90));
}

TEST_CASE("Of a GPU that runs our kernels nothing is said", "[gpu_build]") {
  CHECK(describe_refusal(gpu(0), {}, k_build).empty());
}

TEST_CASE("A GPU without code is named with its capability, what was built and what to configure", "[gpu_build]") {
  CHECK(
      refusal_of(120, k_build) ==
      "gpu(1) is a GPU of compute capability 12.0, and this build of Sluice has code for 7.5, 8.0, 9.0 only: "
      "configure it with -Dgpu_arch=120, or with -Dgpu_arch=auto on this machine");
  constexpr std::array one = {120};
  const std::string older = refusal_of(90, {.capabilities = one, .ptx = 120});
  CHECK_THAT(older, contains("code for 12.0, and PTX for 12.0 and later only"));
  CHECK_THAT(older, contains("-Dgpu_arch=90"));
}

TEST_CASE("A GPU older than CUDA 13 serves is sent to the CPU", "[gpu_build]") {
  const std::string said = refusal_of(70, k_build);
  CHECK_THAT(said, contains("compute capability 7.0") && contains("needs 7.5 at least"));
  CHECK_THAT(said, !contains("gpu_arch"));
  constexpr std::array without = {80};
  CHECK_THAT(refusal_of(75, {.capabilities = without}), contains("-Dgpu_arch=75") && !contains("at least"));
}

TEST_CASE("A driver that refuses code which is there is quoted", "[gpu_build]") {
  const std::string said = refusal_of(120, k_with_ptx, "the provided PTX was compiled with an unsupported toolchain");
  CHECK_THAT(said, contains("unsupported toolchain") && contains("update it, or"));
}

TEST_CASE("A program can ask whether a device takes its arrays", "[gpu_build]") {
  CHECK(why_unusable(cpu()).empty());
  CHECK_THAT(why_unusable(cpu(1)), contains("cpu(1)"));
  CHECK_THAT(why_unusable(gpu(num_gpus())), contains("there is no gpu("));
  SLUICE_NEEDS_GPUS(1);
  // Either way both say the same.
  const std::string why = why_unusable(gpu(0));
  if (why.empty()) {
    CHECK(ones({2}, {.device = gpu(0)}).to_vector<float>() == std::vector<float>{1, 1});
  } else {
    CHECK_THROWS_AS(ones({2}, {.device = gpu(0)}), DeviceError);
  }
}
