#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/estimator/checkpoint.h>
#include <sluice/gluon/estimator/estimator.h>
#include <sluice/gluon/estimator/training_state.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/file.h>

namespace sluice::gluon::estimator {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t k_digits = 8;
constexpr const char* k_suffix = ".npz";

// Names, after a power cut, too.
void sync_folder(const fs::path& folder) noexcept {
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    return;  // of file systems without it the name is as safe as they make it
  ::fsync(file);
  ::close(file);
}

void check_folder(const fs::path& folder) {
  std::error_code error, unknown;
  fs::create_directories(folder, error);
  require<FileError>(fs::is_directory(folder, unknown), [&] {
    return message("CheckpointHandler: ", folder.string(), ": is no folder, and none can be made: ", error.message());
  });
  std::string trial = (folder / ".sluice-try-XXXXXX").string();
  const int file = mkstemp(trial.data());
  require<FileError>(file >= 0, [&] {
    return message("CheckpointHandler: ", folder.string(), ": no file can be made there: ", std::strerror(errno));
  });
  ::close(file);
  ::unlink(trial.c_str());
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    files.push_back(at->path());
  require<FileError>(!error, [&] {
    return message("CheckpointHandler: ", folder.string(), ": cannot be looked into: ", error.message());
  });
  return files;
}

void remove_all(std::vector<fs::path>& files) {
  std::error_code ignored;
  for (const fs::path& file : files)
    fs::remove(file, ignored);
  files.clear();
}

// Throws FileError for what the system does not give now: too many open files, a disk that fails.
void check_readable(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  int why = file < 0 ? errno : 0;
  std::vector<char> some(1 << 16);
  ssize_t got = file < 0 ? 0 : 1;
  while (got > 0 || (got < 0 && why == EINTR)) {
    got = ::read(file, some.data(), some.size());
    why = got < 0 ? errno : 0;
  }
  if (file >= 0)
    ::close(file);
  require<FileError>(why == 0, [&] {
    return message(
        "CheckpointHandler: ",
        path.string(),
        ": cannot be read now, it may be whole all the same: ",
        std::strerror(why));
  });
}

/// What a checkpoint holds; nothing of one that is damaged, which `damage` then tells of.
std::optional<TrainingState> whole_state(const fs::path& file, std::string& damage) {
  for (bool again = false;; again = true) {
    try {
      return read_state(file);
    } catch (const FileError& error) {
      check_readable(file);
      if (!again)  // what kept it from being read may be over
        continue;
      damage += (damage.empty() ? "" : "; ") + error.message();
      return {};
    }
  }
}

}  // namespace

CheckpointHandler::CheckpointHandler(CheckpointOptions options) : options_(std::move(options)) {
  require(options_.every_epochs >= 0 && options_.every_batches >= 0 && options_.keep_last >= 1, [&] {
    return message(
        "CheckpointHandler: each ",
        options_.every_epochs,
        " epochs or ",
        options_.every_batches,
        " batches, of which the last ",
        options_.keep_last,
        " are kept: none of these is negative, and one is kept at least");
  });
  require(!options_.folder.empty(), [] { return "CheckpointHandler: needs a folder"; });
  require(!options_.prefix.empty() && options_.prefix.find('/') == std::string::npos, [&] {
    return message("CheckpointHandler: files cannot be called '", options_.prefix, "'; the folder says where they are");
  });
  if (!options_.monitor.empty())
    monitor_.emplace(
        MonitorOptions{.monitor = options_.monitor, .mode = options_.mode, .min_delta = options_.min_delta});
}

fs::path CheckpointHandler::file_of(std::int64_t batch) const {
  std::string number = std::to_string(batch);
  if (number.size() < k_digits)
    number.insert(0, k_digits - number.size(), '0');
  return options_.folder / (options_.prefix + '-' + number + k_suffix);
}

fs::path CheckpointHandler::best_file() const {
  return options_.folder / (options_.prefix + "-best" + k_suffix);
}

