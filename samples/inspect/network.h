#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sluice/sluice.h>

namespace samples {

/// A network to look at: one of the samples', or from a file.
struct Network {
  std::unique_ptr<sluice::gluon::Block> net;
  std::unique_ptr<sluice::gluon::loss::Loss> loss;
  std::vector<sluice::ArraySpec> inputs;
};

/// `name`: mlp, cnn-torch or cnn-tf, otherwise PREFIX or PREFIX.json of an exported network. `batch`: samples at a
/// time; a network from a file may be for one size alone, which it keeps. Throws what SymbolBlock::imports() throws.
Network network_of(const std::string& name, std::int64_t batch, sluice::Device device);

/// What a forward in predict mode calls. The shapes of all parameters must be known.
sluice::graph::Graph forward_of(const Network& network);

/// What a step of training with Adam calls: one is done, on zeros. Throws sluice::ValueError for networks that do not
/// tell classes apart.
sluice::graph::Graph step_of(const Network& network);

}  // namespace samples
