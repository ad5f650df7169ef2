#pragma once

#include <functional>
#include <string>

#include <sluice/gluon/block.h>

namespace sluice::gluon::detail {

/// While it lives, is told of every call of a layer that this thread makes.
class LayerWatch {
 public:
  LayerWatch();
  LayerWatch(const LayerWatch&) = delete;
  LayerWatch& operator=(const LayerWatch&) = delete;
  virtual ~LayerWatch();

  /// The innermost one of this thread; null: there is none.
  static LayerWatch* current();
  /// Makes the call, whose results it gives.
  virtual Arrays watched(const Block& layer, const std::string& path, const std::function<Arrays()>& call) = 0;
};

}  // namespace sluice::gluon::detail
