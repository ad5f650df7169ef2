#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/ndarray/shape.h>

namespace sluice::gluon {

/// One call of a layer.
struct LayerSummary {
  std::string path = {};            // as in the names of its parameters: "0.body"; empty for the network itself
  std::string type = {};            // "Dense"
  std::string options = {};         // "784 -> 128, activation=relu": Block::options_text()
  std::size_t depth = 0;            // of layers inside which it was called
  std::vector<Shape> outputs = {};  // what it gave
  std::int64_t parameters = 0;      // elements of its own ones, without those of layers inside
  bool is_shared = false;           // some of these were counted in a call before
  std::int64_t flops = 0;           // of operators that it called itself, as graph::flops() counts
};

/// A network as Block::summary() sees it.
struct Summary {
  std::vector<LayerSummary> layers = {};  // in the order in which they were entered: the network itself comes first
  // Of the network; what several layers share counts once.
  std::int64_t trained_parameters = 0;  // of which gradients are taken
  std::int64_t other_parameters = 0;    // running statistics, and what grad_req null leaves alone
  std::int64_t parameter_bytes = 0;
  std::int64_t flops = 0;
  std::int64_t result_bytes = 0;                  // of a forward as a graph, memory planned
  std::int64_t result_bytes_without_sharing = 0;  // each result in memory of its own

  std::int64_t parameters() const noexcept { return trained_parameters + other_parameters; }
};

/// A table, a line a layer, and the totals below.
SLUICE_API std::string to_string(const Summary& summary);
SLUICE_API std::ostream& operator<<(std::ostream& out, const Summary& summary);

}  // namespace sluice::gluon
