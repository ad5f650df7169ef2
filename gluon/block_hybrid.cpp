// A block's calls as graphs: gluon/detail/hybrid.h holds them.
#include <memory>
#include <string>

#include <sluice/engine/region.h>
#include <sluice/gluon/detail/block_members.h>
#include <sluice/ndarray/autograd.h>

namespace sluice::gluon {

// As a graph, if it is hybridized.
Arrays Block::compute_as_asked(std::span<const NDArray> inputs) const {
  const std::shared_ptr<detail::Hybrid>& hybrid = members().hybrid;
  if (hybrid == nullptr || sluice::detail::calls_are_taken())
    return forward_all(inputs);
  if (region_records()) {
    hybrid->note_aside("a Region records the call");
    return forward_all(inputs);
  }
  return hybrid->run(
      inputs,
      [this](std::span<const NDArray> traced) { return forward_all(traced); },
      [this] { return collect_params(); },
      call_site());
}

void Block::hybridize(bool active, const HybridOptions& options) {
  members().hybrid = active ? std::make_shared<detail::Hybrid>(options) : nullptr;
}
bool Block::is_hybridized() const {
  return members().hybrid != nullptr;
}
// Also where it is hybridized as a part of a network that is not.
void Block::make_room_for_plans(std::size_t plans) const {
  if (members().hybrid != nullptr)
    members().hybrid->make_room(plans);
}
std::size_t Block::hybrid_traces() const {
  return members().hybrid == nullptr ? 0 : members().hybrid->traced();
}
std::string Block::hybrid_reason() const {
  return members().hybrid == nullptr ? "" : members().hybrid->reason();
}
const graph::Plan* Block::hybrid_plan() const {
  const auto program = members().hybrid == nullptr ? nullptr : members().hybrid->last();
  return program == nullptr ? nullptr : program->forward.get();
}

}  // namespace sluice::gluon
