// Branches and loops of a region become conditional nodes, whose bodies are graphs of their own.
#include <utility>

#include <sluice/engine/cuda/check.h>
#include <sluice/engine/cuda/region_capture.h>
#include <sluice/engine/detail/region_branch.h>

namespace sluice::detail {

using cuda::cuda_check;

bool takes_region_branches() noexcept {
  constexpr int k_with_two_sides = 12080;
  static const bool takes = [] {
    int driver = 0;
    const bool known = cudaDriverGetVersion(&driver) == cudaSuccess;
    if (!known)
      cudaGetLastError();
    return known && driver >= k_with_two_sides;
  }();
  return takes;
}

void RegionCapture::leave_sides(std::size_t depth) noexcept {
  for (; open_.size() > depth; open_.pop_back())
    failed_ = !here().end_side() || failed_;
}

void RegionCapture::go_to(const std::vector<RegionSide>& sides) {
  std::size_t common = 0;
  while (common < open_.size() && common < sides.size() && open_[common] == sides[common])
    ++common;
  leave_sides(common);
  for (; open_.size() < sides.size();) {
    const RegionSide& side = sides[open_.size()];
    if (where_.of_sides.size() == open_.size())
      where_.of_sides.push_back(std::make_unique<GraphCapture>());
    const Step& branch = steps_[static_cast<std::size_t>(side.branch)];
    where_.of_sides[open_.size()]->begin_side(branch.sides[static_cast<std::size_t>(side.number)]);
    open_.push_back(side);
  }
}

// Tasks of a branch run one after the other, so they share the table that it has.
void RegionCapture::begin_in_side(const Step& branch) noexcept {
  uses_ = branch.uses;
  table_ = branch.table;
}

void RegionCapture::begin_choice(RegionChoice& choice) {
  *choice.handle = here().new_condition();
  if (table_ < 0)
    take_table();
}

void RegionCapture::end_choice(const RegionChoice& choice) {
  sides_ = here().add_branch(*choice.handle, choice.repeats);
}

}  // namespace sluice::detail