// "prefix-00001200.npz" by their numbers, whose digits may be more.
std::vector<fs::path> CheckpointHandler::found() const {
  std::vector<fs::path> files;
  for (const fs::path& file : files_in(options_.folder)) {
    const std::string name = file.filename().string(), start = options_.prefix + '-';
    if (name.size() <= start.size() + std::strlen(k_suffix) || !name.starts_with(start) || !name.ends_with(k_suffix))
      continue;
    const std::string number = name.substr(start.size(), name.size() - start.size() - std::strlen(k_suffix));
    if (number.size() >= k_digits && number.find_first_not_of("0123456789") == std::string::npos)
      files.push_back(file);
  }
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    const std::string &one = a.native(), &other = b.native();
    return one.size() != other.size() ? one.size() < other.size() : one < other;
  });
  return files;
}

void CheckpointHandler::warn(const std::string& message) const {
  if (options_.warn != nullptr)
    options_.warn(message);
  else
    std::fprintf(stderr, "sluice: %s\n", message.c_str());
}

// What a process was writing when it was killed.
void CheckpointHandler::remove_drafts() const {
  std::vector<fs::path> drafts;
  for (const fs::path& file : files_in(options_.folder)) {
    const std::string name = file.filename().string(), start = options_.prefix + '-';
    const std::size_t end = name.find(".npz.part-", start.size());
    if (!name.starts_with(start) || end == std::string::npos)
      continue;
    const std::string of = name.substr(start.size(), end - start.size());  // else of a longer prefix
    if (of == "best" || (of.size() >= k_digits && of.find_first_not_of("0123456789") == std::string::npos))
      drafts.push_back(file);
  }
  remove_all(drafts);
}

void CheckpointHandler::train_begin(Estimator& estimator) {
  check_folder(options_.folder);
  remove_drafts();
  if (monitor_)
    monitor_->begin(estimator);
  best_is_new_ = false;
  resumed_from_.clear();
  stale_.clear();
  const std::int64_t now = estimator.progress().total_batches;
  const bool is_same_training = estimator_ == &estimator && now >= written_at_;
  if (!is_same_training) {
    best_is_ours_ = false;
    best_at_ = -1;
  }
  if (!is_same_training || options_.existing == Existing::resume)
    files_.clear();
  estimator_ = &estimator;
  written_at_ = now;
  std::vector<fs::path> others;
  for (fs::path& file : found()) {
    if (std::find(files_.begin(), files_.end(), file) == files_.end())
      others.push_back(std::move(file));
  }
  if (options_.existing == Existing::resume) {
    if (!others.empty())
      resume(estimator, others);
    return;
  }
  std::error_code unknown;
  if (!best_is_ours_ && fs::exists(best_file(), unknown))
    others.push_back(best_file());
  require(others.empty() || options_.existing != Existing::refuse, [&] {
    return message(
        "CheckpointHandler: ",
        others.back().string(),
        " is there from another training; Existing::resume goes on from it, Existing::remove does away with it");
  });
  stale_ = std::move(others);
}

void CheckpointHandler::resume(Estimator& estimator, const std::vector<fs::path>& files) {
  std::string damage;
  for (std::size_t i = files.size(); i-- > 0;) {
    std::optional<TrainingState> state = whole_state(files[i], damage);
    if (!state)
      continue;
    const Progress &there = state->progress, &here = estimator.progress();
    const auto next = files.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    files_.assign(files.begin(), next);
    stale_.assign(next, files.end());
    if (there.fits < here.fits)  // those of earlier fits go as keep_last says
      return;
    if (!damage.empty())
      warn(
          "CheckpointHandler: training goes on from " + files[i].string() +
          ", since later ones are damaged: " + damage);
    if (there.fits > here.fits) {
      const std::string why = message("an earlier process had done with it: ", files[i].string(), " is of a later fit");
      return estimator.end_with(std::move(*state), why);
    }
    resumed_from_ = files[i];
    estimator.resume_with(std::move(*state));
    return;
  }
  throw FileError("CheckpointHandler: no checkpoint is whole: " + damage);
}

