// Runs what MXNet exported, for mxnet_zoo.py: mxnet_forward PREFIX MODEL INPUT RESULT. PREFIX-symbol.json and
// PREFIX-0000.params are a Gluon export, PREFIX.params what save_parameters() wrote of the same network, which MODEL is
// called in the zoo here; INPUT holds one array. RESULT gets "symbol", what the export gives; "graph", what it gives
// hybridized, through a file of our own; and "zoo", what the model here gives on those parameters.
#include <exception>
#include <iostream>
#include <string>

#include <sluice/sluice.h>

namespace {

using namespace sluice;

void run(const std::string& prefix, const std::string& model, const std::string& input, const std::string& result) {
  const NDArray x = gluon::formats::load_any(input).at(0).second;
  gluon::formats::NamedArrays results;
  auto net = gluon::formats::MxnetSymbol::imports(prefix + "-symbol.json", {"data"}, prefix + "-0000.params");
  results.emplace_back("symbol", net(x));
  net.export_to(prefix + "-ours", {x});
  results.emplace_back("graph", gluon::SymbolBlock::imports(prefix + "-ours.json")(x));
  auto ours = gluon::model_zoo::vision::get_model(model);
  ours.initialize(gluon::init::Zero());
  ours(x).wait_to_read();  // sizes of inputs come with the first
  ours.load_parameters(prefix + ".params", {.in_order = true});
  results.emplace_back("zoo", ours(x));
  gluon::formats::save_any(result, results);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "mxnet_forward PREFIX MODEL INPUT RESULT\n";
    return 2;
  }
  try {
    run(argv[1], argv[2], argv[3], argv[4]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
