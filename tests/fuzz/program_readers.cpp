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

// An LSTM over (5, 5, 4), and a network over (2, 1, 50) with lengths, whose parameters are those of a layer.
constexpr std::string_view k_recurrent =
    R"x({"nodes":[{"op":"null","name":"data","inputs":[]},{"op":"null","name":"fc_weight","inputs":[]},)x"
    R"x({"op":"null","name":"fc_bias","inputs":[]},)x"
    R"x({"op":"Reshape","name":"w","attrs":{"shape":"(-1,)"},"inputs":[[1,0,0]]},)x"
    R"x({"op":"_rnn_param_concat","name":"all","attrs":{"dim":"0","num_args":"1"},"inputs":[[3,0,0]]},)x"
    R"x({"op":"Reshape","name":"x","attrs":{"shape":"(5, 5, 4)"},"inputs":[[0,0,0]]},)x"
    R"x({"op":"_zeros","name":"h","attrs":{"shape":"(1, 0, 3)","dtype":"float32","ctx":""},"inputs":[]},)x"
    R"x({"op":"RNN","name":"lstm","attrs":{"mode":"lstm","state_size":"3","num_layers":"1","p":"0.5",)x"
    R"x("state_outputs":"True"},"inputs":[[5,0,0],[4,0,0],[6,0,0],[6,0,0]]},)x"
    R"x({"op":"SwapAxis","name":"turned","attrs":{"dim1":"0","dim2":"1"},"inputs":[[7,0,0]]},)x"
    R"x({"op":"Reshape","name":"wide","attrs":{"shape":"(2, 1, 50)"},"inputs":[[0,0,0]]},)x"
    R"x({"op":"slice_axis","name":"length","attrs":{"axis":"0","begin":"0","end":"1"},"inputs":[[2,0,0]]},)x"
    R"x({"op":"_zeros","name":"h2","attrs":{"shape":"(1, 0, 2)"},"inputs":[]},)x"
    R"x({"op":"RNN","name":"relu","attrs":{"mode":"rnn_relu","state_size":"2","num_layers":"1",)x"
    R"x("bidirectional":"False","use_sequence_length":"True"},"inputs":[[9,0,0],[4,0,0],[11,0,0],[10,0,0]]},)x"
    R"x({"op":"Embedding","name":"rows","attrs":{"input_dim":"4","output_dim":"27"},"inputs":[[10,0,0],[1,0,0]]}],)x"
    R"x("heads":[[8,0,0],[7,1,0],[12,0,0],[13,0,0]]})x";

Reader symbols() {
  const auto write =
      [](const Path& folder) {
        std::ofstream(folder / "net.json") << test::k_mxnet_symbol;
        std::ofstream(folder / "short.json")
            << R"({"nodes":[{"op":"null","name":"data","inputs":[]},{"op":"relu","name":"r","inputs":[[0,0,0]]}],)"
            << R"("heads":[[1,0,0]]})";
        std::ofstream(folder / "recurrent.json") << k_recurrent;
      };
  return {.name = "mxnet_symbol", .ending = ".json", .write = write, .read = [](const Path& file) {
            const auto network = gluon::formats::MxnetSymbol::imports(file, {"data"}, symbol_parameters());
            for (const NDArray& result : network({ones({2, 2, 5, 5})}))
              result.wait_to_read();
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
