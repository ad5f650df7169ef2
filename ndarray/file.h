#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <sluice/ndarray/ndarray.h>

namespace sluice {

/// Writes named arrays as NumPy's .npz (an uncompressed zip of .npy files), through a temporary file that is renamed
/// when complete. The host waits for the values. bfloat16 is written as uint16 with an extra entry that names its
/// type. Throws FileError.
SLUICE_API void save(
    const std::filesystem::path& path,
    const std::map<std::string, NDArray>& arrays,
    SourceLocation site = SourceLocation::current());

/// Reads what save() or numpy.savez wrote, onto `device`. Stored and deflated members, C and Fortran order, little
/// and big endian. Of a single .npy file (numpy.save) the array has the file's name without ".npy". Members with more
/// axes than an NDArray can have are left out: `left_out` gets their names; without it, they are said on standard
/// error. Throws FileError naming the file and what is wrong with it (truncated, foreign, bad checksum, nothing but
/// such members).
SLUICE_API std::map<std::string, NDArray> load(
    const std::filesystem::path& path,
    Device device = cpu(),
    std::vector<std::string>* left_out = nullptr,
    SourceLocation site = SourceLocation::current());

/// Makes the file `path` whole or not at all: `write` writes a file of another name beside it, which then goes to the
/// disk and takes its place; where anything fails, what stood there stays. Throws FileError, and what `write` throws. A
/// device or a pipe (or what a link names, if that is one) is not replaced: `write` gets its name.
SLUICE_API void write_whole(
    const std::filesystem::path& path, const std::function<void(const std::filesystem::path& draft)>& write);

}  // namespace sluice
