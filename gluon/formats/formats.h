#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>

/// Files of parameters in other programs' formats. All writers write a file whole or not at all (write_whole()) and
/// wait for the values; all readers check what a file says against its size before they believe it, and throw FileError
/// that names the file and what is wrong with it.
namespace sluice::gluon::formats {

/// Arrays and their names, in the order of the file.
using NamedArrays = std::vector<std::pair<std::string, NDArray>>;

/// MXNet's .params files (mx.nd.save, Gluon's save_parameters and export): all versions of dense arrays on a CPU or
/// GPU. "arg:" and "aux:" before names are left out; arrays without names are called "0", "1", ... Sparse arrays,
/// arrays without a shape and types that NDArray has not are errors.
SLUICE_API NamedArrays load_mxnet(const std::filesystem::path& path, Device device = cpu());
/// Writes what MXNet 1.x and 2 read. With an array of no axes or without elements the file needs MXNet 1.6 or later
/// with its NumPy shapes turned on (`mx.util.set_np()`). Throws ValueError for an undefined array.
SLUICE_API void save_mxnet(const std::filesystem::path& path, const NamedArrays& arrays);

/// Hugging Face's .safetensors: mapped into memory, each array copied once. Types that NDArray has not are errors.
SLUICE_API NamedArrays load_safetensors(const std::filesystem::path& path, Device device = cpu());
/// Throws ValueError for an undefined array, and for a name that is there twice, is "__metadata__" or no UTF-8.
SLUICE_API void save_safetensors(const std::filesystem::path& path, const NamedArrays& arrays);

/// Whatever it is: .npz or .npy (load()), MXNet's, or .safetensors; told by what it holds, not by its name.
SLUICE_API NamedArrays load_any(const std::filesystem::path& path, Device device = cpu());
/// Whether load_any() gives the arrays of this file in their order there: those of .npz come by name.
SLUICE_API bool keeps_order(const std::filesystem::path& path);
/// As the name ends: ".params" MXNet's, ".safetensors", anything else .npz (save()).
SLUICE_API void save_any(const std::filesystem::path& path, const NamedArrays& arrays);

}  // namespace sluice::gluon::formats