// The process may have been killed between its last checkpoint and making it the best.
void CheckpointHandler::train_resumed(Estimator& estimator) {
  written_at_ = estimator.progress().total_batches;
  if (!resumed_from_.empty() && best_at_ == estimator.progress().total_batches)
    keep_best(resumed_from_);
}

void CheckpointHandler::look_at_best(Estimator& estimator, bool epoch_is_over) {
  if (monitor_ && monitor_->is_due(estimator, epoch_is_over) && monitor_->is_better(estimator))
    best_is_new_ = true;
}

void CheckpointHandler::batch_end(Estimator& estimator, const data::Batch& /*batch*/, const StepResult& /*result*/) {
  look_at_best(estimator, false);
  const Progress& at = estimator.progress();
  const bool is_due = options_.every_batches > 0 && at.batches % options_.every_batches == 0;
  const bool is_last = estimator.is_stopped() && at.batch_in_epoch != estimator.epoch_size();
  if (is_due || is_last || best_is_new_)
    write(estimator);
}

void CheckpointHandler::epoch_end(Estimator& estimator) {
  look_at_best(estimator, true);
  const bool is_due = options_.every_epochs > 0 && estimator.progress().epochs % options_.every_epochs == 0;
  if (is_due || estimator.is_stopped() || best_is_new_)
    write(estimator);
}

// Who stops training behind this handler's turn, or where an epoch begins, leaves a checkpoint as well.
void CheckpointHandler::train_end(Estimator& estimator) {
  const Progress& at = estimator.progress();
  if (!estimator.failed() && estimator.is_stopped() && at.batches > 0 && at.total_batches != written_at_)
    write(estimator);
}

void CheckpointHandler::write(Estimator& estimator) {
  written_at_ = estimator.progress().total_batches;
  try {
    write_files(estimator);
  } catch (const FileError& error) {
    if (!options_.go_on_without)
      throw;
    best_is_new_ = false;  // what comes next is not it
    warn("CheckpointHandler: " + error.message() + "; training goes on without");
  }
}

void CheckpointHandler::write_files(Estimator& estimator) {
  const std::int64_t now = estimator.progress().total_batches;
  const fs::path file = file_of(now);
  const std::int64_t best_before = best_at_;
  if (best_is_new_)
    best_at_ = now;
  try {
    estimator.save_state(file);
  } catch (...) {
    best_at_ = best_before;
    throw;
  }
  if (std::find(files_.begin(), files_.end(), file) == files_.end())
    files_.push_back(file);
  std::erase(stale_, file);
  if (std::exchange(best_is_new_, false)) {
    keep_best(file);
    std::erase(stale_, best_file());
  }
  sync_folder(options_.folder);
  while (std::ssize(files_) > options_.keep_last) {
    std::error_code ignored;
    fs::remove(files_.front(), ignored);
    files_.erase(files_.begin());
  }
  remove_all(stale_);
}

// A second name of the same file, or a copy where the file system has no such names; either takes the old one's place.
void CheckpointHandler::keep_best(const fs::path& file) {
  write_whole(best_file(), [&](const fs::path& draft) {
    std::error_code error;
    fs::create_hard_link(file, draft, error);
    if (error)
      fs::copy_file(file, draft, fs::copy_options::overwrite_existing, error);
    require<FileError>(!error, [&] { return message(best_file().string(), ": cannot be written: ", error.message()); });
  });
  best_is_ours_ = true;
}

HandlerState CheckpointHandler::state() const {
  HandlerState state = monitor_ ? monitor_->state() : HandlerState();
  state.emplace("best_at", array<std::int64_t>({best_at_}));
  return state;
}

void CheckpointHandler::load_state(const HandlerState& state) {
  const auto best = state.find("best_at");
  require(best == state.end() || (best->second.dtype() == int64 && best->second.size() == 1), [] {
    return "CheckpointHandler: the state does not say which one was the best";
  });
  const std::int64_t at = best == state.end() ? -1 : best->second.item<std::int64_t>();
  if (monitor_)
    monitor_->load_state(state);
  best_at_ = at;
}

}  // namespace sluice::gluon::estimator
