#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include <sluice/operator/library/kept_choices.h>

namespace sluice::detail {

std::filesystem::path choices_file(const char* plan_cache, const char* cache_home, const char* home) {
  constexpr const char* name = "choices-1.txt";
  if (plan_cache != nullptr)
    return *plan_cache == '\0' ? std::filesystem::path() : std::filesystem::path(plan_cache) / name;
  if (cache_home != nullptr && *cache_home != '\0')
    return std::filesystem::path(cache_home) / "sluice" / name;
  if (home != nullptr && *home != '\0')
    return std::filesystem::path(home) / ".cache" / "sluice" / name;
  return {};
}

KeptChoices& KeptChoices::of_process() {
  static auto* const choices = new KeptChoices(  // used by bodies to the end of the process
      choices_file(std::getenv("SLUICE_PLAN_CACHE"), std::getenv("XDG_CACHE_HOME"), std::getenv("HOME")));
  return *choices;
}

void KeptChoices::read() {
  is_read_ = true;
  std::ifstream file(file_);
  for (std::string line; std::getline(file, line);) {
    const std::size_t tab = line.find('\t');
    // A line that another process is still writing has no end yet; one with two tabs was never ended by its own.
    if (tab != std::string::npos && tab > 0 && tab + 1 < line.size() && !file.eof() && line.rfind('\t') == tab)
      choices_[line.substr(0, tab)] = line.substr(tab + 1);
  }
}

std::optional<std::string> KeptChoices::find(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  if (!is_read_)
    read();
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

namespace {

// A process that ended while it wrote leaves half a line behind.
bool ends_a_line(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return !file.seekg(-1, std::ios::end) || file.get() == '\n';
}

}  // namespace

void KeptChoices::keep(const std::string& key, const std::string& choice) {
  const std::scoped_lock lock(mutex_);
  choices_[key] = choice;
  if (file_.empty())
    return;
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  // One write at the end of the file: lines of processes do not mix.
  if (std::FILE* const file = std::fopen(file_.c_str(), "a"); file != nullptr) {
    // Half a line is ended by a tab too: what it holds may look like a choice.
    const std::string line = (ends_a_line(file_) ? "" : "\t\n") + key + '\t' + choice + '\n';
    std::setvbuf(file, nullptr, _IOFBF, line.size() + 1);
    std::fwrite(line.data(), 1, line.size(), file);
    std::fclose(file);
  }
}

}  // namespace sluice::detail
