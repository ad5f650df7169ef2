// Checkpoints of estimators: loaders that several fits and evaluations use, files of others, states that are refused.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sluice/gluon/detail/loader_numbers.h>
#include <sluice/gluon/estimator/tensorboard.h>

#include "tests/gluon/checkpointed.h"

using namespace sluice;
using namespace sluice::test;
using est::Estimator;
using gluon::data::RandomSampler;
using gluon::data::Sampler;
using sluice::test::contains;

namespace {

std::shared_ptr<est::CheckpointHandler> checkpoints(CheckpointOptions options) {
  return std::make_shared<est::CheckpointHandler>(std::move(options));
}

/// Three samples of twenty, others in each epoch.
DataLoader drawing_loader(std::uint64_t seed) {
  return DataLoader(
      small_dataset(7),
      {.batch_size = 2, .seed = seed, .sampler = Sampler(RandomSampler(k_samples, {.num_samples = 3}))});
}

std::optional<std::string> error_of(const std::function<void()>& call) {
  try {
    call();
    return {};
  } catch (const Error& error) {
    return error.message();
  }
}

void throw_after(est::FitOptions& options, std::int64_t batches) {
  Recorder failing;
  failing.then = [=](Estimator& e, const std::string& what) {
    if (what == "batch_end" && e.progress().batches == batches)
      throw ValueError("cut off");
  };
  options.handlers.push_back(std::make_shared<Recorder>(failing));
}

}  // namespace

TEST_CASE("A validation loader that draws its samples goes on where it stood", "[gluon][checkpoint]") {
  const auto program = [](std::optional<std::int64_t> stop, std::optional<CheckpointOptions> how) {
    Training training;
    DataLoader validation = drawing_loader(1);
    Trainer trainer(training.net.collect_params(), Adam({.learning_rate = 0.01}));
    Estimator estimator(training.net, training.loss, trainer);
    std::map<std::int64_t, double> losses;
    Recorder looking;
    looking.then = [&](Estimator& e, const std::string& what) {
      if (what == "batch_end" || what == "epoch_end")
        losses[e.progress().batches] = e.validations() > 0 ? e.figure("validation loss") : 0;
    };
    est::FitOptions options{.epochs = 4, .batches = stop, .log = false};
    options.handlers = {
        std::make_shared<est::ValidationHandler>(
            validation, est::ValidationOptions{.every_epochs = 1, .every_batches = 3}),
        std::make_shared<Recorder>(looking)};
    if (how)
      options.handlers.push_back(checkpoints(*how));
    estimator.fit(training.loader, options);
    return std::pair(losses, validation.state().epochs);
  };
  const auto [whole, epochs] = program({}, {});
  REQUIRE(std::adjacent_find(whole.begin(), whole.end(), [](const auto& a, const auto& b) {
            return a.second != b.second;
          }) != whole.end());
  for (const std::int64_t stop : {1, 3, 7, 10}) {
    INFO(stop);
    const TemporaryFolder folder;
    auto [losses, some] = program(stop, in(folder));
    const auto [more, all] = program({}, in(folder));
    losses.insert(more.begin(), more.end());
    CHECK(losses == whole);
    CHECK(all == epochs);
  }
}

TEST_CASE("A ValidationHandler refuses a state that is none, and stays as it was", "[gluon][checkpoint]") {
  DataLoader loader = drawing_loader(1), other(small_dataset(), {.batch_size = 3});
  loader.begin();
  est::ValidationHandler handler(loader), plain(plain_batches());
  const est::HandlerState good = handler.state();
  CHECK(plain.state().count("loader") == 0);
  plain.load_state(good);  // which has more than it needs
  const auto with = [&](const NDArray& loader_entry) {
    est::HandlerState state = good;
    state["validated_at"] = array<std::int64_t>({5});
    state["loader"] = loader_entry;
    return state;
  };
  est::ValidationHandler of_other(other);
  for (const NDArray& bad :
       {array<std::int64_t>({1}),
        array<float>({1, 2, 3, 4, 5, 6, 7, 8}),
        zeros({8, 1}, {.dtype = int64}),
        array<std::int64_t>({20, 2, 0, 1, 0, 1, 0, 9}),
        array<std::int64_t>({20, 2, 0, 1, 0, 1, 0, -1}),
        of_other.state().at("loader")}) {
    CHECK_THROWS_AS(handler.load_state(with(bad)), ValueError);
    CHECK(values(handler.state().at("loader").astype(float32)) == values(good.at("loader").astype(float32)));
    CHECK(handler.state().at("validated_at").item<std::int64_t>() == -1);
  }
  handler.load_state({{"validated_at", array<std::int64_t>({5})}});  // as older files have it
  CHECK(handler.state().at("validated_at").item<std::int64_t>() == 5);
}

