#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <sluice/ndarray/detail/autocast_here.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/operator.h>

namespace sluice {
class CallSink;
}

namespace sluice::detail {

/// Casts of variables, to be used again while these are as they were. Of one thread.
class CastCache {
 public:
  /// The cast, made where there is none.
  NDArray cast(const NDArray& variable, DType to, SourceLocation site);
  /// A trace begins within what `outer` takes, perhaps where an old one lay: what others took is dropped. If it
  /// captures, as bodies of loops do, variables are cast outside of it.
  void begin_trace(const CallSink* trace, CallSink* outer, bool captures);

 private:
  /// A variable, and all that a cast of it goes by.
  struct Known {
    NDArray variable;
    NDArray made;
    const void* leaf;  // of the tape
    std::uint64_t version;
    std::uint64_t unseen;                 // unseen_writes()
    std::optional<std::uint64_t> writes;  // writes_done(), as far as it was known
    const CallSink* sink;
    bool recorded;
  };

  struct Body {
    const CallSink* trace;
    CallSink* outer;
  };

  static bool is_good(Known& known);
  void drop_unreachable();
  CallSink* sink_for_casts() const noexcept;

  std::vector<Known> known_;
  std::vector<Body> bodies_;
};

/// One scope: its type, none where it is switched off, and where casts are kept.
struct AutocastState {
  std::optional<DType> low;
  std::shared_ptr<CastCache> casts;
  const void* body;  // that it was opened in
};

/// What counts here: null as well in a body that the scope was not opened in.
const AutocastState* autocast_here() noexcept;

/// Whether the call is to be made as op.widened() says, in the place of other inputs.
bool autocast_widens(
    const Operator& op, std::span<const NDArray> inputs, const Attributes& attributes, const AutocastState& state);

/// The inputs of a call as it is to be made; `cast` holds them where they are others.
std::span<const NDArray> autocast_inputs(
    const Operator& op,
    std::span<const NDArray> inputs,
    const Attributes& attributes,
    const AutocastState& state,
    Arrays& cast,
    SourceLocation site);

/// CastCache::begin_trace() of this thread's casts.
void note_trace(const CallSink* trace, CallSink* outer, bool captures);

}  // namespace sluice::detail
