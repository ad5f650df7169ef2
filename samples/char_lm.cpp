// A small transformer learns, character by character, how a text goes on, and then goes on itself.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/sluice.h>

#include "samples/support/flags.h"
#include "samples/support/interrupt.h"
#include "samples/support/mixed_precision.h"
#include "samples/support/run_main.h"
#include "samples/support/saving.h"

namespace {

using namespace sluice;
namespace est = gluon::estimator;

struct Options {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  std::string text;
  std::int64_t steps = 300, batch = 32, length = 64, units = 64, layers = 2, heads = 4, characters = 400;
  double learning_rate = 4e-3, temperature = 0.7;
  std::uint64_t seed = 1;
  bool recompute = false;
  samples::MixedPrecision mixed = {};
  samples::Saving saving = {};
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error(path.string() + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A file, or all sources in a folder, in the order of their names.
std::string read_text(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path))
    return read_file(path);
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    const std::string ending = entry.path().extension().string();
    if (entry.is_regular_file() && (ending == ".h" || ending == ".cpp" || ending == ".md"))
      files.push_back(entry.path());
  }
  if (files.empty())
    throw std::runtime_error(path.string() + ": the folder has no file that ends in .h, .cpp or .md");
  std::sort(files.begin(), files.end());
  std::string all;
  for (const auto& file : files)
    all += read_file(file);
  return all;
}

/// Characters as numbers, those that come up alone.
class Alphabet {
 public:
  explicit Alphabet(const std::string& text) : characters_(text) {
    std::sort(characters_.begin(), characters_.end());
    characters_.erase(std::unique(characters_.begin(), characters_.end()), characters_.end());
    for (std::size_t i = 0; i < characters_.size(); ++i)
      numbers_[static_cast<unsigned char>(characters_[i])] = static_cast<std::int32_t>(i);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }
  std::int32_t number(char c) const { return numbers_[static_cast<unsigned char>(c)]; }
  char character(std::int64_t number) const { return characters_[static_cast<std::size_t>(number)]; }

 private:
  std::string characters_;
  std::array<std::int32_t, 256> numbers_{};
};

/// Pieces of the text from random places, and the same pieces one character on: an epoch without end.
class Pieces : public est::BatchSource {
 public:
  Pieces(const std::string& text, const Alphabet& alphabet, const Options& options) : options_(options) {
    for (const char c : text)
      numbers_.push_back(alphabet.number(c));
  }

  void begin() override { draw_.seed(options_.seed); }
  void end() override { batch_ = {}; }
  const gluon::data::Batch* next() override {
    const auto length = static_cast<std::size_t>(options_.length);
    std::uniform_int_distribution<std::size_t> begin(0, numbers_.size() - length - 1);
    std::vector<std::int32_t> x, y;
    for (std::int64_t i = 0; i < options_.batch; ++i) {
      const auto at = numbers_.begin() + static_cast<std::ptrdiff_t>(begin(draw_));
      x.insert(x.end(), at, at + options_.length);
      y.insert(y.end(), at + 1, at + options_.length + 1);
    }
    const Shape shape{options_.batch, options_.length};
    batch_ = {array(x, shape, options_.device), array(y, shape, options_.device)};
    return &batch_;
  }

 private:
  Options options_;
  std::vector<std::int32_t> numbers_;
  std::mt19937_64 draw_;
  gluon::data::Batch batch_;
};

/// Ten lines of the training, each of the steps since the one before.
class Lines : public est::EventHandler {
 public:
  explicit Lines(std::int64_t steps) : steps_(steps), every_(std::max<std::int64_t>(steps / 10, 1)) {}
  void batch_end(est::Estimator& estimator, const gluon::data::Batch&, const gluon::StepResult&) override {
    const std::int64_t step = estimator.progress().batches;
    if (step % every_ != 0 && step != steps_)
      return;
    fmt::print("step {:5}: loss {:.3f}\n", step, estimator.figure("training loss"));
    std::fflush(stdout);
    for (const auto& metric : estimator.train_metrics())
      metric->reset();
  }

 private:
  std::int64_t steps_, every_;
};

void train(gluon::model_zoo::GPT& net, const std::shared_ptr<Pieces>& pieces, const Options& options) {
  gluon::Trainer trainer(net.collect_params(), gluon::optimizer::AdamW({.wd = 0.01}));
  trainer.set_schedule(gluon::lr_scheduler::OneCycleScheduler(
      {.total_steps = std::max<std::int64_t>(options.steps, 2), .max_lr = options.learning_rate, .pct_start = 0.1}));
  trainer.guard_gradients({.max_norm = 1});
  options.mixed.prepare(trainer);
  const amp::AutocastScope cast = options.mixed.autocast();
  const gluon::loss::SoftmaxCrossEntropyLoss cost;
  est::Estimator estimator(net, cost, trainer, {.step = {.predictions = false}});
  est::Handlers handlers = options.saving.handlers(100);
  handlers.push_back(std::make_shared<Lines>(options.steps));
  estimator.fit(
      std::static_pointer_cast<est::BatchSource>(pieces),
      {.batches = options.steps, .handlers = std::move(handlers), .log = false});
  options.saving.end_if_interrupted();
}

/// Logits of what follows the last of the characters in sight, which one character more is behind each time.
class Follower {
 public:
  Follower(gluon::model_zoo::GPT& net, const Options& options) : net_(net), options_(options), decoder_(net) {
    if (options.recompute)
      net.hybridize();
  }

