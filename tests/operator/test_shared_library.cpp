// Libraries that load when they are first needed: what loads when, and what is said where one is missing. Each question
// is for a process of its own.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <pthread.h>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/library/one_thread.h>
#include <sluice/operator/library/shared_library.h>
#include <sluice/operator/linalg/lapack.h>
#include <sluice/operator/linalg/steps_gpu.h>

#include "tests/engine/expect.h"
#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/compare.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;
namespace fs = std::filesystem;

namespace {

bool is_loaded(const std::string& part_of_name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string word; maps >> word;) {
    if (word.find(part_of_name) != std::string::npos && word.find(".so") != std::string::npos)
      return true;
  }
  return false;
}

/// Runs the case in a process whose loader finds, under the given names, files that are no libraries.
int run_with_broken(const std::string& filter, const std::vector<std::string>& names) {
  const fs::path folder = fs::temp_directory_path() / ("sluice-broken-" + std::to_string(getpid()));
  fs::create_directories(folder);
  for (const std::string& name : names)
    std::ofstream(folder / name) << "This is no library, whatever its name says. It is long enough to be looked at.\n";
  const char* before = std::getenv("LD_LIBRARY_PATH");
  const std::string kept = before == nullptr ? "" : before;
  setenv("LD_LIBRARY_PATH", (folder.string() + (kept.empty() ? "" : ":" + kept)).c_str(), 1);
  const int status = run_case_alone(filter);
  before == nullptr ? unsetenv("LD_LIBRARY_PATH") : setenv("LD_LIBRARY_PATH", kept.c_str(), 1);
  fs::remove_all(folder);
  return status;
}

/// What the process writes to standard error while it lives.
class ErrorText {
 public:
  ErrorText() : file_(std::tmpfile()), kept_(dup(STDERR_FILENO)) { dup2(fileno(file_), STDERR_FILENO); }
  ErrorText(const ErrorText&) = delete;
  ErrorText& operator=(const ErrorText&) = delete;
  ~ErrorText() { end(); }
  std::string end() {
    if (kept_ < 0)
      return {};
    std::fflush(stderr);
    dup2(kept_, STDERR_FILENO);
    close(std::exchange(kept_, -1));
    std::rewind(file_);
    std::string text;
    for (int c = std::fgetc(file_); c != EOF; c = std::fgetc(file_))
      text += static_cast<char>(c);
    std::fclose(file_);
    return text;
  }

 private:
  FILE* file_;
  int kept_;
};

[[maybe_unused]] int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

double cosine_taken = 0;
double (*cosine)(double) = nullptr;

}  // namespace

TEST_CASE("A library that is missing is one error: its name, who asked, what was tried, what to install") {
  detail::SharedLibrary missing(
      {"Nothing 7", "libsluice-nothing.so.7", "nothing7-dev"}, [](const detail::SharedLibrary&) {});
  CHECK_FALSE(missing.is_missing());
  CHECK_FALSE(missing.load());
  CHECK(missing.is_missing());
  expect_error<LibraryError>(
      [&] { missing.require("frobnicate"); },
      [](const LibraryError& error) {
        for (const char* part : {"frobnicate: ", "Nothing 7", "libsluice-nothing.so.7", "No such file", "nothing7-dev"})
          CHECK_THAT(error.what(), contains(part));
      });
}

TEST_CASE("A library without a function that is called of it counts as missing") {
  detail::SharedLibrary old({"The mathematics", "libm.so.6", "a newer one"}, [](const detail::SharedLibrary& loaded) {
    loaded.find("sluice_no_such_function", cosine);
  });
  CHECK_FALSE(old.load());
  CHECK_THAT(old.problem(), contains("it has no function sluice_no_such_function"));
}

TEST_CASE("A library is loaded once, however many threads need it first") {
  static std::atomic<int> taken{0};
  taken = 0;
  detail::SharedLibrary library(
      {"The mathematics", "libm.so.6", "a C library"}, [](const detail::SharedLibrary& loaded) {
        loaded.find("cos", cosine);
        cosine_taken = cosine(0);
        ++taken;
      });
  const Meeting meeting(4);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      meeting.join();
      wrong += library.load() && cosine_taken == 1 ? 0 : 1;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
  CHECK(taken == 1);
  CHECK_NOTHROW(library.require("cosine"));
}

namespace {

Gate loading;  // of the library below; a thread that loads stands here

}  // namespace

