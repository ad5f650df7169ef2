// What Sluice costs before it does anything: bytes of the library and of a stripped sample; of programs that use the
// engine alone, one sum, one matrix product: seconds from exec to the result, and memory; seconds to compile each door.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;
namespace fs = std::filesystem;

double megabytes(const fs::path& path) {
  return static_cast<double>(fs::file_size(path)) / 1e6;
}

// The shared library that num_gpus() came from.
fs::path library_path() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&num_gpus), &info);
  return fs::canonical(info.dli_fname);
}

// Bytes of `binary` after strip(1); 0 if there is no strip.
double stripped_megabytes(const fs::path& binary) {
  const fs::path copy = fs::temp_directory_path() / ("sluice-stripped-" + std::to_string(getpid()));
  const std::string command = "strip -o '" + copy.string() + "' '" + binary.string() + "' 2>/dev/null";
  const bool done = std::system(command.c_str()) == 0;
  const double size = done ? megabytes(copy) : 0;
  fs::remove(copy);
  return size;
}

// The most that this process ever had resident.
double resident_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib)
      return kib * 1024 / 1e6;
  }
  return 0;
}

// What the measured child does: it comes to 6, by tasks alone, as a sum or as a product. Printed with its memory.
int first_result(const std::string& kind, Device device) {
  double result = 0;
  if (kind == "engine") {
    Engine engine;
    const Var x = engine.new_var();
    for (int i = 1; i <= 3; ++i)
      engine.push({.name = "add", .access = {write(x)}}, [&result, i] { result += i; });
    engine.wait(x);
  } else if (kind == "product") {
    result = matmul(full({1, 3}, 2, {.device = device}), ones({3, 1}, {.device = device})).item<double>();
  } else {
    result = sum(array<float>({1, 2, 3}, device)).item<double>();
  }
  std::printf("%g %g\n", result, resident_megabytes());
  return 0;
}

void exec_to_result(bench::Report& report, const std::string& kind, const std::string& device) {
  const std::string command =
      fs::canonical("/proc/self/exe").string() + " --first-result " + kind + " --device " + device;
  double answer = 0, resident = 0;
  const bench::Timing timing = report.time(
      1,
      1,
      [&] {
        const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
        if (std::fscanf(child.get(), "%lf %lf", &answer, &resident) != 2)
          answer = resident = 0;
      },
      [] {});
  report.expect(answer == 6 && resident > 0, "the first " + kind + " on " + device + " is not 6");
  const std::string what = kind == "sum" ? "" : "_" + kind;
  report.add("startup", device, "first_result" + what, timing.median, "s", timing.min);
  report.add("startup", device, "resident" + what, resident, "MB");
}

void compile_doors(bench::Report& report, const std::string& compiler) {
  for (const char* door : {"engine/api.h", "storage/api.h", "ndarray/api.h", "operator/api.h", "sluice.h"}) {
    const std::string command =
        "echo '#include <sluice/" + std::string(door) + ">' | " + compiler + " -fsyntax-only -x c++ -";
    bool good = true;
    const bench::Timing timing = report.time(
        1, 1, [&] { good = good && std::system(command.c_str()) == 0; }, [] {});
    report.expect(good, "compiling " + std::string(door));
    report.add("compile", door, "time", timing.median, "s", timing.min);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_footprint", "Size of the binaries, time to the first result, compile time of the doors");
  std::string compiler, child, sample = (fs::canonical("/proc/self/exe").parent_path() / "../../samples/mlp").string();
  report.flag("--compiler", compiler, "Command that compiles against Sluice: its doors are timed too");
  report.flag("--sample", sample, "The program whose stripped size is reported");
  report.flag("--first-result", child, "Compute one thing, print it and end (what start-up is timed on)")
      .one_of({"engine", "sum", "product"});
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    if (!child.empty())
      return first_result(child, report.options().device);
    if (report.wants("size", "library")) {
      report.add("size", "library", "file", megabytes(library_path()), "MB");
      report.add("size", "library", "stripped", stripped_megabytes(library_path()), "MB");
    }
    if (report.wants("size", "sample") && fs::exists(sample))
      report.add("size", fs::path(sample).filename().string(), "stripped", stripped_megabytes(sample), "MB");
    if (report.wants("startup", "cpu")) {
      for (const char* kind : {"engine", "sum", "product"})
        exec_to_result(report, kind, "cpu");
    }
    if (num_gpus() > 0 && report.wants("startup", "gpu")) {
      for (const char* kind : {"sum", "product"})
        exec_to_result(report, kind, "gpu");
    }
    if (!compiler.empty() && report.wants("compile"))
      compile_doors(report, compiler);
  } catch (const std::exception& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