TEST_CASE("Numbers of a loader's state that were tampered with are told or give another state", "[gluon][checkpoint]") {
  gluon::data::DataLoaderState state{
      .num_samples = 20, .batch_size = 3, .last_batch = "rollover", .epochs = 2, .position = 1, .carried = {4, 7}};
  const std::vector<std::int64_t> good = gluon::detail::numbers_of(state);
  const auto same = gluon::detail::loader_state_of(good);
  REQUIRE(same.has_value());
  CHECK(gluon::detail::numbers_of(*same) == good);
  CHECK(same->carried == state.carried);
  CHECK(same->last_batch == "rollover");
  const TemporaryFolder folder(quick_folder());
  TrainingProgram program{.epochs = 1, .checkpoints = in(folder)};
  run_training(program);
  const fs::path path = folder.path() / "checkpoints/model-00000005.npz";
  std::map<std::string, NDArray> entries = load(path);
  std::mt19937_64 draw(5);
  std::vector<std::int64_t> framed = {1, 0, std::ssize(good)};
  framed.insert(framed.end(), good.begin(), good.end());
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<std::int64_t> bad = i % 2 == 0 ? good : framed;
    if (i % 3 == 0)
      bad.resize(draw() % bad.size());
    for (std::size_t changes = draw() % 3; !bad.empty() && changes > 0; --changes)
      bad[draw() % bad.size()] =
          i % 5 == 0 ? static_cast<std::int64_t>(draw()) : static_cast<std::int64_t>(draw() % 40) - 5;
    if (i % 2 == 0) {
      const auto read = gluon::detail::loader_state_of(bad);
      refused += read.has_value() ? 0 : 1;
      continue;
    }
    if (i % 8 != 1)
      continue;
    entries["@left_loaders"] = array(bad, {std::ssize(bad)});
    save(folder / "bad.npz", entries);
    try {
      const std::size_t loaders = est::read_state(folder / "bad.npz").left_loaders.size();
      CHECK(loaders <= bad.size() / 11);  // of 3 numbers and 8 at least
    } catch (const FileError& error) {
      CHECK_THAT(error.message(), contains("@left_loaders"));
      ++refused;
    }
  }
  CHECK(refused > 500);
}

TEST_CASE(
    "Loaders of fits that are over stand where these left them, though another is gone on with",
    "[gluon][checkpoint]") {
  const auto program = [](std::optional<CheckpointOptions> how, std::optional<std::int64_t> stop_second) {
    Training training(0);
    DataLoader a(small_dataset(), {.batch_size = 4, .shuffle = true, .seed = 3});
    DataLoader b(small_dataset(3), {.batch_size = 4, .shuffle = true, .seed = 4});
    DataLoader seen_a = drawing_loader(5), seen_b = drawing_loader(6);
    Trainer trainer(training.net.collect_params(), Adam({.learning_rate = 0.05}));
    Estimator estimator(training.net, training.loss, trainer);
    Trail trail;
    for (int fit = 0; fit < 4; ++fit) {
      est::FitOptions options{.epochs = 2, .validation = fit == 1 ? seen_b : seen_a, .log = false};
      if (how)
        options.handlers.push_back(checkpoints(*how));
      if (fit == 1 && stop_second)
        throw_after(options, *stop_second);
      estimator.fit(fit == 1 ? b : a, options);
      trail.push_back({static_cast<float>(estimator.figure("validation loss"))});
    }
    const Trail end = training.trail(trainer);
    trail.insert(trail.end(), end.begin(), end.end());
    trail.erase(trail.begin(), trail.begin() + 2);  // of fits that a later process skips
    return trail;
  };
  const Trail whole = program({}, {});
  for (const std::int64_t stop : {2, 5, 9}) {
    const TemporaryFolder folder;
    CheckpointOptions how = in(folder);
    how.every_batches = 1;
    CHECK_THROWS_WITH(program(how, stop), contains("cut off"));
    CHECK(program(how, {}) == whole);
  }
}