TEST_CASE("A child that is forked while a library is loaded has it, too") {
  // Handlers run last come, first served: the gate opens when fork() has begun and before anybody is asked for locks.
  static const bool watched = pthread_atfork([] { loading.open(); }, nullptr, nullptr) == 0;
  REQUIRE(watched);
  loading = Gate();
  detail::SharedLibrary library(
      {"the C library's mathematics", "libm.so.6", "nothing"}, [](const detail::SharedLibrary&) { loading.wait(); });
  std::thread first([&] { CHECK(library.load()); });
  REQUIRE(loading.reached());
  CHECK(in_child([&] { return library.load() ? 0 : 1; }) == 0);
  first.join();
}

TEST_CASE("Arrays load no library; a product on the CPU loads oneDNN, and nothing that GPUs need") {
  if (!runs_alone()) {
    CHECK(run_case_alone("Arrays load no library; a product*") == 0);
    return;
  }
  const NDArray x = ones({8, 8});
  CHECK(sum(exp(x) * 2.0).item<float>() > 0);
  for (const char* name : {"libdnnl", "libgomp", "libcudnn", "libcublas", "libopenblas", "libcusolver"}) {
    INFO(name);
    CHECK_FALSE(is_loaded(name));
  }
  CHECK(sum(matmul(x, x)).item<float>() == 512);
#ifdef SLUICE_ONEDNN
  CHECK(is_loaded("libdnnl"));
  CHECK(dlsym(RTLD_DEFAULT, "dnnl_version") == nullptr);  // a program that brings one of its own calls that
#endif
  CHECK_FALSE(is_loaded("libcudnn"));
  CHECK_FALSE(is_loaded("libcublas"));
}

#ifdef SLUICE_ONEDNN
TEST_CASE("Without oneDNN our own kernels take products and convolutions on the CPU, which is said once") {
  if (!runs_alone()) {
    std::vector<std::string> files;
    for (int version = 1; version < 9; ++version)
      files.push_back("libdnnl.so." + std::to_string(version));
    CHECK(run_with_broken("Without oneDNN our own kernels*", files) == 0);
    return;
  }
  Engine engine({.workers = 2});
  EngineScope scope(engine);
  ErrorText text;
  for (int round = 0; round < 3; ++round) {
    const NDArray a = random_array({40, 30}, 1), b = random_array({30, 20}, 2);
    const NDArray wide = matmul(a.astype(float64), b.astype(float64));
    CHECK(differences(matmul(a, b), wide.astype(float32), {}) == "");
    const NDArray image = ones({2, 3, 9, 9}), weight = ones({4, 3, 3, 3});
    CHECK(convolution(image, weight, {}, {}).slice(0, 0, 1).to_vector<float>()[0] == 27);
  }
  const std::string said = text.end();
  CHECK(count_of("sluice: ", said) == 1);
  for (const char* part : {"matmul: ", "oneDNN", "libdnnl.so", "Install", "own kernels"})
    CHECK_THAT(said, contains(part));
  CHECK_FALSE(is_loaded("libgomp"));
}

TEST_CASE("A product on the program's own thread leaves it its number of OpenMP threads") {
  if (!runs_alone()) {
    CHECK(run_case_alone("A product on the program's own thread*") == 0);
    return;
  }
  if (!detail::onednn_library().load())
    SLUICE_SKIP("no oneDNN here");
  int (*get)() = nullptr;
  void (*set)(int) = nullptr;
  detail::onednn_library().find_as_it_does("omp_get_max_threads", get);
  detail::onednn_library().find_as_it_does("omp_set_num_threads", set);
  if (get == nullptr || set == nullptr)
    SLUICE_SKIP("oneDNN without OpenMP");
  set(5);
  Engine engine({.cpu_policy = CpuMode::serial});
  EngineScope scope(engine);
  CHECK(sum(matmul(ones({64, 64}), ones({64, 64}))).item<float>() == 64 * 64 * 64);
  CHECK(get() == 5);
}
#endif

TEST_CASE("Where no LAPACK is, a decomposition says what to install, and what needs none goes on") {
  if (!runs_alone()) {
    CHECK(run_with_broken("Where no LAPACK is*", {"libopenblas.so.0", "liblapack.so.3"}) == 0);
    return;
  }
  const NDArray x = ones({2, 2});
  const NDArray y = inverse(x), z = cholesky(x + 1);
  expect_error<LibraryError>(
      [&] { y.wait_to_read(); },
      [](const LibraryError& error) {
        CHECK_THAT(error.what(), contains("inverse: ") && contains("liblapack.so.3") && contains("libopenblas0"));
      });
  CHECK_THROWS_AS((z + 1).wait_to_read(), LibraryError);
  CHECK(einsum("ij,ij->", {x, x}).item<float>() == 4);
}

