#pragma once

#include <cstdint>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::detail {

/// As long as it lives it sees of which arrays without memory this thread asks for extents, by shape(), size(), ndim()
/// or strides(): what a program that is traced may depend on beside the calls that it makes. The innermost one of a
/// thread sees; operators, which look at arrays from inside, are not seen.
class SLUICE_API ShapeWatch {
 public:
  ShapeWatch() noexcept;
  ShapeWatch(const ShapeWatch&) = delete;
  ShapeWatch& operator=(const ShapeWatch&) = delete;
  ~ShapeWatch();

  /// abstract_value() of what was asked, each once, in order.
  const std::vector<std::uint64_t>& seen() const noexcept { return seen_; }

  /// Somebody asks for extents of that value.
  static void note(std::uint64_t value);
  /// An error leaves an operator, which another size might not have thrown: seen as 0, which is no value. Who catches
  /// it goes on as the extents say.
  static void note_error() { note(0); }

 private:
  ShapeWatch* const outer_;
  std::vector<std::uint64_t> seen_;
};

/// As long as it lives nobody sees what this thread asks.
class SLUICE_API UnseenShapes {
 public:
  UnseenShapes() noexcept;
  UnseenShapes(const UnseenShapes&) = delete;
  UnseenShapes& operator=(const UnseenShapes&) = delete;
  ~UnseenShapes();

 private:
  ShapeWatch* const watch_;
};

/// shape(), not to be seen: for who does the same whatever the size of a batch. Throws ValueError as shape() does.
SLUICE_API const Shape& unseen_shape(const NDArray& array);

}  // namespace sluice::detail
