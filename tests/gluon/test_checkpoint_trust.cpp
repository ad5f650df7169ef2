// Checkpoints of estimators: nothing that happens to a process, its disk or its files loses one.
#include <csignal>
#include <cstdio>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "tests/gluon/checkpointed.h"
#include "tests/support/child.h"

using namespace sluice;
using namespace sluice::test;
using est::Estimator;

TEST_CASE("A damaged checkpoint gives way to the one before, with a word", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  TrainingProgram program{.epochs = 3, .checkpoints = in(folder)};
  const TrainingOutcome whole = run_training({.epochs = 4});
  run_training(program);
  const fs::path checkpoints = folder.path() / "checkpoints", newest = checkpoints / "model-00000015.npz";
  std::vector<std::string> warnings;
  program.checkpoints->warn = [&](const std::string& text) { warnings.push_back(text); };
  program.epochs = 4;
  const std::string good = text_of(newest);
  std::string damaged = good;
  damaged[damaged.size() / 2] ^= 4;
  for (const std::string& bad : {damaged, good.substr(0, good.size() - 1), good.substr(0, 40), std::string()}) {
    const TemporaryFolder copy;
    fs::copy(checkpoints, copy / "checkpoints");
    put_text(copy / "checkpoints/model-00000015.npz", bad);
    warnings.clear();
    program.checkpoints->folder = copy / "checkpoints";
    CHECK(run_training(program).trail == whole.trail);
    REQUIRE(warnings.size() == 1);
    CHECK_THAT(
        warnings[0],
        sluice::test::contains("model-00000010.npz, since") && sluice::test::contains("model-00000015.npz"));
    CHECK(est::read_state(copy / "checkpoints/model-00000015.npz").progress.total_batches == 15);  // made anew
  }
  for (const std::string& name : names_in(checkpoints))
    put_text(checkpoints / name, "torn");
  program.checkpoints->folder = checkpoints;
  CHECK_THROWS_WITH(run_training(program), sluice::test::contains("no checkpoint is whole"));
}

TEST_CASE(
    "A damaged newest checkpoint goes when a new one stands, though it is of a later batch", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  TrainingProgram program{.epochs = 3, .stop_after = 6, .checkpoints = in(folder)};
  program.checkpoints->every_batches = 1;
  program.checkpoints->keep_last = 2;
  program.checkpoints->warn = [](const std::string&) {};
  run_training(program);
  const fs::path checkpoints = folder.path() / "checkpoints";
  put_text(checkpoints / "model-00000900.npz", "of nowhere");
  put_text(checkpoints / "model-00000007.npz.part-1-0", "a draft");
  put_text(checkpoints / "model-mine.npz", "not ours");
  program.stop_after = 7;
  run_training(program);
  CHECK(
      names_in(checkpoints) == std::vector<std::string>{"model-00000006.npz", "model-00000007.npz", "model-mine.npz"});
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads

TEST_CASE("Training that is killed at any point loses nothing and ends as if it had not been", "[gluon][checkpoint]") {
  TrainingProgram program{.epochs = 12};
  program.more = [](est::FitOptions& options) { options.handlers.erase(options.handlers.begin()); };
  const TrainingOutcome whole = run_training(program);
  const TemporaryFolder folder;
  program.checkpoints = CheckpointOptions{
      .folder = folder / "c",
      .every_batches = 1,
      .keep_last = 2,
      .monitor = "training loss",
      .existing = Existing::resume};
  program.csv = folder / "rows.csv";
  std::mt19937 draw(7);
  std::uniform_int_distribution<int> delay(0, 12000);
  int kills = 0, finished = 0;
  std::int64_t reached = 0;
  while (kills < 50 || finished == 0) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(50);
      int code = 1;
      try {
        code = run_training(program).trail == whole.trail ? 0 : 2;
      } catch (...) {
      }
      _exit(code);
    }
    int status = 0;
    if (kills < 50) {
      usleep(static_cast<useconds_t>(delay(draw)));
      kill(child, SIGKILL);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status)) {
      REQUIRE(WEXITSTATUS(status) == 0);
      ++finished;
      reached = 0;
      fs::remove_all(folder / "c");
      continue;
    }
    REQUIRE(WTERMSIG(status) == SIGKILL);
    ++kills;
    std::int64_t newest = 0;
    if (fs::exists(folder / "c")) {
      for (const std::string& name : names_in(folder / "c")) {
        if (name.ends_with(".npz"))
          newest = std::max(newest, est::read_state(folder / "c" / name).progress.total_batches);
      }
    }
    REQUIRE(newest >= reached);
    reached = newest;
  }
  CHECK(finished >= 1);
}

