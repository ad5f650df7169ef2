#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>
#include <unistd.h>

#include <sluice/engine/error.h>
#include <sluice/operator/fused/checksum.h>
#include <sluice/operator/fused/kept_code.h>
#include <sluice/operator/library/kept_choices.h>

namespace sluice::fused {

namespace {

// The file: a line that says what it is, with the lengths of key and code and the checksum of both; key; code. Another
// way of writing it has another number.
std::string head_of(const std::string& key, const std::string& code) {
  return message("sluice kernels 1 ", key.size(), " ", code.size(), " ", checksum(code, checksum(key)), "\n");
}

std::filesystem::path folder_of_process(const char* name) {
  const std::filesystem::path choices = sluice::detail::choices_file(
      std::getenv("SLUICE_PLAN_CACHE"), std::getenv("XDG_CACHE_HOME"), std::getenv("HOME"));
  return choices.empty() ? choices : choices.parent_path() / name;
}

}  // namespace

const KeptCode& KeptCode::of_process() {
  static const auto* const kept = new KeptCode(folder_of_process("kernels"));
  return *kept;
}

const KeptCode& KeptCode::plans_of_process() {
  static const auto* const kept = new KeptCode(folder_of_process("plans"));
  return *kept;
}

std::filesystem::path KeptCode::file_of(const std::string& key) const {
  char name[32];
  std::snprintf(name, sizeof(name), "%016llx.bin", static_cast<unsigned long long>(checksum(key)));
  return folder_ / name;
}

// No more is read than the first line says, and that there is.
std::optional<std::string> KeptCode::find(const std::string& key) const try {
  if (folder_.empty())
    return {};
  const std::filesystem::path path = file_of(key);
  std::ifstream file(path, std::ios::binary);
  std::string head;
  if (!std::getline(file, head))
    return {};
  std::istringstream words(head);
  std::string word;
  std::uintmax_t keys = 0, codes = 0;
  words >> word >> word >> word >> keys >> codes;
  if (!words || keys != key.size() || codes >= std::filesystem::file_size(path))
    return {};
  std::string rest(key.size() + static_cast<std::size_t>(codes), '\0');
  file.read(rest.data(), static_cast<std::streamsize>(rest.size()));
  if (!file || file.peek() != std::ifstream::traits_type::eof() || rest.compare(0, key.size(), key) != 0)
    return {};
  std::string code = rest.substr(key.size());
  if (head + "\n" != head_of(key, code))
    return {};
  return code;
} catch (const std::exception&) {  // of the file system
  return {};
}

void KeptCode::keep(const std::string& key, const std::string& code) const {
  if (folder_.empty())
    return;
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  static std::atomic<unsigned> written{0};
  const std::filesystem::path target = file_of(key);
  std::filesystem::path fresh = target;
  fresh += message(".", ::getpid(), ".", written.fetch_add(1, std::memory_order_relaxed));
  {
    std::ofstream file(fresh, std::ios::binary);
    file << head_of(key, code) << key << code;
    file.close();
    if (!file) {
      std::filesystem::remove(fresh, failed);
      return;
    }
  }
  std::filesystem::rename(fresh, target, failed);
  if (failed)
    std::filesystem::remove(fresh, failed);
}

}  // namespace sluice::fused
