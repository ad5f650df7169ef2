#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/autocast_here.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/autograd/checkpoint.h>

namespace sluice::autograd {

namespace {

/// The random numbers of an engine from `state` on, until it goes.
class RandomNumbersFrom {
 public:
  RandomNumbersFrom(Engine& engine, const RandomBlock& state) : engine_(engine), before_(engine.random_state()) {
    engine.set_random_state(state);
  }
  RandomNumbersFrom(const RandomNumbersFrom&) = delete;
  RandomNumbersFrom& operator=(const RandomNumbersFrom&) = delete;
  ~RandomNumbersFrom() { engine_.set_random_state(before_); }

 private:
  Engine& engine_;
  RandomBlock before_;
};

/// Casts of amp::autocast() as in forward. Of variables they are the segment's own, both times: what it leads to on the
/// tape is the variables.
class OwnCasts {
 public:
  explicit OwnCasts(std::optional<DType> low) {
    if (low)
      scope_.emplace(low);
  }

 private:
  detail::NoAutocast others_;
  std::optional<amp::AutocastScope> scope_;
};

bool is_same(const Entry& a, const Entry& b) noexcept {
  return a.node.get() == b.node.get() && a.index == b.index;
}

// Where what was recorded in a section begins: each place of the tape before it that its nodes lead to, once.
std::vector<Entry> places_before(std::span<const NDArray> results, std::uint32_t section) {
  std::vector<Entry> found;
  std::vector<NodeRef> open;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](const Entry& entry) {
    if (!entry.node)
      return;
    // A variable ends the tape wherever it was made: a layer whose shapes come with its first call makes some.
    if (entry.node->section() != section || entry.node->inputs.empty()) {
      if (std::none_of(found.begin(), found.end(), [&](const Entry& known) { return is_same(known, entry); }))
        found.push_back(entry);
    } else if (seen.insert(entry.node.get()).second) {
      open.push_back(entry.node);
    }
  };
  for (const NDArray& result : results)
    visit(entry_of(result));
  while (!open.empty()) {
    const NodeRef node = std::move(open.back());
    open.pop_back();
    for (const Entry& input : node->inputs)
      visit(input);
  }
  return found;
}

/// What a segment begins with, as it is before it runs: what it writes itself is seen in backward.
struct Given {
  std::vector<Saved> arrays = {};
  std::vector<Entry> entries = {};
  RandomBlock random = {};
  std::optional<DType> autocast = {};
};

Given given_of(std::span<const NDArray> inputs) {
  Given given{.random = Engine::current().random_state(), .autocast = amp::autocast_dtype()};
  for (const NDArray& input : inputs) {
    given.arrays.emplace_back(input);
    given.entries.push_back(entry_of(input));
  }
  return given;
}

/// A segment that ran, and runs again in backward.
class CheckpointNode final : public Node {
 public:
  CheckpointNode(Segment segment, Given given, const std::vector<Entry>& places, bool training, SourceLocation site)
      : Node("checkpoint", site), segment_(std::move(segment)), given_(std::move(given)), training_(training) {
    inputs.assign(places.begin(), places.end());
  }

  void note_results(std::span<const NDArray> results) {
    for (const NDArray& result : results)
      outputs.push_back({result.shape(), result.dtype(), result.device()});
  }

  std::vector<NDArray> pull(std::span<const NDArray> output_grads) override {
    require<AutogradError>(static_cast<bool>(segment_), [] {
      return "checkpoint: its segment was dropped by an earlier backward; ask for retain_graph";
    });
    std::optional<EngineScope> scope;
    std::vector<NDArray> heads, head_grads;
    const bool create_graph = is_recording();
    {
      const std::vector<NDArray> given = restored();
      for (std::size_t i = 0; i < output_grads.size() && !scope; ++i) {
        if (output_grads[i].defined())
          scope.emplace(output_grads[i].engine());
      }
      const std::vector<NDArray> results = run_again(given);
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (output_grads[i].defined() && on_tape(results[i])) {
          heads.push_back(results[i]);
          head_grads.push_back(output_grads[i]);
        }
      }
    }
    if (heads.empty())
      return std::vector<NDArray>(inputs.size());
    const std::vector<Entry> places(inputs.begin(), inputs.end());
    return grad_at(
        "checkpoint", heads, head_grads, places, {.create_graph = create_graph, .train_mode = training_}, site());
  }