TEST_CASE("A disk that is full ends training with an error, and what was written stays", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  TrainingProgram program{.epochs = 1, .checkpoints = in(folder)};
  run_training(program);
  program.epochs = 3;
  const int code = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      run_training(program);
      return 1;
    } catch (const FileError& error) {
      if (std::string(error.what()).find("model-00000010.npz") == std::string::npos) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
      }
    }
    int warnings = 0;
    program.checkpoints->go_on_without = true;
    program.checkpoints->warn = [&](const std::string&) { ++warnings; };
    program.checkpoints->monitor = "training loss";  // the second epoch is the best: told once, not at each batch
    if (run_training(program).progress.epochs != 3 || warnings != 2)
      return 3;
    return 0;
  });
  CHECK(code == 0);
  CHECK(names_in(folder.path() / "checkpoints") == std::vector<std::string>{"model-00000005.npz"});
  CHECK(run_training(program).trail == run_training({.epochs = 3}).trail);
}

#endif

TEST_CASE("A folder where nothing can be written is told before training begins", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  put_text(folder / "file", "");
  int batches = 0;
  Recorder counting;
  counting.then = [&](Estimator&, const std::string& what) { batches += what == "batch_end" ? 1 : 0; };
  for (const fs::path& bad : {folder / "file", folder / "file/below", fs::path("/proc/nowhere")}) {
    TrainingProgram program{.epochs = 1, .checkpoints = CheckpointOptions{.folder = bad}};
    program.more = [&](est::FitOptions& options) { options.handlers.push_back(std::make_shared<Recorder>(counting)); };
    CHECK_THROWS_AS(run_training(program), FileError);
  }
  CHECK(batches == 0);
}

TEST_CASE("Files that are no checkpoint, or one that was tampered with, are errors", "[gluon][checkpoint]") {
  const TemporaryFolder folder(quick_folder());
  TrainingProgram program{.epochs = 2, .stop_after = 7, .accumulate = 2, .checkpoints = in(folder)};
  run_training(program);
  const fs::path checkpoints = folder.path() / "checkpoints", path = checkpoints / "model-00000007.npz";
  const std::string good = text_of(path);
  std::mt19937 draw(3);
  const auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(draw); };
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bad = good;
    if (i % 3 == 0)
      bad.resize(below(bad.size()));
    for (std::size_t changes = 1 + below(4); !bad.empty() && changes > 0; --changes)
      bad[below(bad.size())] = static_cast<char>(below(256));
    put_text(folder / "bad.npz", bad);
    try {
      est::read_state(folder / "bad.npz");
    } catch (const FileError&) {
      ++refused;
    }
  }
  CHECK(refused > 1400);  // the others have other bytes where none count

  const std::map<std::string, NDArray> entries = load(path);
  program.stop_after.reset();
  const auto try_with = [&](const std::string& name, const NDArray& value) {
    std::map<std::string, NDArray> changed = entries;
    changed.erase(name);
    if (value.defined())
      changed.emplace(name, value);
    fs::remove_all(checkpoints);
    fs::create_directories(checkpoints);
    save(path, changed);
    try {
      run_training(program);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  for (const auto& [name, value] : entries) {
    INFO(name);
    const std::string without = try_with(name, {});
    // What a handler, a metric or a range did not leave it begins anew.
    const bool may_lack = name == "@loader" || (name.starts_with("@metric") && name.ends_with("count")) ||
                          (name.starts_with("@handler") && name.find("Update") == std::string::npos);
    CHECK(without.empty() == may_lack);
    for (const NDArray& other :
         {array<float>({}), array<std::int64_t>({-5}), array<double>({1e300, -1}), zeros({1, 2, 3})})
      try_with(name, other);  // no other kind of end
    if (value.dtype() == int64 && name.starts_with('@'))
      for (const std::int64_t number :
           {std::int64_t{-1}, std::int64_t{1} << 62, std::numeric_limits<std::int64_t>::max()})
        try_with(name, full(value.shape(), Scalar(number), {.dtype = int64}));
  }
}
