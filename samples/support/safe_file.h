#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace samples {

/// Better now than after an hour: throws sluice::FileError, beginning with `flag` and the path, unless a file can be
/// written there: for a folder, a device, a file without write permission, a parent that is missing or takes no
/// files. What stands there is not touched.
void check_target(const std::string& flag, const std::filesystem::path& path);
/// What `path` leads to where it is a link, or a link to a link, whether or not anything stands there.
std::filesystem::path behind_links(const std::filesystem::path& path);
/// The same as check_target() for a folder, which is made where it is missing.
void check_folder(const std::string& flag, const std::filesystem::path& folder);

/// Where save_somewhere() wrote.
struct Saved {
  std::filesystem::path path;  // empty: nowhere
  std::string trouble;         // why not where it was asked to, a sentence for each place
};

/// Calls `write` with `wanted`. Where that throws sluice::FileError, with a name that is not taken in the current
/// folder, then in the temporary one ($TMPDIR). `write` has to leave an existing file whole where it fails.
Saved save_somewhere(
    const std::filesystem::path& wanted, const std::function<void(const std::filesystem::path&)>& write);

/// Makes a file of `text`, whole or not at all. Throws sluice::FileError.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace samples
