#include <cmath>
#include <csignal>
#include <memory>
#include <utility>
#include <vector>

#include "samples/support/checkpoint.h"
#include "samples/support/evaluation.h"
#include "samples/support/interrupt.h"
#include "samples/support/safe_file.h"
#include "samples/support/session.h"
#include "tests/gluon/idx_files.h"
#include "tests/support/child.h"

using namespace sluice;
using namespace sluice::test;
using namespace samples;
namespace nn = gluon::nn;

namespace {

// Batch norm has state that no optimizer knows of, dropout and shuffling draw random numbers.
Model small_model() {
  nn::Sequential net;
  net.add(nn::Flatten(), nn::Dense(24), nn::BatchNorm(), nn::Activation("relu"), nn::Dropout(0.4), nn::Dense(10));
  return {std::move(net), std::make_unique<gluon::loss::SoftmaxCrossEntropyLoss>()};
}

Images toy_images_of(const TemporaryFolder& folder) {
  write_toy_dataset(folder.path(), 110, 40);
  return open_images(folder.path().string());
}

TrainingOptions options_for(const char* optimizer, int epochs) {
  return {.model = "small", .device = cpu(), .epochs = epochs, .batch_size = 16, .optimizer = optimizer, .seed = 7};
}

// Trains `epochs` in all, from `resumed` if that is given, on an engine of its own; writes what it came to.
void train_to(
    const Images& images,
    const TrainingOptions& options,
    const std::filesystem::path& to,
    const std::filesystem::path& from = {}) {
  Engine engine({.workers = 2, .seed = from.empty() ? options.seed : 999});
  EngineScope scope(engine);
  std::optional<Checkpoint> resumed;
  if (!from.empty())
    resumed = read_checkpoint(from);
  Session session(options, images, small_model(), resumed ? &*resumed : nullptr);
  session.run();
  CHECK((session.graphs() > 0) == options.hybrid);
  write_checkpoint(to, session.checkpoint());
}

std::vector<std::byte> bytes_of(const NDArray& array) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(array.size()) * size_of(array.dtype()));
  array.read_out(bytes.data(), array.dtype(), array.size());
  return bytes;
}

void check_same(const std::filesystem::path& one, const std::filesystem::path& other) {
  const auto a = load(one), b = load(other);
  CHECK(a.size() == b.size());
  CHECK(a.contains("2.running_mean"));
  for (const auto& [name, array] : a) {
    INFO(name);
    REQUIRE(b.contains(name));
    if (!name.ends_with(".seconds") && !name.ends_with(".history") &&
        !name.ends_with(".settings"))  // which hold times, and the number of epochs
      CHECK(bytes_of(array) == bytes_of(b.at(name)));
  }
  const Checkpoint left = read_checkpoint(one), right = read_checkpoint(other);
  REQUIRE(left.history.size() == right.history.size());
  for (std::size_t i = 0; i < left.history.size(); ++i) {
    CHECK(left.history[i].loss == right.history[i].loss);
    CHECK(left.history[i].accuracy == right.history[i].accuracy);
    CHECK(left.history[i].validation_loss == right.history[i].validation_loss);
    CHECK(left.history[i].validation_accuracy == right.history[i].validation_accuracy);
  }
}

}  // namespace

TEST_CASE("3 + 3 epochs with batch norm, dropout and shuffling are 6, to the last bit", "[samples]") {
  TemporaryFolder folder;
  const Images images = toy_images_of(folder);
  for (const char* optimizer : {"adam", "sgd"}) {
    INFO(optimizer);
    train_to(images, options_for(optimizer, 6), folder / "whole.npz");
    train_to(images, options_for(optimizer, 3), folder / "half.npz");
    train_to(images, options_for(optimizer, 6), folder / "rest.npz", folder / "half.npz");
    check_same(folder / "whole.npz", folder / "rest.npz");
  }
}

