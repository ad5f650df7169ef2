#pragma once

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include <sluice/engine/error.h>

namespace sluice::detail {

/// Throws FileError with the system's reason where `stream` has failed: to be asked right after what may fail. `path`
/// is the file that the user named, not its draft.
template <class Stream>
void require_written(const Stream& stream, const std::filesystem::path& path) {
  const int why = errno;
  require<FileError>(stream.good(), [&] {
    return message(path.string(), ": cannot be written", why == 0 ? std::string() : message(": ", std::strerror(why)));
  });
}

}  // namespace sluice::detail
