#pragma once

#include <span>

#include <sluice/engine/source_location.h>

namespace sluice::detail {

struct VarCore;

/// A body that is short, on the CPU, and neither waits nor takes a lock that its caller might hold: whoever calls it
/// may as well run it. What a task costs is many times what such a body does, and handing it to another thread more
/// still.
struct AtOnce {
  static constexpr int k_most_reads = 4;

  const char* name = "";
  SourceLocation site = {};
  std::span<VarCore* const> reads = {};  // up to k_most_reads; one may be named twice
  std::span<VarCore* const> makes = {};  // new ones, without anything pending, of which nobody else knows
  bool flush_denormals = false;
};

}  // namespace sluice::detail