TEST_CASE("a session that runs graphs comes to the same file, to the last bit, resumed halfway too", "[samples]") {
  TemporaryFolder folder;
  const Images images = toy_images_of(folder);
  for (const char* optimizer : {"adam", "sgd"}) {
    INFO(optimizer);
    TrainingOptions options = options_for(optimizer, 4), half = options_for(optimizer, 2);
    train_to(images, options, folder / "plain.npz");
    options.hybrid = half.hybrid = true;
    train_to(images, options, folder / "hybrid.npz");
    check_same(folder / "plain.npz", folder / "hybrid.npz");
    train_to(images, half, folder / "half.npz");
    train_to(images, options, folder / "rest.npz", folder / "half.npz");
    check_same(folder / "plain.npz", folder / "rest.npz");
  }
}

TEST_CASE("an epoch whose validation was interrupted has its figures when the run goes on", "[samples]") {
  TemporaryFolder folder;
  const Images images = toy_images_of(folder);
  TrainingOptions options = options_for("sgd", 1);
  options.final_rate = 0.1;
  train_to(images, options, folder / "whole.npz");
  const EpochRecord whole = read_checkpoint(folder / "whole.npz").history.at(0);
  CHECK(whole.learning_rate == Approx(0.1 * options.rate()));
  {
    Engine engine;
    EngineScope scope(engine);
    Checkpoint trained = read_checkpoint(folder / "whole.npz");
    trained.history.clear();
    trained.epoch = {.loss = 110 * whole.loss, .hits = std::llround(110 * whole.accuracy), .images = 110};
    trained.epoch_seconds = 1000;
    write_checkpoint(folder / "trained.npz", trained);
  }
  train_to(images, options, folder / "rest.npz", folder / "trained.npz");
  const EpochRecord rest = read_checkpoint(folder / "rest.npz").history.at(0);
  CHECK(rest.learning_rate == whole.learning_rate);
  CHECK(rest.validation_loss == whole.validation_loss);
  CHECK(rest.seconds == 1000);
  CHECK(rest.images_per_second == Approx(0.11).epsilon(0.01));
}

TEST_CASE("a checkpoint comes back as it was", "[samples]") {
  TemporaryFolder folder;
  Checkpoint written;
  written.settings = {{"--lr", "0.1"}, {"--model", "a b"}};
  written.state.parameters = {{"0.weight", array<float>({1, 2, 3})}};
  written.state.optimizer = {{"0.weight.mean", array<float>({4, 5, 6})}};
  written.state.random = {~std::uint64_t{0}, std::uint64_t{1} << 63};
  written.state.has_loader = true;
  written.state.loader = {30, 4, true, "rollover", 2, 5, {~std::uint64_t{1}, 7}, {3, 1}};
  written.images = ~std::uint64_t{2};
  written.state.progress = {.batches = 12, .fits = 1, .total_batches = 12};
  written.first_loss = 2.3;
  written.seconds = 1.5;
  written.epoch = {.loss = 0.1, .hits = 3, .images = 4};
  written.epoch_seconds = 0.25;
  written.history = {{1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14}};
  write_checkpoint(folder / "a.npz", written);
  const Checkpoint read = read_checkpoint(folder / "a.npz");
  CHECK(read.settings == written.settings);
  CHECK(values(read.state.parameters.at("0.weight")) == std::vector<float>{1, 2, 3});
  CHECK(values(read.state.optimizer.at("0.weight.mean")) == std::vector<float>{4, 5, 6});
  CHECK(read.state.parameters.size() + read.state.optimizer.size() == 2);
  CHECK(read.state.random.seed == written.state.random.seed);
  CHECK(read.state.random.offset == written.state.random.offset);
  CHECK((read.state.loader.order.seed == ~std::uint64_t{1} && read.state.loader.order.offset == 7));
  CHECK((read.state.loader.num_samples == 30 && read.state.loader.batch_size == 4 && read.state.loader.shuffle));
  CHECK(
      (read.state.loader.last_batch == "rollover" && read.state.loader.epochs == 2 && read.state.loader.position == 5));
  CHECK(read.state.loader.carried == std::vector<std::int64_t>{3, 1});
  CHECK(read.images == ~std::uint64_t{2});
  CHECK(
      (read.state.progress == written.state.progress && read.first_loss == 2.3 && read.seconds == 1.5 &&
       read.epoch_seconds == 0.25));
  CHECK((read.epoch.loss == 0.1 && read.epoch.hits == 3 && read.epoch.images == 4));
  REQUIRE(read.history.size() == 2);
  CHECK((read.history[1].learning_rate == 8 && read.history[1].images_per_second == 14));
}