namespace {

/// A loss with a parameter.
struct WeightedLoss : gluon::loss::Loss {
  explicit WeightedLoss(DType dtype, std::int64_t n)
      : weight(parameter("weight", {.shape = {n}, .dtype = dtype, .init = gluon::init::One()})) {}
  NDArray compute(const NDArray& prediction, const NDArray& label) const override {
    return mean(square(prediction - label) * weight.data().astype(float32).slice(0, 0, 1), {1});
  }
  gluon::Parameter& weight;
};

}  // namespace

TEST_CASE("A checkpoint that is refused has changed nothing, however late that is seen", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  CheckpointOptions how = in(folder);
  how.every_batches = 1;
  struct Case {
    const char* what;
    DType dtype = float32;
    std::int64_t n = 1;
    bool short_range = false, fails_at_last = false;
  };
  const auto program = [&](const Case& with, bool first) {
    Training training;
    WeightedLoss loss(with.dtype, with.n);
    loss.initialize();
    Trainer trainer(training.net.collect_params(), Adam({.learning_rate = 0.05}));
    Estimator estimator(training.net, loss, trainer);
    estimator.train_batch(small_batch(4, 9));
    const Trail before = training.trail(trainer);
    const est::Progress progress = estimator.progress();
    est::FitOptions options{.epochs = 2, .handlers = {checkpoints(how)}, .log = false};
    if (first)
      options.batches = 3;
    const std::vector<Batch> one = {small_batch(4, 0)};
    const auto error = error_of([&] {
      if (with.short_range)
        estimator.fit(one, options);
      else
        estimator.fit(plain_batches(), options);
    });
    if (!first) {
      REQUIRE(error.has_value());
      CHECK_THAT(*error, contains(with.what));
      CHECK(training.trail(trainer) == before);
      CHECK(estimator.progress() == progress);
      CHECK(values(loss.weight.data().astype(float32))[0] == 1);
    } else {
      CHECK(!error);
    }
  };
  program({""}, true);
  program({"batches of an epoch, there are 1 now", float32, 1, true}, false);
  program({"'weight' is float32, the network's is float64", float64}, false);
  program({"'weight' has shape", float32, 2}, false);
}

TEST_CASE("A CheckpointHandler serves another estimator as it did the first", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  CheckpointOptions how = in(folder);
  const auto run_with = [&](const std::shared_ptr<est::CheckpointHandler>& handler, std::int64_t cut, bool again) {
    Training training;
    Trainer trainer(training.net.collect_params(), Adam());
    Estimator estimator(training.net, training.loss, trainer);
    est::FitOptions options{.epochs = 4, .handlers = {handler}, .log = false};
    if (cut > 0)
      throw_after(options, cut);
    const auto error = error_of([&] { estimator.fit(training.loader, options); });
    if (again) {
      options.handlers.pop_back();
      estimator.fit(training.loader, options);
    }
    return std::pair(error.value_or(""), training.trail(trainer));
  };
  const Trail whole = run_with(checkpoints({.folder = folder / "whole"}), 0, false).second;
  const auto handler = checkpoints(how);
  CHECK(run_with(handler, 12, false).first == "cut off");
  CHECK(run_with(handler, 0, false).second == whole);
  CHECK(handler->resumed_from().filename() == "model-00000010.npz");

  how.existing = Existing::refuse;
  how.folder = folder / "refusing";
  const auto refusing = checkpoints(how);
  CHECK(run_with(refusing, 12, true).first == "cut off");  // the same training goes on
  CHECK_THAT(run_with(refusing, 0, false).first, contains("from another training"));
  how.existing = Existing::remove;
  how.keep_last = 1;
  how.folder = folder / "removing";
  const auto removing = checkpoints(how);
  run_with(removing, 0, false);
  put_text(how.folder / "model-00000900.npz", "");
  run_with(removing, 7, false);
  CHECK(names_in(how.folder) == std::vector<std::string>{"model-00000005.npz"});
}

TEST_CASE("Of all fits together the last checkpoints are kept", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  CheckpointOptions how = in(folder);
  how.keep_last = 2;
  Training training;
  Estimator estimator(training.net, training.loss, Adam());
  const auto shared = checkpoints(how);
  for (const bool is_shared : {false, false, true, true}) {
    estimator.fit(training.loader, {.epochs = 1, .handlers = {is_shared ? shared : checkpoints(how)}, .log = false});
    CHECK(names_in(how.folder).size() <= 2);
  }
  CHECK(names_in(how.folder) == std::vector<std::string>{"model-00000015.npz", "model-00000020.npz"});
  CHECK(shared->files().size() == 2);
}

