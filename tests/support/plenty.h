#pragma once

namespace sluice::test {

/// While it lives, allocations of this thread neither count nor fail (scarce.h): what a test or a simulator needs for
/// itself. Streams of the simulator are threads of their own to ThreadSanitizer, which would see them share `depth`.
class Plenty {
 public:
  __attribute__((no_sanitize("thread"))) Plenty() noexcept { ++depth; }
  Plenty(const Plenty&) = delete;
  Plenty& operator=(const Plenty&) = delete;
  __attribute__((no_sanitize("thread"))) ~Plenty() { --depth; }
  static bool here() noexcept { return depth > 0; }

 private:
  static inline thread_local constinit int depth = 0;
};

}  // namespace sluice::test