TEST_CASE("a file that is no checkpoint is refused by what it lacks", "[samples]") {
  TemporaryFolder folder;
  save(folder / "plain.npz", {{"0.weight", array<float>({1})}});
  CHECK_THROWS_WITH(
      read_checkpoint(folder / "plain.npz"), contains("--load takes parameters") && contains("plain.npz"));
  save(folder / "later.npz", {{"@format", array<std::int64_t>({2})}});
  CHECK_THROWS_WITH(read_checkpoint(folder / "later.npz"), contains("format 2"));
  save(folder / "odd.npz", {{"@format", array<float>({1})}});
  CHECK_THROWS_AS(read_checkpoint(folder / "odd.npz"), FileError);
}

TEST_CASE("each epoch's seconds are its own", "[samples]") {
  TemporaryFolder folder;
  train_to(toy_images_of(folder), options_for("sgd", 6), folder / "net.npz");
  const Checkpoint trained = read_checkpoint(folder / "net.npz");
  double seconds = 0;
  for (const EpochRecord& epoch : trained.history)
    seconds += epoch.seconds;
  CHECK(seconds > 0);
  CHECK(seconds < trained.seconds);  // which holds the validations too
}

TEST_CASE("a run that was stopped before its first step overwrites no file", "[samples]") {
  TemporaryFolder folder;
  const Images images = toy_images_of(folder);
  TrainingOptions options = options_for("sgd", 3);
  options.save = folder / "net.npz";
  save(options.save, {{"good", ones({1})}});
  Engine engine;
  EngineScope scope(engine);
  Session session(options, images, small_model(), nullptr);
  CHECK(session.save());
  CHECK(load(options.save).contains("good"));
}

TEST_CASE("divergence is noticed some steps after it, not when the epoch is over", "[samples]") {
  TemporaryFolder folder;
  const Images images = toy_images_of(folder);
  TrainingOptions options = options_for("sgd", 1);
  options.learning_rate = 1e30, options.batch_size = 1;
  Engine engine;
  EngineScope scope(engine);
  Session session(options, images, small_model(), nullptr);
  CHECK_THROWS_AS(session.run(), Diverged);
  CHECK(session.steps() < 60);  // of 110
}

TEST_CASE("an error in the midst of training finds what was trained saved", "[samples]") {
  TemporaryFolder folder;
  const Images images = toy_images_of(folder);
  TrainingOptions options = options_for("sgd", 2);
  for (const int failing : {4, 9}) {  // of 7 steps an epoch
    options.save = folder / ("net" + std::to_string(failing) + ".npz");
    const auto model = [](int step) {
      nn::Sequential net;
      net.add(nn::Flatten(), nn::Dense(10), nn::Lambda([step, done = 0](const NDArray& x) mutable {
                if (autograd::is_training())
                  require(++done != step, [] { return "no more"; });
                return x;
              }));
      return Model{std::move(net), std::make_unique<gluon::loss::SoftmaxCrossEntropyLoss>()};
    };
    {
      Engine engine;
      EngineScope scope(engine);
      Session session(options, images, model(failing), nullptr);
      CHECK_THROWS_WITH(session.run(), contains("no more"));
      CHECK(session.last_saved() == options.save);
    }
    Engine engine;
    EngineScope scope(engine);
    const Checkpoint saved = read_checkpoint(options.save);
    CHECK(saved.state.progress.total_batches == failing);  // the batch that failed was taken
    CHECK(saved.history.size() == static_cast<std::size_t>(failing / 7));
    Session session(options, images, model(-1), &saved);
    session.run();
    CHECK((session.steps() == 14 && session.history().size() == 2));
  }
}

