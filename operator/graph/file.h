#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/operator/attributes.h>
#include <sluice/operator/graph/graph.h>

// Graphs as text in JSON, which docs/graph_file.md describes: programs go from one to another.
namespace sluice::graph {

/// The newest version that from_json() reads. to_json() writes it for graphs with loops and branches, which have graphs
/// as attributes, and 1 for others.
inline constexpr int k_file_version = 2;

/// An input of the caller's.
struct FileInput {
  std::string name = {};
  bool batch = false;  // with_inputs() takes any extent of the first axis, the same for all such inputs
};

/// An array whose values stand in a parameter file under its name.
struct FileParameter {
  std::string name = {};
  GradReq grad_req = GradReq::null;
  double lr_mult = 1, wd_mult = 1;
};

/// A layer of the network that a graph was traced of, and how it was made: for readers, it computes nothing.
struct FileLayer {
  std::string name = {};  // its path, "features.0"; of the network itself ""
  std::string type = {};  // "Conv2D"
  std::vector<NamedValue> options = {};
};

/// A graph without constants, and the names by which others know what it takes and gives.
struct GraphFile {
  Graph graph = {};  // its inputs: first `inputs`, then `parameters`
  std::vector<FileInput> inputs = {};
  std::vector<FileParameter> parameters = {};
  std::vector<std::string> outputs = {};
  std::map<std::string, std::string> notes = {};  // what the writer wants to be remembered: names of classes, say
  std::vector<FileLayer> layers = {};             // the network, then its children, each before its own
  std::uint32_t parameter_checksum = 0;           // CRC-32 of the parameter file
};

/// The text of a file, a node a line. What is on the first input's device (without inputs: on the CPU) is written as
/// being where the program runs. Throws ValueError where names and arrays are not of one number, for constants, and for
/// what a reader could not take: an operator that find_operator() does not know, a name twice, text that is not UTF-8.
/// DeviceError for a device that is not there.
SLUICE_API std::string to_json(const GraphFile& file);

/// What to_json() wrote, for arrays on `device`; `name` is the file's, for messages. Every node was inferred there, and
/// gives what the text says. Sites of nodes name the file, the layer and the line of the program that made it. The
/// graph is for with_inputs() and evaluate(): random nodes draw their own numbers. Throws FileError, naming the file
/// and the place in it, for text that is damaged, incomplete, of a newer version, or no such graph; UnsupportedError
/// for operators that this process does not have or that do not work on the device; DeviceError.
SLUICE_API GraphFile from_json(std::string_view text, const std::string& name, Device device = cpu());

/// CRC-32, as zlib, PNG and zip have it, of `bytes` behind those that gave `before`.
SLUICE_API std::uint32_t checksum(std::string_view bytes, std::uint32_t before = 0) noexcept;
/// Eight hexadecimal digits.
SLUICE_API std::string checksum_text(std::uint32_t checksum);
/// The checksum of a graph file's text: of its bytes with the digits of "checksum" as zeros. Throws ValueError where
/// the text does not begin as to_json() writes it. With it, who changes a file by hand makes it whole again.
SLUICE_API std::uint32_t text_checksum(std::string_view text);

}  // namespace sluice::graph
