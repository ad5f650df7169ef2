#include "samples/support/safe_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <system_error>
#include <unistd.h>

#include <sluice/engine/error.h>
#include <sluice/ndarray/file.h>

namespace samples {

namespace fs = std::filesystem;
using sluice::FileError;
using sluice::message;

namespace {

constexpr int k_most_links = 40;  // as the system follows; there may be a ring of them
constexpr int k_most_rescues = 1000;
constexpr std::size_t k_longest_name = 255;  // of most file systems
constexpr std::size_t k_draft_suffix = 24;   // ".part-", a process, a number: under that name files are written first
constexpr std::size_t k_rescue_suffix = 12;  // "-rescued-999"

[[noreturn]] void refuse(const std::string& flag, const fs::path& path, const std::string& why) {
  throw FileError(message(flag, ' ', path.string(), ": ", why));
}

// Permissions do not tell everything (read-only file systems, full tables): a file is made and removed.
// `as_long_as`: a file name that will be written there.
void try_folder(
    const std::string& flag, const fs::path& path, const fs::path& folder, const std::string& as_long_as = {}) {
  std::string name = (folder / ".sluice-try-").string();
  name += std::string(as_long_as.size() + k_draft_suffix - std::string(".sluice-try-").size() - 6, '-') + "XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0 && errno == ENAMETOOLONG)
    refuse(flag, path, "that name is too long: files are written under a longer one first");
  if (file < 0)
    refuse(flag, path, message("no file can be made in the folder ", folder.string(), " (", std::strerror(errno), ")"));
  close(file);
  unlink(name.c_str());
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// "net-rescued.npz", "net-rescued-2.npz", ...: the first that is not there; "rescued.npz" for a name too long for that.
fs::path rescue_name(const fs::path& folder, const fs::path& wanted) {
  const bool fits = wanted.filename().string().size() + k_rescue_suffix + k_draft_suffix <= k_longest_name;
  const std::string stem = fits ? wanted.stem().string() + "-rescued" : "rescued";
  const std::string suffix = fits ? wanted.extension().string() : ".npz";
  fs::path path;
  std::error_code ignored;
  for (int i = 1; i < k_most_rescues; ++i) {
    path = folder / message(stem, i > 1 ? message('-', i) : "", suffix);
    if (!fs::exists(path, ignored))
      break;
  }
  return path;
}

}  // namespace

fs::path behind_links(const fs::path& path) {
  fs::path target = path;
  std::error_code error;
  for (int i = 0; i < k_most_links && fs::is_symlink(fs::symlink_status(target, error)); ++i) {
    const fs::path next = fs::read_symlink(target, error);
    if (error)
      break;
    target = target.parent_path() / next;  // an absolute one replaces the folder
  }
  return target;
}

void check_target(const std::string& flag, const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status))
    refuse(flag, path, message("that is a folder; name a file, as in ", (path / "net.npz").string()));
  if (fs::exists(status) && !fs::is_regular_file(status))
    refuse(flag, path, "that is a device, not a file");
  if (fs::exists(status) && access(path.c_str(), W_OK) != 0)
    refuse(flag, path, message("that file cannot be written (", std::strerror(errno), ")"));
  const fs::path target = behind_links(path), folder = folder_of(target);
  if (!fs::is_directory(folder, ignored))
    refuse(flag, path, message("there is no folder ", folder.string()));
  try_folder(flag, path, folder, target.filename().string());
}

void check_folder(const std::string& flag, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder))
    refuse(flag, folder, error ? "that folder cannot be made: " + error.message() : "that is not a folder");
  try_folder(flag, folder, folder);
}

Saved save_somewhere(const fs::path& wanted, const std::function<void(const fs::path&)>& write) {
  Saved saved;
  std::error_code ignored;
  const fs::path temporary = fs::temp_directory_path(ignored);
  for (int place = 0; place < 3; ++place) {
    try {
      const fs::path path = place == 0 ? wanted : rescue_name(place == 1 ? fs::path(".") : temporary, wanted);
      write(path);
      saved.path = path;
      return saved;
    } catch (const FileError& error) {
      saved.trouble += (saved.trouble.empty() ? "" : "; ") + error.message();
    }
  }
  return saved;
}

void write_text(const fs::path& path, const std::string& text) {
  sluice::write_whole(path, [&](const fs::path& draft) {
    errno = 0;
    std::ofstream file(draft, std::ios::binary);
    file << text;
    file.close();
    const int why = errno;
    sluice::require<FileError>(!file.fail(), [&] {
      return message(path.string(), ": cannot be written", why == 0 ? "" : message(": ", std::strerror(why)));
    });
  });
}

}  // namespace samples
