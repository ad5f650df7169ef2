#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <sluice/engine/export.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/ndarray/shape.h>

namespace sluice::detail {

/// The first bytes of every .npy file.
inline constexpr std::string_view k_npy_magic = "\x93NUMPY";

/// What stands in front of the values of a .npy file (numpy.lib.format, versions 1.0 to 3.0).
struct NpyHeader {
  char kind = 'f';  // b, u, i, f, or S: bytes
  std::size_t item = 4;
  bool big_endian = false;
  bool fortran_order = false;
  int axes = 0;  // of the array; `shape` has the first of them where there are more than a Shape can have
  Shape shape;
  std::size_t data_offset = 0;

  /// No NDArray has so many axes.
  bool has_too_many_axes() const noexcept { return axes > k_max_ndim; }

  /// Bytes of all values. Throws FileError if they cannot be counted.
  std::size_t data_size() const;
};

/// Reads the header at the front of `file`. Throws FileError saying what is wrong, without the file's name.
SLUICE_API NpyHeader parse_npy_header(std::span<const std::byte> file);
/// The header of version 1.0 of a row-major little-endian array. `descr` is NumPy's name of the type.
SLUICE_API std::string format_npy_header(const std::string& descr, const Shape& shape);

/// NumPy's name of a type: "<f4". bfloat16, which it lacks, is "<u2".
std::string descr_of(DType dtype);
/// The type with that kind and size; throws FileError if it is none of ours.
DType dtype_of_header(const NpyHeader& header);

}  // namespace sluice::detail
