#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/gluon/block.h>

namespace sluice::gluon::formats {

/// A network that MXNet exported (`net.export("net")`, Module's checkpoints): PREFIX-symbol.json, run operator by
/// operator as any block, so that it can be trained, hybridized, and exported to a file of Sluice's own. Parameters
/// have MXNet's names; running statistics are not trained.
///
///     const auto net = gluon::formats::MxnetSymbol::imports("net-symbol.json", {"data"}, "net-0000.params", gpu(0));
///     const NDArray y = net(x);
///
/// RNN nodes are rnn(), with lengths where they use them; states that Gluon begins with zeros of an open batch fit any.
/// Labels of output layers (SoftmaxOutput) need no value: they give predictions. Any number of threads may call it.
class SLUICE_API MxnetSymbol : public Block {
 public:
  /// Reads the symbol, and the parameters onto `device`. The block takes its inputs in the order of the names in
  /// `inputs`. Throws FileError, naming the file and what is wrong with it, for files that are missing or damaged, and
  /// where an array has neither a value nor is an input; UnsupportedError naming node, operator and attribute for what
  /// there is no counterpart of; ValueError for inputs that the symbol has not, for two parameters of one name, and for
  /// names with a dot.
  static MxnetSymbol imports(
      const std::filesystem::path& symbol,
      const std::vector<std::string>& inputs = {"data"},
      const std::filesystem::path& parameters = {},
      Device device = cpu(),
      SourceLocation site = SourceLocation::current());
  MxnetSymbol(MxnetSymbol&&) noexcept;
  ~MxnetSymbol() override;

  /// MXNet's operators that have a counterpart here.
  static std::vector<std::string> known_operators();

 protected:
  Arrays forward_all(std::span<const NDArray> inputs) const override;

 private:
  struct Program;
  explicit MxnetSymbol(std::unique_ptr<Program> program);

  std::unique_ptr<Program> program_;
};

}  // namespace sluice::gluon::formats
