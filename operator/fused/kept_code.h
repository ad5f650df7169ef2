#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace sluice::fused {

/// Compiled programs, and plans of libraries with code in them, as files of a folder, a file a key. What cannot be read
/// or written, is of another version, of another key, or not whole, costs no more than compiling again. Threads and
/// processes may share the folder: a file is written under another name and then renamed.
class KeptCode {
 public:
  /// Of the process: `kernels` in the folder that autotune.h names.
  static const KeptCode& of_process();
  /// Of the process: `plans` there.
  static const KeptCode& plans_of_process();
  /// An empty path: nothing is kept.
  explicit KeptCode(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// `key` is all that the code depends on.
  std::optional<std::string> find(const std::string& key) const;
  void keep(const std::string& key, const std::string& code) const;
  std::filesystem::path file_of(const std::string& key) const;

 private:
  const std::filesystem::path folder_;
};

}  // namespace sluice::fused