TEST_CASE("an evaluation that is interrupted says so, and its epoch has no figures", "[samples]") {
  if (!runs_alone()) {
    CHECK(run_case_alone("an evaluation that is interrupted*") == 0);
    return;
  }
  TemporaryFolder folder;
  const Images images = toy_images_of(folder);
  Engine engine;
  EngineScope scope(engine);
  catch_interrupts();
  nn::Sequential net;
  net.add(nn::Flatten(), nn::Dense(10), nn::Lambda([](const NDArray& x) {
            if (!autograd::is_training())
              std::raise(SIGINT);
            return x;
          }));
  const TrainingOptions options = options_for("sgd", 3);
  Session session(options, images, {std::move(net), std::make_unique<gluon::loss::SoftmaxCrossEntropyLoss>()}, nullptr);
  session.run();
  CHECK(session.steps() == 7);
  CHECK(session.history().size() <= 1);
  gluon::data::DataLoader loader(images.testing.transform_first(gluon::data::vision::ToTensor()), {.batch_size = 10});
  CHECK_FALSE(evaluate(nn::Flatten(), gluon::loss::L2Loss(), loader).complete);
}

TEST_CASE("a checkpoint's settings are taken for flags that were not given, and checked like flags", "[samples]") {
  const auto adopted = [](const std::map<std::string, std::string>& settings, std::vector<const char*> words) {
    TrainingOptions options{.model = "small"};
    CommandLine command("training");
    options.add_to(command);
    words.insert(words.begin(), "small");
    REQUIRE_FALSE(command.parse(static_cast<int>(words.size()), words.data()));
    options.adopt(settings, "net.npz");
    return options;
  };
  TrainingOptions trained = options_for("sgd", 6);
  trained.learning_rate = 0.3, trained.weight_decay = 1e-5, trained.precision = "high";
  const auto settings = trained.settings();
  CHECK(adopted(settings, {}).settings() == settings);
  CHECK(adopted(settings, {"--epochs", "9", "--batch-size", "16"}).epochs == 9);
  CHECK_THROWS_WITH(
      adopted(settings, {"--batch-size", "32"}), contains("--batch-size 16, this run has --batch-size 32"));
  for (const auto& [flag, value] : settings) {
    auto less = settings;
    less.erase(flag);
    CHECK_THROWS_WITH(adopted(less, {}), contains("net.npz: lacks its " + flag));
  }
  for (const auto& [flag, value] : std::map<std::string, std::string>{
           {"--batch-size", "0"},
           {"--epochs", "six"},
           {"--lr", "-1"},
           {"--final-lr", "2"},
           {"--optimizer", "lbfgs"},
           {"--momentum", "nan"},
           {"--weight-decay", "inf"},
           {"--seed", "-1"},
           {"--precision", ""}}) {
    auto corrupt = settings;
    corrupt[flag] = value;
    INFO(flag << ' ' << value);
    CHECK_THROWS_AS(adopted(corrupt, {}), FileError);
    CHECK_THROWS_WITH(adopted(corrupt, {}), contains("net.npz") && contains(flag) && contains(value));
  }
}

TEST_CASE("a link to a checkpoint stays a link", "[samples]") {
  TemporaryFolder folder;
  const Checkpoint begun{.state = {.progress = {.fits = 1}}};
  save(folder / "file.npz", {{"x", array<float>({1})}});
  std::filesystem::create_symlink("file.npz", folder / "link.npz");
  write_checkpoint(folder / "link.npz", begun);
  CHECK(std::filesystem::is_symlink(folder / "link.npz"));
  CHECK_NOTHROW(read_checkpoint(folder / "file.npz"));
  // The file that it names need not be there yet.
  std::filesystem::create_directory(folder / "there");
  std::filesystem::create_symlink("there/far.npz", folder / "near.npz");
  std::filesystem::create_symlink(folder / "near.npz", folder / "dangling.npz");
  CHECK_NOTHROW(check_target("--save", folder / "dangling.npz"));
  write_checkpoint(folder / "dangling.npz", begun);
  CHECK(std::filesystem::is_symlink(folder / "near.npz"));
  CHECK(std::filesystem::is_symlink(folder / "dangling.npz"));
  CHECK_NOTHROW(read_checkpoint(folder / "there" / "far.npz"));
  std::filesystem::create_symlink("nowhere/far.npz", folder / "lost.npz");
  CHECK_THROWS_WITH(check_target("--save", folder / "lost.npz"), contains("there is no folder") && contains("nowhere"));
}
