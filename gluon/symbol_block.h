#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>
#include <sluice/operator/graph/file.h>
#include <sluice/operator/graph/graph.h>

namespace sluice::gluon {

/// What a SymbolBlock takes or gives.
struct SymbolArray {
  std::string name = {};
  Shape shape = {};  // as it was exported
  DType dtype = float32;
  bool batch = false;  // the first axis may have any extent; the same for all inputs of which this is true
};

/// A network that Block::export_to() wrote, without the class that it was. It computes what that did in predict mode,
/// to the last bit, in train mode too: dropout is gone, batch norm keeps its running statistics. Parameters have their
/// old names and can be trained; save_parameters(), load_parameters() and to() work as for any block.
///
///     net.export_to("net", {x});
///     const auto same = gluon::SymbolBlock::imports("net.json", {"data"}, "net.npz", gpu(0));
///     const NDArray y = same(x.to(gpu(0)));
///
/// Any number of threads may call it at once.
class SLUICE_API SymbolBlock : public Block {
 public:
  /// Reads PREFIX.json, and of `parameters` (default: PREFIX.npz beside it) the arrays, onto `device`. The block takes
  /// its inputs in the order of the names in `inputs`; all must be named; none: as they were exported. The host waits
  /// for nothing. Throws FileError, naming file and place, for files that are missing, damaged, of a newer version, or
  /// do not belong together; UnsupportedError for operators that this process does not have, or has not for the device;
  /// ValueError for other names of inputs; DeviceError.
  static SymbolBlock imports(
      const std::filesystem::path& graph,
      const std::vector<std::string>& inputs = {},
      const std::filesystem::path& parameters = {},
      Device device = cpu(),
      SourceLocation site = SourceLocation::current());
  SymbolBlock(SymbolBlock&&) noexcept;
  ~SymbolBlock() override;

  /// In the order in which the block takes and gives them.
  std::vector<SymbolArray> inputs() const;
  std::vector<SymbolArray> outputs() const;
  /// What export_to() was told to remember.
  const std::map<std::string, std::string>& notes() const noexcept;
  /// The layers of the network that was exported, with their options: the network, "", then its children, each before
  /// its own. Empty for files of before they were written.
  const std::vector<graph::FileLayer>& layers() const noexcept;
  /// As it stands in the file; its inputs are the network's and then the parameters.
  const graph::Graph& graph() const noexcept;

  /// Throws UnsupportedError: types are the graph's own. Cast the network before it is exported.
  void cast(DType dtype) override;

 protected:
  /// Throws ShapeError and DTypeError for inputs that are not as they were exported, but for the batch.
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  struct State;
  explicit SymbolBlock(std::unique_ptr<State> state);
  void declare(const std::map<std::string, NDArray>& arrays, const std::string& file);
  std::unique_ptr<State> state_;
};

}  // namespace sluice::gluon
