#pragma once

#include <memory>
#include <string>

#include <sluice/gluon/block.h>
#include <sluice/gluon/detail/layer_call.h>

namespace sluice::gluon::detail {

/// Where a child stands in the block that holds it. Handles keep the slot; the block empties it when it goes.
struct ChildSlot {
  std::string name;
  std::shared_ptr<Block> block;
  LayerPaths paths = {};  // that the block there was called by
};

}  // namespace sluice::gluon::detail
