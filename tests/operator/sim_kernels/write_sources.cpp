// write_sources OUTPUT: the sources of the samples' kernels as C++ for the host, each in a namespace of its own, and
// the table of them.
#include <fstream>
#include <string>

#include "tests/operator/sim_kernels/samples.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

}  // namespace

int main(int, char** arguments) {
  std::ofstream out(arguments[1]);
  out << "#include \"tests/operator/sim_kernels/prelude.h\"\n";
  std::string table;
  int number = 0;
  for (const KernelSample& sample : kernel_samples()) {
    const fused::KernelSource source = fused::source_of(sample.program, sample.kernel);
    const std::string name = message("sample_", number++);
    out << "// " << fused::to_text(sample.program) << "\n"
        << replaced(
               replaced(source.text, "extern \"C\" __global__", "inline"),
               "namespace sluice::fused {",
               "namespace sluice::fused { namespace " + name + " {")
        << "}\n";
    table += "    {R\"text(" + source.text + ")text\", {";
    for (const char* const kernel : source.kernels)
      table += message("device_sim::launched<sluice::fused::", name, "::", kernel, ">, ");
    table += "}},\n";
  }
  out << "static const bool k_added = [] {\n  for (const device_sim::HostSource& one : "
         "std::vector<device_sim::HostSource>{\n"
      << table << "  })\n    device_sim::host_sources().push_back(one);\n  return true;\n}();\n";
  return out ? 0 : 1;
}
