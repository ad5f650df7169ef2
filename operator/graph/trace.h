#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include <sluice/ndarray/autograd.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/sink.h>

namespace sluice::graph {

/// What becomes of arrays that a program uses and that are not its inputs: constants, which have memory; or captured,
/// as further inputs, with or without memory: the program is the body of a loop, say, in another one.
enum class Outside : std::uint8_t { constants, captured };

/// What becomes of what a recorded program takes off the tape, by detach() or in a PauseScope: nothing to be seen, or a
/// node where gradients of the graph end as the program's did. Programs that capture keep it always.
enum class Detached : std::uint8_t { forgotten, kept };

/// Takes the calls of a thread and makes a graph of them: no call runs. Arrays that the program is given are input()s,
/// without memory; arrays with memory that it uses beside become constants, by reference, so that a graph sees what is
/// written to a parameter later. Random numbers are drawn when a graph runs. Compositions that no kernel is for are
/// taken apart.
///
///     Tracer tracer;
///     const NDArray x = tracer.input({.shape = {32, 784}, .dtype = float32, .device = gpu(0)});
///     const Graph graph = tracer.trace([&] { return Arrays{net(x)}; });
class SLUICE_API Tracer final : public CallSink {
 public:
  explicit Tracer(Outside outside = Outside::constants, Detached detached = Detached::forgotten) noexcept
      : outside_(outside), marks_detached_(outside == Outside::captured || detached == Detached::kept) {}

  /// An array of the graph's caller. In the order of the calls, before trace(). Throws ValueError afterwards.
  /// `differentiable`: the program may ask for its gradient.
  NDArray input(const ArraySpec& spec, bool differentiable = true);
  /// An input behind the others, made by the program that is being traced: the gradient of an output, whose shape was
  /// not known before.
  NDArray late_input(const ArraySpec& spec);
  /// The graph of what `program` calls, whose outputs are the arrays that it returns. What it throws, trace() throws;
  /// ValueError for one that is undefined. Once: a second call throws ValueError. Arrays that the program makes of its
  /// own values, array() and empty(), are constants: one array for all runs.
  template <class Program>
  Graph trace(Program&& program) {
    begin();
    const PlacesKept as_before(*this);
    const CallSinkScope taken(this);
    const Arrays outputs = program();
    return finish(outputs);
  }

  Arrays take(const OperatorCall& call) override;
  std::uint64_t version_of(const NDArray& array) const noexcept override;
  void note_hook() override;
  /// Arrays with memory that the program used so far and whose gradients are recorded: variables, and what came from
  /// some.
  const std::vector<NDArray>& recorded_constants() const noexcept { return recorded_; }
  /// Was a write to memory from outside recorded? Run, it would have left that array on the tape; trace() puts arrays
  /// from outside back to where they were.
  bool records_outside() const noexcept { return records_outside_; }
  /// Did the program use an array with gradients that the calls do not tell, of an autograd::Node of its own or with a
  /// hook? A program
  /// that captures is refused then.
  bool has_own_gradients() const noexcept { return has_own_gradients_; }
  /// Which call was the first that records_outside() or has_own_gradients() tells of: its name and line; empty if none.
  const std::string& beyond_calls() const noexcept { return beyond_calls_; }
  /// Is the place of an array on the tape the one that the calls gave it? Not of what the program made a variable, nor
  /// of gradients of its own.
  bool stands_as_called(const NDArray& array);
  /// Arrays that were captured: of the inputs behind those that input() made. Handles that stand at other places of the
  /// tape are captured apart.
  const std::vector<NDArray>& captured() const noexcept { return captured_; }
  /// Which value of the graph an array without memory stands for, by abstract_value(); none of what is not of it.
  std::optional<ValueId> find(std::uint64_t value) const;
  /// How many nodes the graph has so far.
  std::size_t size() const noexcept { return graph_.nodes.size(); }

 private:
  /// Which part of whose memory an array with memory is; whether gradients go there, if that is kept.
  using Place = std::tuple<const void*, std::int64_t, std::string, bool>;

  /// Puts arrays that were there before back to their places on the tape.
  class PlacesKept {
   public:
    explicit PlacesKept(Tracer& tracer) noexcept : tracer_(tracer) {}
    PlacesKept(const PlacesKept&) = delete;
    PlacesKept& operator=(const PlacesKept&) = delete;
    ~PlacesKept();

   private:
    Tracer& tracer_;
  };
  /// Whether an array on the tape came from the call that made it, or is a variable or of a node that the program put
  /// there.
  enum class Standing : std::uint8_t { as_called, variable, own_node };

  void begin();
  Graph finish(std::span<const NDArray> outputs);
  /// `root`: of a view.
  ValueId add(Value value, std::optional<ValueId> root = {});
  ValueId value_of(const NDArray& array, bool shape_only);
  ValueId constant_of(const NDArray& array);
  ValueId capture(const NDArray& array);
  ValueId operand_of(const NDArray& array, bool shape_only, bool recorded);
  ValueId stopped(ValueId value);
  Standing standing_of(const NDArray& array, ValueId id) const;
  void note_beyond_calls(const std::string& what);
  void note_own_gradient(const autograd::Node& node);
  void note_writes(const OperatorCall& call);
  Arrays take_apart(const OperatorCall& call);
  Arrays add_results(const OperatorCall& call, Node node);
  Node node_of(const OperatorCall& call);
  void add_random_state(const OperatorCall& call, Node& node);

  const Outside outside_;
  const bool marks_detached_;
  Graph graph_;
  std::vector<NDArray> recorded_;
  std::vector<NDArray> captured_;
  std::vector<ValueId> captured_ids_;
  std::vector<bool> differentiable_;                  // by value: made of something with gradients
  std::unordered_map<ValueId, ValueId> stopped_ids_;  // the same off the tape
  bool begun_ = false, records_outside_ = false, has_own_gradients_ = false;
  std::string beyond_calls_;
  const CallSink* outer_ = nullptr;  // whose calls were taken before
  std::vector<std::pair<NDArray, autograd::Entry>> places_ =
      {};                                                     // on the tape, of what was there before and is written
  std::unordered_map<ValueId, std::uint64_t> versions_ = {};  // by root
  std::unordered_map<ValueId, NDArray> inputs_ = {};          // as they were given out
  std::unordered_map<std::uint64_t, ValueId> abstract_;
  std::map<Place, ValueId> constants_;
  std::map<const void*, ValueId> roots_;  // of constants, by memory
};

}  // namespace sluice::graph
