// How much memory there is for this process.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <unistd.h>

#include <sluice/engine/detail/in_flight.h>
#include <sluice/engine/error.h>

namespace sluice::detail {

namespace {

constexpr std::uint64_t k_none = std::numeric_limits<std::uint64_t>::max();

// The number in a file; k_none for "max", and where there is no such file.
std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? number : k_none;
}

}  // namespace

// Version 2 has one line "0::/path", version 1 one with the name of the controller: "9:memory:/path".
std::uint64_t cgroup_limit(const char* membership, const char* mount) {
  std::ifstream file(membership);
  std::uint64_t least = k_none;
  for (std::string line; std::getline(file, line);) {
    const bool second = line.starts_with("0::");
    const std::size_t at = second ? 0 : line.find(":memory:");
    if (at == std::string::npos)
      continue;
    std::string path = line.substr(second ? 3 : at + std::strlen(":memory:"));
    const std::string root = std::string(mount) + (second ? "" : "/memory");
    const char* const name = second ? "/memory.max" : "/memory.limit_in_bytes";
    // From the group to the root, which inside a container may be the group itself.
    for (;; path.resize(path.find_last_of('/'))) {
      while (!path.empty() && path.back() == '/')
        path.pop_back();
      least = std::min(least, number_in(root + path + name));
      if (path.find('/') == std::string::npos)
        break;
    }
  }
  return least == k_none ? 0 : least;
}

std::uint64_t usable_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::uint64_t machine =
      pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
  const std::uint64_t group = cgroup_limit("/proc/self/cgroup", "/sys/fs/cgroup");
  if (machine == 0 || group == 0)
    return std::max(machine, group);
  return std::min(machine, group);
}

std::uint64_t parse_bytes(const char* text, const char* what) {
  const char* const end = text + std::strlen(text);
  std::uint64_t number = 0;
  auto [at, error] = std::from_chars(text, end, number);
  int shift = 0;
  if (error == std::errc() && at + 1 == end) {
    constexpr std::string_view units = "KMG";
    const std::size_t unit = units.find(*at);
    shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
    at += shift > 0 ? 1 : 0;
  }
  require(error == std::errc() && at == end && number <= k_none >> shift, [&] {
    return message(what, "=", text, " is not a number of bytes, like 100000, 64K, 64M or 2G; 0 is no limit");
  });
  return number << shift;
}

}  // namespace sluice::detail
