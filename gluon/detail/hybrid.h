#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/detail/fork_watch.h>
#include <sluice/engine/detail/published.h>
#include <sluice/gluon/detail/hybrid_trace.h>
#include <sluice/gluon/detail/parameter_reads.h>
#include <sluice/gluon/hybrid.h>
#include <sluice/gluon/parameter.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::gluon::detail {

/// What stands for a block's forward: a plan, and where gradients may be asked for a second one for these. Behind the
/// outputs of the first come what is saved and the numbers that were drawn.
struct HybridProgram : ForwardOutline {
  Var engine = {};  // keeps what tells the engine from later ones
  std::unique_ptr<graph::Plan> forward = {};
  std::vector<NDArray> captured = {};  // that are neither inputs nor parameters, off the tape when it was traced
  std::shared_ptr<const TracedForward> traced = {};  // what stands for other batches too; null of one size alone
  // Of recorded calls:
  graph::Graph again = {};  // the program alone, for gradients of gradients; its outputs are the heads
  std::vector<std::size_t> random_again = {};  // which of the numbers that were drawn it reads
  std::unique_ptr<graph::Plan> backward = {};
  std::vector<NDArray> constants = {};        // that the gradients read
  std::vector<NDArray> constants_again = {};  // that `again` reads beside
  std::size_t random = 0;                     // numbers that were drawn: the last so many outputs of `forward`
};

/// The programs that a block's forward became, one a signature. Any thread; a call that finds its program takes no lock
/// and writes to no memory that it shares with others.
class Hybrid {
 public:
  using Forward = std::function<Arrays(std::span<const NDArray>)>;
  using List = std::function<ParameterDict()>;

  explicit Hybrid(const HybridOptions& options) : options_(options), most_plans_(options.most_plans) {}
  Hybrid(const Hybrid&) = delete;
  Hybrid& operator=(const Hybrid&) = delete;

  /// What forward(inputs) gives. `list`: the block's parameters.
  Arrays run(std::span<const NDArray> inputs, const Forward& forward, const List& list, SourceLocation site);
  std::size_t traced() const;
  /// For so many plans beside those of the options.
  void make_room(std::size_t plans);
  std::shared_ptr<const HybridProgram> last() const;
  /// A call that cannot be a graph, whatever the network: why. Text that stays.
  void note_aside(const char* why) noexcept;
  /// Why the last call ran by hand, or is no one CUDA graph on a GPU; empty where neither.
  std::string reason() const;

 private:
  /// What a program was made for. Arrays by identity: the program keeps them, so that no other comes to stand there.
  struct Signature {
    std::vector<ArraySpec> inputs = {};
    std::vector<bool> wanted = {};
    std::vector<const void*> parameters = {};  // array and gradient of each
    bool recorded = false;                     // something of it is on the tape
    bool recording = false;                    // the caller records
    bool training = false;
    Float32Precision precision = {};
    std::optional<DType> autocast = {};
    const void* engine = nullptr;

    bool operator==(const Signature& other) const;
    /// All but the inputs.
    bool is_like(const Signature& other) const;
  };
  struct Known {
    Signature signature;
    std::shared_ptr<const HybridProgram> program;
    mutable std::atomic<std::uint64_t> used;  // on uses_

    Known(Signature&& of, std::shared_ptr<const HybridProgram> made, std::uint64_t at)
        : signature(std::move(of)), program(std::move(made)), used(at) {}
  };
  /// All that is known of the network as it is.
  struct Table {
    std::uint64_t changes = 0;    // of networks, when the parameters were listed
    std::uint64_t of_called = 0;  // changes of those that had been called
    std::vector<Parameter> parameters = {};
    std::vector<std::shared_ptr<const Known>> known = {};

    /// The same network, whatever others were built meanwhile.
    bool is_of(std::uint64_t called, const std::vector<Parameter>& own) const;
  };
  using Reading = sluice::detail::Published<Table>::Reading;
  enum class Found : std::uint8_t { program, none, no_table, no_shapes };
  struct Lookup {
    Found what;
    const Known* known = nullptr;
  };

  static bool stands_for(const Signature& made, std::span<const NDArray> inputs, const Table& table, bool recorded);
  static Signature signature_of(std::span<const NDArray> inputs, const Table& table, bool recorded);
  static Lookup look_up(const Reading& table, std::span<const NDArray> inputs, std::uint64_t changes);
  static std::shared_ptr<const TracedForward> find_like(const Table& table, const Signature& signature);
  void note_use(const Known& known);
  void list_parameters(const List& list);
  Arrays run_new(std::span<const NDArray> inputs, const Forward& forward, SourceLocation site);
  std::shared_ptr<const HybridProgram> keep(
      Signature signature,
      std::shared_ptr<const HybridProgram> program,
      std::uint64_t of_called,
      const std::vector<Parameter>& parameters);

  const HybridOptions options_;
  mutable std::mutex mutex_;  // of who changes the table
  const sluice::detail::HeldOverForks held_{mutex_};
  std::size_t most_plans_;
  sluice::detail::Published<Table> table_;
  alignas(64) std::atomic<std::uint64_t> uses_{0};  // written where programs change, not beside what all read
  std::atomic<const Known*> used_last_{nullptr};    // to be compared alone
  std::atomic<const char*> aside_{nullptr};         // why the last call asked for no program
  std::atomic<std::size_t> traced_{0};
};

inline ArraySpec spec_of(const NDArray& array) {
  return {array.shape(), array.dtype(), array.device()};
}

/// Traces one call of `forward` and makes plans of it. `wanted`: the inputs that somebody may ask gradients of;
/// `recorded`: something that it reads is on the tape. Throws what `forward` throws.
std::shared_ptr<const HybridProgram> make_program(
    const Hybrid::Forward& forward,
    const std::vector<Parameter>& parameters,
    const HybridOptions& options,
    std::span<const NDArray> inputs,
    const std::vector<bool>& wanted,
    bool recorded);

/// Plans of what was traced for a batch of another size; null where the program may be another.
std::shared_ptr<const HybridProgram> make_program_like(
    const TracedForward& known,
    const std::vector<Parameter>& parameters,
    const HybridOptions& options,
    std::span<const NDArray> inputs);

}  // namespace sluice::gluon::detail