TEST_CASE("The best checkpoint of another training is refused, or goes", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  CheckpointOptions how = in(folder);
  how.existing = Existing::refuse;
  how.monitor = "training loss";
  run_training({.epochs = 1, .checkpoints = how});
  const std::vector<std::string> both = {"model-00000005.npz", "model-best.npz"};
  REQUIRE(names_in(how.folder) == both);
  const auto best_of = [&] { return est::read_state(how.folder / "model-best.npz").progress.total_batches; };
  for (const bool newest_is_gone : {false, true}) {
    if (newest_is_gone)
      fs::remove(how.folder / "model-00000005.npz");
    CHECK_THROWS_WITH(
        run_training({.epochs = 1, .checkpoints = how}), contains("model-best.npz is there from another training"));
    CHECK(best_of() > 0);
  }
  how.existing = Existing::remove;
  run_training({.epochs = 1, .checkpoints = how});
  CHECK(names_in(how.folder) == both);  // its own
  how.monitor.clear();
  run_training({.epochs = 1, .checkpoints = how});
  CHECK(names_in(how.folder) == std::vector<std::string>{"model-00000005.npz"});
  // A later fit of the same handler keeps what its first one had as the best.
  how.existing = Existing::refuse;
  how.folder = folder / "two";
  how.monitor = "training loss";
  how.min_delta = 1e9;
  Training training;
  Estimator estimator(training.net, training.loss, Adam());
  const auto handler = checkpoints(how);
  estimator.fit(training.loader, {.epochs = 2, .handlers = {handler}, .log = false});
  CHECK(best_of() == 5);
  estimator.fit(training.loader, {.epochs = 1, .handlers = {handler}, .log = false});
  CHECK(fs::exists(handler->best_file()));
}

TEST_CASE(
    "A checkpoint that cannot be read now, or is of another format, is an error and stays", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  TrainingProgram program{.epochs = 1, .stop_after = 3, .checkpoints = in(folder)};
  program.checkpoints->every_batches = 1;
  run_training(program);
  program.stop_after.reset();
  const fs::path in_it = folder / "checkpoints", newest = in_it / "model-00000003.npz";
  const fs::path far = in_it / "model-00000900.npz";
  const std::map<std::string, NDArray> good = load(newest);
  for (const std::int64_t format : {2, 0, -1}) {
    std::map<std::string, NDArray> other = good;
    other["@format"] = array<std::int64_t>({format});
    save(newest, other);
    CHECK_THROWS_AS(est::read_state(newest), UnsupportedError);
    const std::string text = text_of(newest);
    CHECK_THROWS_WITH(run_training(program), contains("model-00000003.npz: has format " + std::to_string(format)));
    CHECK(text_of(newest) == text);
  }
  save(newest, good);
  fs::create_symlink(far.filename(), far);  // to itself: opening fails
  CHECK_THROWS_WITH(run_training(program), contains("model-00000900.npz: cannot be read now"));
  CHECK(fs::is_symlink(far));
  fs::remove(far);
  fs::create_directory(far);  // opening does not, reading does
  CHECK_THROWS_WITH(run_training(program), contains("model-00000900.npz: cannot be read now"));
  fs::remove(far);
  CHECK(run_training(program).progress.batches == 5);
}

TEST_CASE("Names that no file system takes are errors that say so", "[gluon][checkpoint]") {
  Training training;
  Estimator estimator(training.net, training.loss, Adam());
  const std::string name(300, 'a');
  const auto fit_with = [&](std::shared_ptr<est::EventHandler> handler) {
    estimator.fit(training.loader, {.epochs = 1, .handlers = {std::move(handler)}, .log = false});
  };
  const TemporaryFolder folder;
  CHECK_THROWS_AS(fit_with(checkpoints({.folder = name})), FileError);
  CHECK_THROWS_AS(fit_with(checkpoints({.folder = folder / "c", .prefix = name})), FileError);
  CHECK_THROWS_AS(
      fit_with(std::make_shared<est::TensorBoardHandler>(est::TensorBoardOptions{.folder = name})), FileError);
  CHECK_THROWS_AS(fit_with(std::make_shared<est::CSVLogger>(est::CSVLoggerOptions{.path = name})), FileError);
}