TEST_CASE("Without OpenBLAS another LAPACK does; OpenBLAS that nobody else has loaded works in one thread") {
  if (!runs_alone()) {
    CHECK(run_case_alone("Without OpenBLAS another LAPACK*") == 0);
    CHECK(run_with_broken("Without OpenBLAS another LAPACK*", {"libopenblas.so.0"}) == 0);
    return;
  }
  if (!detail::lapack_library().load()) {  // Debian's liblapack.so.3 may be OpenBLAS's
    CHECK_THAT(detail::lapack_library().problem(), contains("liblapack.so.3"));
    return;
  }
  CHECK(det(ones({1, 1}) * 3).item<float>() == 3);
  int (*threads)() = nullptr;
  detail::lapack_library().find_as_it_does("openblas_get_num_threads", threads);
  CHECK((threads == nullptr || threads() == 1));
}

TEST_CASE("A static engine may end the process with products under way, in libraries that were loaded after it") {
  if (!runs_alone()) {
    CHECK(run_case_alone("A static engine may end the process*") == 0);
    return;
  }
  static Engine engine({.workers = 2});  // destroyed after what a library loaded later has registered
  EngineScope scope(engine);
  const Device device = num_gpus() > 0 ? gpu(0) : cpu();
  static NDArray kept = ones({200, 200}, {.device = device});
  for (int i = 0; i < 100; ++i)
    kept = matmul(kept, kept) * 0.005;
  SUCCEED("the process's exit code says the rest");
}

#ifdef SLUICE_CUDA
TEST_CASE("cuDNN and cuBLASLt of the version that we were built with have all that we call of them") {
  if (!runs_alone()) {
    CHECK(run_case_alone("cuDNN and cuBLASLt of the version*") == 0);
    return;
  }
  CHECK_NOTHROW(detail::cudnn_library().require("convolution"));
  CHECK_NOTHROW(detail::cublas_library().require("matmul"));
  CHECK(is_loaded("libcudnn"));
  CHECK(is_loaded("libcublasLt"));
}

TEST_CASE("cuSOLVER and cuBLAS of the version that we were built with have all that we call of them") {
  if (!runs_alone()) {
    CHECK(run_case_alone("cuSOLVER and cuBLAS of the version*") == 0);
    return;
  }
  CHECK_NOTHROW(detail::require_solver("solve"));
  CHECK(is_loaded("libcusolver"));
  CHECK(is_loaded("libcublas"));
}

TEST_CASE("Where cuSOLVER cannot be loaded, a decomposition on a GPU says what to install") {
  if (!runs_alone()) {
    std::vector<std::string> names;
    for (int version = 11; version < 16; ++version)
      names.push_back("libcusolver.so." + std::to_string(version));
    CHECK(run_with_broken("Where cuSOLVER cannot*", names) == 0);
    return;
  }
  expect_error<LibraryError>(
      [] { detail::require_solver("eigh"); },
      [](const LibraryError& error) {
        CHECK_THAT(error.what(), contains("eigh: cuSOLVER") && contains("libcusolver"));
      });
  CHECK(det(ones({1, 1})).item<float>() == 1);  // a CPU needs none
}

TEST_CASE("Where cuDNN and cuBLASLt cannot be loaded, arrays work, and what needs them says so") {
  if (!runs_alone()) {
    std::vector<std::string> names;
    for (int version = 8; version < 16; ++version) {
      names.push_back("libcudnn.so." + std::to_string(version));
      names.push_back("libcublasLt.so." + std::to_string(version));
    }
    CHECK(run_with_broken("Where cuDNN and cuBLASLt cannot*", names) == 0);
    return;
  }
  CHECK(sum(ones({3})).item<float>() == 3);
  for (detail::SharedLibrary* library : {&detail::cudnn_library(), &detail::cublas_library()})
    CHECK_THROWS_AS(library->require("convolution"), LibraryError);
  CHECK_THAT(detail::cudnn_library().problem(), contains("cuDNN") && contains("libcudnn.so.") && contains("Install"));
  CHECK_THAT(detail::cublas_library().problem(), contains("libcublasLt.so.") && contains("invalid ELF header"));
  if (num_gpus() == 0)
    return;
  const NDArray x = ones({600, 600}, {.device = gpu()});  // no small product, which is a kernel of ours
  CHECK(sum(x).item<float>() == 360000);
  CHECK(matmul(x.slice(0, 0, 2), x.slice(1, 0, 2)).to_vector<float>()[0] == 600);
  expect_error<LibraryError>(
      [&] { matmul(x, x).to_vector<float>(); },
      [](const LibraryError& error) { CHECK_THAT(error.what(), contains("matmul") && contains("cuBLASLt")); });
  const NDArray image = ones({1, 1, 5, 5}, {.device = gpu()}), weight = ones({1, 1, 3, 3}, {.device = gpu()});
  CHECK_THROWS_AS(convolution(image, weight, {}, {}).to_vector<float>(), LibraryError);
}
#endif
