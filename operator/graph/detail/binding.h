#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/operator/graph/detail/held.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/memory_plan.h>

namespace sluice::control {
class BoundBodies;
}

namespace sluice::graph {

/// A graph with an array for each value: what a plan runs. Inputs that the graph does not write, and outputs that it
/// makes, come from outside: each run may bring others (attach()).
class Binding {
 public:
  /// One call, ready.
  struct Step {
    const Operator* op;
    Arrays inputs;
    const Attributes* attributes;
    Arrays destinations;
    SourceLocation site;
    Device device;
    bool capturable;                                    // may be part of a CUDA graph
    std::shared_ptr<control::BoundBodies> branch = {};  // what it then is, if it has bodies
    bool is_apart = false;                              // it had, see take_branches_apart()
  };

  /// Makes all arrays but those from outside. `graph` must outlive the binding. `room`: arrays of bytes that the slots
  /// of its memory plan take, the largest the first; none: they have memory of their own.
  Binding(const Graph& graph, Sharing sharing, Engine& engine, std::span<const NDArray> room = {});
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

  /// Are the constants still where they were? backward() may exchange a gradient's memory.
  bool is_current() const;
  const std::vector<Step>& steps() const noexcept { return steps_; }
  const NDArray& array(ValueId value) const noexcept { return arrays_[value]; }
  const MemoryPlan& memory() const noexcept { return memory_; }
  /// Of what bodies of branches make that a GPU chooses by itself, beside the memory plan.
  std::size_t bytes_of_branches() const noexcept { return bytes_of_branches_; }

  /// What is packed for views, beside the memory plan.
  const Arrays& packed() const noexcept { return packed_; }
  /// No branch is part of a CUDA graph any longer; memory for them goes when work under way is over.
  void take_branches_apart() noexcept;

  /// The values whose arrays come from outside, roots of memory: inputs first, then results.
  const std::vector<ValueId>& outside() const noexcept { return outside_; }
  /// An array for such a value, as steps need it to lie.
  NDArray new_outside(ValueId value, Engine& engine) const;
  /// The same in the memory of `kept`, which was made so.
  NDArray outside_on(const NDArray& kept, ValueId value) const;
  /// May the value have this array? It lies as new_outside() says, and the graph writes nothing in its memory.
  bool takes(ValueId value, const NDArray& array) const;
  /// Does it lie as new_outside() says?
  bool lies_so(ValueId value, const NDArray& array) const noexcept;
  /// Steps use these from now on, one for each of outside(); they are kept until detach().
  void attach(const Arrays& arrays);
  void detach() noexcept;

  /// Is the value's array one from outside, or a view of one?
  bool follows(ValueId value) const noexcept { return follows_[value]; }

  /// Says where this run's random numbers begin, as if each node had drawn its own when it was reached.
  void draw(Engine& engine, SourceLocation site);
  /// See PlanOptions::poison. `results`: those of attach().
  void poison(std::span<const NDArray> results, SourceLocation site) const;
  /// For gradients that were recorded before: what the graph writes in memory of others is not what it was.
  void raise_versions() const;
  bool writes_outside() const noexcept { return !written_.empty(); }
  /// A branch while a region records: as part of its CUDA graph.
  static void run(const Step& step);

 private:
  /// The states of all nodes on one device that take random numbers: (nodes, 2) of int64.
  struct RandomStates {
    NDArray states;
    std::vector<ValueId> values;
  };
  /// Where an array from outside, or a view of one, is used.
  struct Use {
    ValueId value;
    std::size_t step;
    std::size_t place;
    bool is_destination;
  };
  struct View {
    ValueId base, made;
    Geometry lies;
  };

  void choose_outside();
  void make_slots(std::span<const NDArray> room, Engine& engine);
  void bind_sources(Engine& engine);
  void bind_random(Engine& engine, Device device);
  void bind_node(const Node& node, Engine& engine);
  void bind_view(const Node& node);
  NDArray result_of(const Node& node, ValueId id, const Arrays& inputs, Engine& engine);
  void note_uses(const Node& node);
  Arrays inputs_of(const Node& node) const;
  void note_written();

  const Graph& graph_;
  std::vector<bool> is_outside_;  // by root
  std::vector<bool> follows_;     // by value: it is the array of its root from outside, or a view of that
  std::vector<ValueId> outside_;
  std::vector<Shape> strides_;  // of values from outside
  std::vector<Use> uses_;
  std::vector<View> views_;
  MemoryPlan memory_;
  std::size_t bytes_of_branches_ = 0;
  Arrays slots_, packed_;
  std::vector<NDArray> arrays_;
  std::vector<Step> steps_;
  std::vector<RandomStates> random_;
  std::vector<RandomBlock> drawn_;   // of draw(): kept, so that runs take nothing from the heap
  std::vector<std::int64_t> words_;  // the same
  std::vector<Held> held_;
  std::vector<ValueId> written_;
  std::unordered_set<const void*> written_memory_;
};

/// Steps use the arrays as long as it lives.
class Attached {
 public:
  Attached(Binding& binding, const Arrays& arrays) : binding_(binding) { binding.attach(arrays); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached() { binding_.detach(); }

 private:
  Binding& binding_;
};

}  // namespace sluice::graph
