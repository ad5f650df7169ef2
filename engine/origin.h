#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>

namespace sluice {

/// On whose behalf tasks are pushed: "layer 2 (Dense)", say, of a network that the user called on some line. Failures
/// and traces of the tasks name it. Interned: each lives as long as the process.
class SLUICE_API Origin {
 public:
  /// The one of that text and line, made at the first request.
  static const Origin& of(const std::string& what, SourceLocation called);
  /// That of a site which a push noted; null if there is none.
  static const Origin* of(SourceLocation site) noexcept;

  const std::string& what() const noexcept { return what_; }
  SourceLocation called() const noexcept { return called_; }
  std::uint32_t number() const noexcept { return number_; }

  /// A file together with the origin, for those who have room for one pointer.
  struct Place {
    const char* file = "";
    std::uint32_t origin = 0;
    const Place* next = nullptr;
  };
  const Place& place(const char* file) const;

 private:
  Origin(std::string what, SourceLocation called, std::uint32_t number)
      : what_(std::move(what)), called_(called), number_(number) {}

  std::string what_;
  SourceLocation called_;
  std::uint32_t number_;
  mutable std::atomic<const Place*> places_{nullptr};
};

/// While it lives, what this thread pushes and records is for `origin`, unless it says something else itself. With a
/// site all of it has that site instead of lines of its own: the gradient of an operator is worked out far from where
/// the user wrote the operator. Bodies start without one and push for whom they are, a loop's helpers for its caller.
class SLUICE_API OriginScope {
 public:
  explicit OriginScope(const Origin* origin) noexcept;
  explicit OriginScope(SourceLocation site) noexcept;
  OriginScope(const OriginScope&) = delete;
  OriginScope& operator=(const OriginScope&) = delete;
  ~OriginScope();

  /// Of the innermost scope of this thread; null if there is none.
  static const Origin* current() noexcept;
  /// `site` as a push of this thread would note it.
  static SourceLocation stamped(SourceLocation site) noexcept;

 private:
  SourceLocation stamp(SourceLocation site) const noexcept;

  const OriginScope* before_;
  SourceLocation site_;
  bool replaces_;
};

/// What stands in messages: "pushed at train.cpp:31", or "layer 2 (Dense), called at train.cpp:31". Where the push has
/// a line of its own: "layer 2 (Mine), called at mine.h:7 inside the call at train.cpp:31".
SLUICE_API std::string describe(SourceLocation site);

}  // namespace sluice
