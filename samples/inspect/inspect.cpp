// Looks at a network: its layers, its graph before and after the passes, its memory, its fused kernels.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "samples/inspect/network.h"
#include "samples/support/flags.h"
#include "samples/support/run_main.h"
#include "samples/support/safe_file.h"
#include "samples/support/terminal.h"

namespace {

using namespace sluice;

struct Options {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::string network, folder = "inspect";
  std::int64_t batch_size = 32;
  bool train = false, kernels = false;
};

// 203530 as "203,530".
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3)
    text.insert(at - 3, 1, ',');
  return text;
}

// How often each operator is called, and how many operations that is; those that do most come first.
std::string operators_of(const graph::Graph& graph) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> counts;
  for (const graph::Node& node : graph.nodes) {
    auto& [calls, flops] = counts[node.op->name];
    ++calls;
    flops += graph::flops(node, graph);
  }
  std::vector<std::pair<std::string, std::pair<std::int64_t, std::int64_t>>> order(counts.begin(), counts.end());
  std::stable_sort(
      order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.second > b.second.second; });
  std::string text = fmt::format("  {:<36}{:>7}{:>18}\n", "operator", "calls", "FLOPs");
  for (const auto& [name, count] : order)
    text += fmt::format("  {:<36}{:>7}{:>18}\n", name, count.first, grouped(count.second));
  return text;
}

std::string text_of(const std::string& what, const graph::Graph& before, const graph::Plan& plan) {
  const graph::PlanMemory memory = plan.memory();
  return fmt::format(
      "\n{} as a graph: {} nodes, {} after the passes, {} FLOPs\n"
      "its results: {} bytes, {} without sharing memory\n{}\n{}",
      what,
      before.nodes.size(),
      plan.graph().nodes.size(),
      grouped(graph::flops(plan.graph())),
      grouped(static_cast<std::int64_t>(memory.bytes)),
      grouped(static_cast<std::int64_t>(memory.bytes_without_sharing)),
      to_string(plan.segments()),
      operators_of(plan.graph()));
}

// On a GPU: what a capture refuses shows when it is tried.
void try_captures(graph::Plan& plan) {
  Arrays inputs;
  for (const graph::ValueId input : plan.graph().inputs) {
    const ArraySpec& spec = plan.graph().values[input].spec;
    if (spec.device.is_cpu())
      return;
    inputs.push_back(zeros(spec.shape, {.dtype = spec.dtype, .device = spec.device}));
  }
  for (int run = 0; run < 3; ++run)
    plan.run(inputs);
  Engine::current().wait_all();
}

std::string kernels_of(const graph::Graph& graph) {
  const std::vector<graph::FusedKernel> kernels = graph::fused_kernels(graph);
  std::string text =
      fmt::format("{} fused kernel(s). On a CPU, loops of vectors do what the source says.\n", kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    text += fmt::format("\n// -- kernel {}: {}; of node", i, kernels[i].calls);
    for (const std::size_t node : kernels[i].nodes)
      text += fmt::format(" {}", node);
    text += '\n' + (kernels[i].problem.empty() ? "" : "// runs call by call: " + kernels[i].problem + '\n');
    text += kernels[i].source;
  }
  return text;
}

// What the layers of a network from a file were, which is one block now.
std::string layers_of(const gluon::Block& net) {
  const auto* const imported = dynamic_cast<const gluon::SymbolBlock*>(&net);
  if (imported == nullptr || imported->layers().empty())
    return "";
  std::string text = "\nIt was exported of:\n";
  for (const graph::FileLayer& layer : imported->layers()) {
    std::string options;
    for (const NamedValue& option : layer.options)
      options += fmt::format("{}{}={}", options.empty() ? "" : ", ", option.name, to_string(option.value));
    text += fmt::format("  {:<20} {}({})\n", layer.name.empty() ? "the network" : layer.name, layer.type, options);
  }
  return text;
}

int inspect(const Options& options) {
  const std::filesystem::path folder = options.folder;
  samples::check_folder("--out", folder);
  const samples::Network network = samples::network_of(options.network, options.batch_size, options.device);
  Arrays inputs;
  for (const ArraySpec& spec : network.inputs)
    inputs.push_back(abstract_array(spec));
  const std::string summary = to_string(network.net->summary(inputs));  // completes the shapes of parameters

  const graph::Graph before = options.train ? samples::step_of(network) : samples::forward_of(network);
  graph::Plan plan(before);
  try_captures(plan);
  const graph::Graph& after = plan.graph();
  std::map<std::string, std::string> files = {
      {"summary.txt",
       summary + layers_of(*network.net) + text_of(options.train ? "A step of training" : "A forward", before, plan)},
      {"memory.svg", memory_to_svg(after, plan.memory_plan())},
  };
  for (const auto& [name, graph] : {std::pair("graph_before", &before), std::pair("graph_after", &after)}) {
    files[fmt::format("{}.txt", name)] = to_text(*graph);
    files[fmt::format("{}.dot", name)] = to_dot(*graph);
    files[fmt::format("{}.svg", name)] = to_svg(*graph);
  }
  if (options.kernels)
    files["kernels.txt"] = kernels_of(after);
  for (const auto& [name, text] : files)
    samples::write_text(folder / name, text);
  samples::put(files["summary.txt"] + '\n');
  samples::say(fmt::format("{} files in {}", files.size(), folder.string()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command(
      "Shows a network: layers, graph before and after passes, memory, fused kernels, as text and pictures.");
  command
      .add_option("network", options.network, "mlp, cnn-torch, cnn-tf; or PREFIX, or PREFIX.json, of an exported one")
      .check(samples::a_name())
      .required();
  command.add_device_flag(options.device);
  command.add_flag("--train", options.train, "A whole step of training, in place of a forward");
  command.add_flag("--kernels", options.kernels, "Also which kernels were fused, and their source: kernels.txt");
  command.add_option("--batch-size", options.batch_size, "Samples at a time")
      .check(samples::whole_within(1, 1000000))
      .with_default();
  command.add_option("--out", options.folder, "Folder for the files").check(samples::a_name()).with_default();
  return samples::run_main(command, argc, argv, [&] { return inspect(options); });
}
