// Kernels of one's own, by four ways: see parts.h.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/extension/parts.h"
#include "samples/support/flags.h"
#include "samples/support/run_main.h"

namespace {

/// What lies beside the program.
std::string default_object() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "extension_doubling.so").string();
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> parts{"vector_add", "doubling", "convolution", "legacy_stream"};
  std::vector<std::string> chosen;
  std::string object;
  sluice::Device device = sluice::num_gpus() > 0 ? sluice::gpu(0) : sluice::cpu();
  samples::CommandLine command(
      "Kernels of your own: CUDA source at run time, operators, a shared object, the legacy stream.");
  command.add_option("parts", chosen, fmt::format("Which: {} (default: all)", fmt::join(parts, ", "))).one_of(parts);
  command.add_option("--object", object, "The shared object of doubling (default: the one beside this program)")
      .check(samples::a_name());
  command.add_device_flag(device);
  return samples::run_main(command, argc, argv, [&] {
    for (const std::string& part : chosen.empty() ? parts : chosen) {
      if (part == "vector_add")
        samples::vector_add();
      else if (part == "doubling")
        samples::doubling(object.empty() ? default_object() : object, device);
      else if (part == "convolution")
        samples::own_convolution(device);
      else
        samples::legacy_stream();
    }
    return 0;
  });
}
