#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

#include <sluice/gluon/api.h>
#include <sluice/gluon/estimator/training_state.h>
#include <sluice/gluon/formats/mxnet_symbol.h>
#include <sluice/operator/graph/file.h>

#include "tests/fuzz/readers.h"
#include "tests/gluon/mxnet_files.h"

namespace sluice::fuzz {

namespace {

std::string text_of(const Path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void repair_graph(Bytes& bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::string_view key = "\"checksum\": \"";
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos || at + key.size() + 8 > text.size())
    return;
  try {
    const std::string digits = graph::checksum_text(graph::text_checksum(text));
    std::copy(digits.begin(), digits.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at + key.size()));
  } catch (const Error&) {  // of no such file
  }
}

Reader graphs() {
  const auto write = [](const Path& folder) {
    gluon::nn::Sequential net;
    net.add(gluon::nn::Conv2D(2, 3, {.activation = "relu"}), gluon::nn::BatchNorm(), gluon::nn::Dense(3));
    net.initialize();
    net(zeros({2, 1, 6, 6})).wait_to_read();
    net.export_to(folder / "net", {zeros({2, 1, 6, 6})});
    std::filesystem::remove(folder / "net.npz");
  };
  return {
      .name = "graph",
      .ending = ".json",
      .write = write,
      .read = [](const Path& file) { graph::to_json(graph::from_json(text_of(file), file.string())); },
      .repair = repair_graph};
}

// In memory that goes with the process.
const Path& symbol_parameters() {
  static const Path made = [] {
    const std::string& digits = test::k_mxnet_parameters;
    std::string bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2)
      bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    const int file = memfd_create("parameters", 0);
    if (file < 0 || ::write(file, bytes.data(), bytes.size()) != std::ssize(bytes))
      std::abort();
    return Path("/proc/self/fd") / std::to_string(file);
  }();
  return made;
}

Reader symbols() {
  const auto write =
      [](const Path& folder) {
        std::ofstream(folder / "net.json") << test::k_mxnet_symbol;
        std::ofstream(folder / "short.json")
            << R"({"nodes":[{"op":"null","name":"data","inputs":[]},{"op":"relu","name":"r","inputs":[[0,0,0]]}],)"
            << R"("heads":[[1,0,0]]})";
      };
  return {
      .name = "mxnet_symbol", .ending = ".json", .write = write, .read = [](const Path& file) {
        gluon::formats::MxnetSymbol::imports(file, {"data"}, symbol_parameters())(ones({2, 2, 5, 5})).wait_to_read();
      }};
}

Reader states() {
  const auto write = [](const Path& folder) {
    gluon::estimator::TrainingState state;
    state.parameters = {{"weight", ones({2})}};
    state.progress = {.epochs = 1, .batches = 9, .batch_in_epoch = 2, .fits = 1, .total_epochs = 1, .total_batches = 9};
    state.metrics = {{"0 loss", {}}};
    state.without_values = {"bias"};
    gluon::estimator::write_state(folder / "state.npz", state);
  };
  return {.name = "training_state", .ending = ".npz", .write = write, .read = [](const Path& file) {
            gluon::estimator::read_state(file);
          }};
}

}  // namespace

std::vector<Reader> program_readers() {
  return {graphs(), symbols(), states()};
}

}  // namespace sluice::fuzz
