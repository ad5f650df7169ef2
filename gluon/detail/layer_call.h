#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <typeinfo>

#include <sluice/engine/origin.h>

namespace sluice::gluon::detail {

/// Where a layer stands in the network that the user called: "0.body", from a line of the user's. Interned.
struct LayerPath {
  std::string path;  // empty: the network itself
  const Origin* origin = nullptr;
};

/// The paths that one layer was called by, found without a lock: few, one for each line that calls the network.
class LayerPaths {
 public:
  LayerPaths() = default;
  LayerPaths(const LayerPaths&) = delete;
  LayerPaths& operator=(const LayerPaths&) = delete;
  ~LayerPaths() { clear(); }

  /// Of a child called `name`; of a block that nobody holds where `name` is null: then the network itself, or, called
  /// inside another layer, something that works for that.
  const LayerPath& find(const char* name, const std::type_info& type, const LayerPath* parent, SourceLocation site);
  /// While nobody calls the layer.
  void clear() noexcept;

 private:
  struct Known {
    const LayerPath* parent;  // where there is none the line tells, that of the path's origin
    const LayerPath* path;
    Known* next;
  };
  std::atomic<Known*> known_{nullptr};
};

/// While it lives, this thread is in a call of a layer: what it pushes and records is for that. Costs a few loads and
/// stores once the path is known.
class LayerCall {
 public:
  LayerCall(LayerPaths& paths, const char* name, const std::type_info& type, SourceLocation site);
  LayerCall(const LayerCall&) = delete;
  LayerCall& operator=(const LayerCall&) = delete;
  ~LayerCall();

  /// Of the innermost call of this thread: the user's line, for the layer. Its own line if there is no call.
  static SourceLocation site() noexcept;
  /// Of the innermost call of this thread: where the layer stands, "0.body"; empty for the network itself.
  static std::string path();

 private:
  /// The innermost call of what this thread works for now; null if there is none.
  static const LayerCall* current() noexcept;

  const LayerCall* before_;
  const void *core_, *task_;  // of what this thread works for meanwhile
  const LayerPath& path_;
  SourceLocation site_;
  OriginScope scope_;
};

/// What a block's class is called: "Dense".
std::string type_name(const std::type_info& type);

}  // namespace sluice::gluon::detail
