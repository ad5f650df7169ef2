// What Sluice costs before it does anything: bytes of the library and of a stripped sample, seconds from exec to the
// first result, seconds to compile each door.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
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

// What the measured child does: 1 + 2 + 3 on the device, printed.
int first_result(Device device) {
  const NDArray total = sum(array<float>({1, 2, 3}, device));
  std::printf("%g\n", total.item<double>());
  return 0;
}

void exec_to_result(bench::Report& report, const std::string& device) {
  const std::string command = fs::canonical("/proc/self/exe").string() + " --first-result --device " + device;
  std::string answer;
  const bench::Timing timing = report.time(
      1,
      1,
      [&] {
        const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
        char line[64] = {};
        answer = std::fgets(line, sizeof line, child.get()) != nullptr ? line : "";
      },
      [] {});
  report.expect(answer == "6\n", "first result on " + device + " is '" + answer + "'");
  report.add("startup", device, "first_result", timing.median, "s", timing.min);
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
  std::string compiler, sample = (fs::canonical("/proc/self/exe").parent_path() / "../../samples/mlp").string();
  bool child = false;
  report.flags().add_option("--compiler", compiler, "Command that compiles against Sluice: its doors are timed too");
  report.flags().add_option("--sample", sample, "The program whose stripped size is reported");
  report.flags().add_flag("--first-result", child, "Compute one sum, print it and end (what start-up is timed on)");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    if (child)
      return first_result(report.options().device);
    if (report.wants("size", "library")) {
      report.add("size", "library", "file", megabytes(library_path()), "MB");
      report.add("size", "library", "stripped", stripped_megabytes(library_path()), "MB");
    }
    if (report.wants("size", "sample") && fs::exists(sample))
      report.add("size", fs::path(sample).filename().string(), "stripped", stripped_megabytes(sample), "MB");
    if (report.wants("startup", "cpu"))
      exec_to_result(report, "cpu");
    if (num_gpus() > 0 && report.wants("startup", "gpu"))
      exec_to_result(report, "gpu");
    if (!compiler.empty() && report.wants("compile"))
      compile_doors(report, compiler);
  } catch (const std::exception& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
