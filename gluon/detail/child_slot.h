#pragma once

#include <memory>
#include <string>

#include <sluice/gluon/block.h>

namespace sluice::gluon::detail {

/// Where a child stands in the block that holds it. Handles keep the slot; the block empties it when it goes.
struct ChildSlot {
  std::string name;
  std::shared_ptr<Block> block;
};

/// What a block's class is called: "Dense".
std::string type_name(const std::type_info& type);

}  // namespace sluice::gluon::detail
