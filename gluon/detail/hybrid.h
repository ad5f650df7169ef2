#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <sluice/gluon/hybrid.h>
#include <sluice/gluon/parameter.h>
#include <sluice/operator/graph/split.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::gluon::detail {

/// What stands for a block's forward: a plan, and where gradients may be asked for a second one for these.
struct HybridProgram {
  Var engine = {};       // keeps what tells the engine from later ones
  bool by_hand = false;  // a plan would not do the same: it writes its inputs, or needs others' gradients
  std::unique_ptr<graph::Plan> forward = {};
  std::size_t outputs = 0;  // the program's own; behind them comes what is saved
  // Of recorded calls:
  graph::Graph again = {};  // the program alone, for gradients of gradients
  std::unique_ptr<graph::Plan> backward = {};
  std::vector<bool> wanted = {};         // of the inputs
  std::vector<NDArray> parameters = {};  // that gradients reach
  std::vector<std::size_t> heads = {};   // outputs that are on the tape
  std::vector<NDArray> constants = {};   // that the gradients read
  std::size_t random = 0;                // numbers that were drawn: the last so many outputs of `forward`
  bool training = false;
};

/// The programs that a block's forward became, one a signature. Any thread.
class Hybrid {
 public:
  using Forward = std::function<Arrays(std::span<const NDArray>)>;

  explicit Hybrid(const HybridOptions& options) : options_(options) {}
  Hybrid(const Hybrid&) = delete;
  Hybrid& operator=(const Hybrid&) = delete;

  /// What forward(inputs) gives. `list`: the block's parameters.
  Arrays run(
      std::span<const NDArray> inputs,
      const Forward& forward,
      const std::function<ParameterDict()>& list,
      SourceLocation site);
  std::size_t traced() const;
  std::shared_ptr<const HybridProgram> last() const;

 private:
  /// What a program was made for. Arrays by identity: the program keeps them, so that no other comes to stand there.
  struct Signature {
    std::vector<ArraySpec> inputs;
    std::vector<bool> wanted;
    std::vector<const void*> parameters;
    bool recorded = false, training = false;
    Float32Precision precision = {};
    const void* engine = nullptr;

    bool operator==(const Signature& other) const;
  };
  struct Known {
    Signature signature;
    std::shared_ptr<const HybridProgram> program;
  };

  bool list_parameters(const std::function<ParameterDict()>& list, std::vector<Parameter>& parameters);
  std::shared_ptr<const HybridProgram> find(const Signature& signature);
  void keep(Signature signature, std::shared_ptr<const HybridProgram> program);

  const HybridOptions options_;
  mutable std::mutex mutex_;
  std::deque<Known> known_;  // the one used last comes first
  std::vector<Parameter> parameters_;
  bool listed_ = false;
  std::uint64_t changes_ = 0;  // of networks, when the parameters were listed
  std::size_t traced_ = 0;
};

}  // namespace sluice::gluon::detail