  void release_saved() noexcept override {
    segment_ = nullptr;
    given_ = {};
  }

 private:
  // Fresh handles where the arrays stood.
  std::vector<NDArray> restored() const {
    std::vector<NDArray> given;
    for (std::size_t i = 0; i < given_.arrays.size(); ++i) {
      given.push_back(given_.arrays[i].get(name()).detach());
      if (const Entry& entry = given_.entries[i]; entry.node)
        set_entry(given.back(), entry.node, entry.index);
    }
    return given;
  }

  std::vector<NDArray> run_again(std::span<const NDArray> given) const {
    const ModeScope modes(true, training_);
    const RandomNumbersFrom numbers(Engine::current(), given_.random);
    const OwnCasts casts(given_.autocast);
    std::vector<NDArray> results = segment_(given);
    require<AutogradError>(results.size() == outputs.size(), [&] {
      return message(
          "checkpoint: the segment gave ", outputs.size(), " arrays, and ", results.size(), " when it ran again");
    });
    for (std::size_t i = 0; i < results.size(); ++i) {
      const detail::ArrayObject& made = detail::object_of(results[i], "checkpoint");
      require<AutogradError>(made.shape == outputs[i].shape && made.dtype == outputs[i].dtype, [&] {
        return message(
            "checkpoint: result ",
            i,
            " of the segment was ",
            outputs[i].dtype,
            ' ',
            outputs[i].shape,
            ", and ",
            made.dtype,
            ' ',
            made.shape,
            " when it ran again");
      });
    }
    return results;
  }

  Segment segment_;
  Given given_;
  bool training_;
};

}  // namespace

std::vector<NDArray> checkpoint(Segment segment, std::span<const NDArray> inputs, SourceLocation site) {
  require<ValueError>(static_cast<bool>(segment), [] { return "checkpoint: the segment is empty"; });
  for (const NDArray& input : inputs)
    detail::object_of(input, "checkpoint");
  if (!is_recording() || detail::calls_are_taken())
    return segment(inputs);
  std::optional<EngineScope> scope;  // whose random numbers calls of operators draw
  if (!inputs.empty())
    scope.emplace(inputs[0].engine());
  Given given = given_of(inputs);
  std::vector<NDArray> results;
  NodeRef owner;
  {
    std::vector<NDArray> recorded;
    std::vector<Entry> places;
    {
      const TapeSection section;
      const OwnCasts casts(given.autocast);
      recorded = segment(inputs);
      for (const NDArray& result : recorded)
        detail::object_of(result, "checkpoint");
      places = places_before(recorded, section.number());
    }
    for (const NDArray& result : recorded)
      results.push_back(result.detach());
    if (places.empty())
      return results;
    auto* const node = new CheckpointNode(std::move(segment), std::move(given), places, is_training(), site);
    owner = NodeRef(node);
    node->note_results(results);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (on_tape(recorded[i]))
        set_entry(results[i], owner, static_cast<int>(i));
    }
  }  // here goes what the segment recorded, with the arrays that it kept
  return results;
}

NDArray checkpoint(std::function<NDArray(const NDArray&)> segment, const NDArray& input, SourceLocation site) {
  require<ValueError>(static_cast<bool>(segment), [] { return "checkpoint: the segment is empty"; });
  const auto of_list = [f = std::move(segment)](std::span<const NDArray> given) {
    return std::vector<NDArray>{f(given[0])};
  };
  return checkpoint(of_list, std::span(&input, 1), site)[0];
}

}  // namespace sluice::autograd
