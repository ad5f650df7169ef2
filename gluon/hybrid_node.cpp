#include <algorithm>
#include <iterator>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/engine/region.h>
#include <sluice/gluon/detail/hybrid_node.h>
#include <sluice/gluon/detail/tape.h>
#include <sluice/ndarray/detail/array_object.h>

namespace sluice::gluon::detail {

namespace {

constexpr const char* k_name = "hybridized block";

/// Stands for an input while the program is run again: gradients are taken up to here alone, not of what lies before.
/// Gradients of gradients go on there once it has its way.
class Bridge final : public autograd::Node {
 public:
  Bridge(const NDArray& input, SourceLocation site) : Node(k_name, site) {
    outputs.push_back({input.shape(), input.dtype(), input.device()});
  }
  std::vector<NDArray> pull(std::span<const NDArray> output_grads) override {
    return std::vector<NDArray>(inputs.size(), output_grads[0]);
  }
  void release_saved() noexcept override {}
};

}  // namespace

HybridNode::HybridNode(
    std::shared_ptr<const HybridProgram> program,
    std::span<const NDArray> from,
    std::span<const NDArray> results,
    SourceLocation site)
    : Node(k_name, site), program_(std::move(program)) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    inputs_.emplace_back(from[i]);
    if (program_->wanted[i])
      inputs.push_back(autograd::entry_of(from[i]));
  }
  for (const NDArray& parameter : program_->parameters)
    inputs.push_back(autograd::entry_of(parameter));
  for (std::size_t i = program_->outputs; i < results.size(); ++i)
    saved_.emplace_back(results[i]);
  for (const NDArray& constant : program_->constants)
    constants_.emplace_back(constant);
  for (const NDArray& constant : program_->constants_again)
    versions_again_.push_back(constant.object()->buffer->version());
  for (const std::size_t head : program_->heads)
    outputs.push_back({results[head].shape(), results[head].dtype(), results[head].device()});
}

// Arrays of the program: their versions are all that is kept for each call.
void HybridNode::check_constants_again() const {
  for (std::size_t i = 0; i < versions_again_.size(); ++i) {
    const NDArray& constant = program_->constants_again[i];
    require<AutogradError>(constant.object()->buffer->version() == versions_again_[i], [&] {
      return message(
          k_name,
          ": an array of shape ",
          constant.shape(),
          " that forward read was written since; gradients of some results alone, or as a graph, compute it again");
    });
  }
}

// The program once more, recorded, with the numbers that were drawn: its gradients then have gradients, and go where
// those of the outputs that have some go.
std::vector<NDArray> HybridNode::pull_again(std::span<const NDArray> output_grads) const {
  check_constants_again();
  std::vector<NDArray> from, variables, drawn;
  std::vector<Bridge*> bridges;  // of the wanted inputs, which `from` holds
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    from.push_back(inputs_[i].get(k_name).detach());
    if (!program_->wanted[i])
      continue;
    bridges.push_back(new Bridge(from.back(), site()));
    autograd::set_entry(from.back(), autograd::NodeRef(bridges.back()), 0);
    variables.push_back(from.back());
  }
  variables.insert(variables.end(), program_->parameters.begin(), program_->parameters.end());
  for (const std::size_t i : program_->random_again)
    drawn.push_back(saved_[saved_.size() - program_->random + i].get(k_name));
  const bool create_graph = autograd::is_recording();
  const autograd::ModeScope mode(true, program_->training);
  const Arrays results = graph::evaluate_again(program_->again, from, drawn);
  std::vector<NDArray> heads, gradients, reached;
  Tape tape;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!output_grads[i].defined())
      continue;
    heads.push_back(results[i]);
    gradients.push_back(output_grads[i]);
    tape.add(heads.back());
  }
  std::copy_if(variables.begin(), variables.end(), std::back_inserter(reached), [&](const NDArray& variable) {
    return tape.reaches(variable);
  });
  const autograd::ModeScope backward(create_graph, program_->training);
  const std::vector<NDArray> found =
      gradients_at(reached, heads, gradients, {.retain_graph = true, .create_graph = create_graph}, site());
  for (std::size_t i = 0; create_graph && i < bridges.size(); ++i)
    bridges[i]->inputs.push_back(inputs[i]);
  std::vector<NDArray> all;
  std::size_t next = 0;
  for (const NDArray& variable : variables)
    all.push_back(tape.reaches(variable) ? found[next++] : NDArray());
  return all;
}

std::vector<NDArray> HybridNode::pull(std::span<const NDArray> output_grads) {
  require<AutogradError>(!released_, [] {
    return message(k_name, ": its saved arrays were dropped by an earlier backward (retain_graph keeps them)");
  });
  for (const autograd::Saved& constant : constants_)
    constant.get(k_name);  // not written since
  const bool is_whole =
      std::all_of(output_grads.begin(), output_grads.end(), [](const NDArray& gradient) { return gradient.defined(); });
  if (autograd::is_recording() || !is_whole || sluice::detail::calls_are_taken() || region_records())
    return pull_again(output_grads);
  std::vector<NDArray> from;
  for (std::size_t i = 0; i + program_->random < saved_.size(); ++i)
    from.push_back(saved_[i].get(k_name));
  from.insert(from.end(), output_grads.begin(), output_grads.end());
  const Arrays gradients = program_->backward->run(from, site());
  return {gradients.begin(), gradients.end()};
}

void HybridNode::release_saved() noexcept {
  released_ = true;
  inputs_.clear();
  saved_.clear();
  constants_.clear();
}

}  // namespace sluice::gluon::detail
