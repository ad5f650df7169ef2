#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sluice::detail {

/// What trials chose, by a key that names library, its version, GPU and problem: in memory, and as lines "key TAB
/// choice" of a file, which is read when first asked and grows by a line a choice, the last of a key being the one that
/// holds. A file that cannot be read or written, or lines that make no sense, cost no more than another trial. Any
/// thread may call; processes may share the file.
class KeptChoices {
 public:
  /// Of the process: `choices-1.txt` in the folder that autotune.h names.
  static KeptChoices& of_process();
  /// An empty path: in memory only.
  explicit KeptChoices(std::filesystem::path file) : file_(std::move(file)) {}

  std::optional<std::string> find(const std::string& key);
  /// Neither may hold a tab or an end of line.
  void keep(const std::string& key, const std::string& choice);

 private:
  void read();

  const std::filesystem::path file_;
  std::mutex mutex_;
  bool is_read_ = false;
  std::unordered_map<std::string, std::string> choices_;
};

/// The file of the process as SLUICE_PLAN_CACHE, XDG_CACHE_HOME and HOME say (null: not set); empty for none.
std::filesystem::path choices_file(const char* plan_cache, const char* cache_home, const char* home);

}  // namespace sluice::detail
