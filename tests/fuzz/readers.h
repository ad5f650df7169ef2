#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sluice::fuzz {

using Path = std::filesystem::path;
using Bytes = std::vector<std::uint8_t>;

/// What takes files that anybody may have written.
struct Reader {
  std::string name;
  std::string ending;                             // of its files' names
  std::function<void(const Path& folder)> write;  // makes good files there, to begin with
  std::function<void(const Path& file)> read;     // all of it; an Error is a good end of a bad file
  std::function<void(Bytes& bytes)> repair = {};  // makes a checksum hold, so that what lies behind it is read
};

/// Arrays: .npz, safetensors, MXNet's parameters.
std::vector<Reader> array_readers();
/// Programs: graph files, MXNet's symbols, states of training.
std::vector<Reader> program_readers();
/// Data: tables, records, IDX, CIFAR, lists of images, JPEG, PNG; choices that trials left.
std::vector<Reader> data_readers();
std::vector<Reader> all_readers();

/// Reads a file of these bytes, repaired if `repair`; nothing but Errors may come of it.
void read_bytes(const Reader& reader, std::span<const std::uint8_t> bytes, bool repair, const Path& folder);

}  // namespace sluice::fuzz