  NDArray after(const std::vector<std::int32_t>& seen) {
    const auto count = static_cast<std::int64_t>(seen.size());
    if (options_.recompute)
      return after_all_of(seen);
    if (decoder_.position() >= count)  // what is in sight begins anew
      decoder_.reset();
    const std::vector<std::int32_t> fresh(seen.begin() + decoder_.position(), seen.end());
    const auto length = static_cast<std::int64_t>(fresh.size());
    return decoder_(array(fresh, {1, length}, options_.device)).slice(1, length - 1, length);
  }

 private:
  /// What comes behind the last one it does not look at: zeros, so that all calls are of one shape.
  NDArray after_all_of(std::vector<std::int32_t> seen) {
    const auto count = static_cast<std::int64_t>(seen.size());
    seen.resize(static_cast<std::size_t>(options_.length));
    return net_(array(seen, {1, options_.length}, options_.device)).slice(1, count - 1, count);
  }

  gluon::model_zoo::GPT& net_;
  const Options& options_;
  gluon::model_zoo::GPTDecoder decoder_;
};

/// As many characters as asked, each drawn by what the network says of those before it: of half as many as it looks
/// back at least, then of one more each time, until there are too many and the last half is where it begins anew.
std::string go_on(
    gluon::model_zoo::GPT& net, const std::string& text, const Alphabet& alphabet, const Options& options) {
  const std::int64_t half = std::max<std::int64_t>(options.length / 2, 1);
  std::vector<std::int32_t> seen;
  for (std::int64_t i = 0; i < half; ++i)
    seen.push_back(alphabet.number(text[static_cast<std::size_t>(i)]));
  std::string written;
  Follower follower(net, options);
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < options.characters; ++i) {
    samples::end_if_interrupted("the text is not at its end");
    const NDArray logits = follower.after(seen).reshape({alphabet.size()});
    seen.push_back(random::categorical(softmax(logits / options.temperature)).item<std::int32_t>());
    written += alphabet.character(seen.back());
    if (static_cast<std::int64_t>(seen.size()) > options.length)
      seen.erase(seen.begin(), seen.end() - half);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print(
      stderr,
      "{} characters, {:.0f}/s, {}\n",
      options.characters,
      static_cast<double>(options.characters) / took.count(),
      options.recompute ? "all in sight computed again each time" : "keys and values kept");
  return written;
}

int run(const Options& options) {
  if (options.units % options.heads != 0)
    throw std::runtime_error(
        fmt::format("--heads: {} heads do not divide a width of {} (--units)", options.heads, options.units));
  options.saving.begin();
  const std::string text = read_text(options.text);
  if (static_cast<std::int64_t>(text.size()) < options.length + 2)
    throw std::runtime_error(
        fmt::format("{}: {} characters are too few for pieces of {}", options.text, text.size(), options.length));
  const Alphabet alphabet(text);
  random::seed(options.seed);
  gluon::model_zoo::GPT net(
      {.vocabulary = alphabet.size(),
       .length = options.length,
       .units = options.units,
       .layers = options.layers,
       .heads = options.heads,
       .dropout = 0});
  net.initialize(gluon::init::Normal(0.08), options.device);
  fmt::print("{} characters, {} different ones; on {}\n", text.size(), alphabet.size(), to_string(options.device));
  train(net, std::make_shared<Pieces>(text, alphabet, options), options);
  if (options.characters > 0)
    fmt::print("\n{}\n", go_on(net, text, alphabet, options));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  samples::CommandLine command(
      "A small transformer learns how a text goes on, character by character, and writes some.");
  command.add_device_flag(options.device);
  command.add_option("text", options.text, "A file, or a folder of sources (.h, .cpp and .md)").required();
  command.add_option("--steps", options.steps, "Training steps")
      .check(samples::whole_within(1, 1'000'000))
      .with_default();
  command.add_option("--batch", options.batch, "Pieces in a batch")
      .check(samples::whole_within(1, 4096))
      .with_default();
  command.add_option("--length", options.length, "Characters that it looks back")
      .check(samples::whole_within(2, 4096))
      .with_default();
  command.add_option("--units", options.units, "Width of the network")
      .check(samples::whole_within(1, 4096))
      .with_default();
  command.add_option("--layers", options.layers, "Layers").check(samples::whole_within(1, 100)).with_default();
  command.add_option("--heads", options.heads, "Heads, which divide the width")
      .check(samples::whole_within(1, 64))
      .with_default();
  command.add_option("--lr", options.learning_rate, "Largest learning rate")
      .check(samples::finite_within({.low = 0, .high = 1}))
      .with_default();
  command.add_option("--write", options.characters, "Characters to write")
      .check(samples::whole_within(0, 1'000'000))
      .with_default();
  command.add_option("--temperature", options.temperature, "Below 1 it writes what is likelier")
      .check(samples::finite_within({.low = 0, .high = 100, .open_low = true}))
      .with_default();
  command.add_flag("--recompute", options.recompute, "Write without keeping keys and values: slower, the same text");
  command.add_option("--seed", options.seed, "Of all random numbers").check(samples::whole_number()).with_default();
  options.mixed.add_to(command);
  options.saving.add_to(command);
  return samples::run_main(command, argc, argv, [&] { return run(options); });
}
