#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/detail/block_hooks.h>
#include <sluice/gluon/detail/child_slot.h>
#include <sluice/gluon/detail/hybrid.h>
#include <sluice/gluon/detail/layer_call.h>

namespace sluice::gluon {

/// What a block has, on the heap: it stays where it is when the block moves.
struct Block::Members {
  std::deque<Parameter> parameters;  // a deque: growing moves nothing
  std::vector<std::shared_ptr<detail::ChildSlot>> children;
  std::shared_ptr<detail::Hybrid> hybrid;
  std::shared_ptr<detail::BlockHooks> hooks;  // null: it never had one
  OptionNotes options;
  detail::LayerPaths paths;  // by which the block was called by itself
  std::atomic<bool> called{false};

  // Only the first call writes.
  void note_call() noexcept {
    if (!called.load(std::memory_order_relaxed)) [[unlikely]]
      called.store(true, std::memory_order_relaxed);
  }

  ~Members() {
    for (const auto& child : children)
      child->block.reset();  // handles that outlive the block say so
  }

  void check_new(const std::string& name) const {
    require(!name.empty() && name.find('.') == std::string::npos, [&] {
      return message("'", name, "' cannot name a parameter or a child: it is empty or contains a dot");
    });
    bool taken = false;
    for (const Parameter& parameter : parameters)
      taken |= parameter.name() == name;
    for (const auto& child : children)
      taken |= child->name == name;
    require(!taken, [&] { return message("the block has a parameter or a child '", name, "' already"); });
  }
};

}  // namespace sluice::gluon
