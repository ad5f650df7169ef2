// What estimators write: lines, bars, rows, event files; and the sweep of learning rates.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sluice/gluon/detail/event_file.h>

#include "tests/gluon/checkpointed.h"

using namespace sluice;
using namespace sluice::test;
using est::Estimator;
using sluice::test::contains;

namespace {

std::string logged(const est::LoggingOptions& how, const est::FitOptions& what, const est::Batches* batches = nullptr) {
  Training training;
  Estimator estimator(training.net, training.loss, SGD());
  std::string text;
  est::LoggingOptions options = how;
  options.print = [&](const std::string& more) { text += more; };
  est::FitOptions fit = what;
  fit.handlers.push_back(std::make_shared<est::LoggingHandler>(options));
  try {
    estimator.fit(batches != nullptr ? *batches : est::Batches(training.loader), fit);
  } catch (const ValueError&) {
    text += "thrown\n";
  }
  return text;
}

std::int64_t count_of(const std::string& text, const std::string& part) {
  std::int64_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

/// An event of an event file, read as the format's description says.
struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version = {};
  std::map<std::string, float> scalars = {};
  bool is_start = false;
};

/// Fields of a message: number and bytes, of numbers the eight that hold them.
std::vector<std::pair<int, std::string>> fields_of(const std::string& bytes) {
  std::vector<std::pair<int, std::string>> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80)
        return value;
    }
  };
  while (at < bytes.size()) {
    const std::uint64_t key = varint();
    std::size_t size = 0;
    std::string value;
    if ((key & 7) == 0) {
      const std::uint64_t number = varint();
      value.assign(reinterpret_cast<const char*>(&number), 8);
    } else {
      size = (key & 7) == 1 ? 8 : (key & 7) == 5 ? 4 : varint();
      REQUIRE(at + size <= bytes.size());
      value = bytes.substr(at, size);
      at += size;
    }
    fields.emplace_back(static_cast<int>(key >> 3), value);
  }
  return fields;
}

template <class T>
T as(const std::string& bytes) {
  T value{};
  REQUIRE(bytes.size() == sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

Event event_of(const std::string& bytes) {
  Event event;
  for (const auto& [field, value] : fields_of(bytes)) {
    if (field == 1)
      event.wall_time = as<double>(value);
    else if (field == 2)
      event.step = as<std::int64_t>(value);
    else if (field == 3)
      event.version = value;
    else if (field == 5)
      for (const auto& [one, scalar] : fields_of(value)) {
        const auto parts = fields_of(scalar);
        REQUIRE((one == 1 && parts.size() == 2 && parts[0].first == 1 && parts[1].first == 2));
        event.scalars[parts[0].second] = as<float>(parts[1].second);
      }
    else if (field == 7)
      event.is_start = as<std::int64_t>(fields_of(value).at(0).second) == 1;
  }
  return event;
}

std::vector<Event> events_in(const fs::path& path) {
  const std::string file = text_of(path);
  const auto masked = [](const std::string& bytes) {
    const std::uint32_t sum = gluon::detail::crc32c(bytes);
    return ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
  };
  std::vector<Event> events;
  for (std::size_t at = 0; at < file.size();) {
    const std::string length = file.substr(at, 8);
    const auto size = as<std::uint64_t>(length);
    REQUIRE(at + 16 + size <= file.size());
    const std::string bytes = file.substr(at + 12, size);
    CHECK(as<std::uint32_t>(file.substr(at + 8, 4)) == masked(length));
    CHECK(as<std::uint32_t>(file.substr(at + 12 + size, 4)) == masked(bytes));
    events.push_back(event_of(bytes));
    at += 16 + size;
  }
  return events;
}

}  // namespace

TEST_CASE("Training is told in lines where there is no terminal", "[gluon][estimator]") {
  const std::string plain = logged({}, {.epochs = 3});
  CHECK(count_of(plain, "\n") == 4);
  CHECK_THAT(plain, contains("epoch 3/3  training loss ") && contains("samples/s") && contains("3 epochs are done"));
  const std::string often = logged({.every_batches = 2}, {.batches = 7});
  CHECK(count_of(often, "  batch ") == 3);
  CHECK_THAT(often, contains("epoch 2  batch 2/5  training loss ") && contains("7 batches are done"));
  const std::vector<Batch> none;
  const est::Batches nothing(none);
  CHECK_THAT(logged({}, {.epochs = 1}, &nothing), contains("training ends after 0:00: an error\nthrown\n"));
  CHECK(logged({}, {.epochs = 0}) == "training ends after 0:00: 0 epochs are done\n");
  CHECK_THROWS_AS(est::LoggingHandler({.every_batches = -1}), ValueError);
  CHECK_THROWS_AS(est::LoggingHandler({.figures_every = std::numeric_limits<double>::quiet_NaN()}), ValueError);
}

TEST_CASE("On a terminal there is a bar", "[gluon][estimator]") {
  const std::string text = logged({.figures_every = 0, .is_terminal = true, .columns = 120}, {.epochs = 2});
  CHECK_THAT(text, contains("\r\033[Kepoch 1/2 [====                ] 1/5  training loss "));
  CHECK_THAT(text, contains("\r\033[Kepoch 2/2  training loss "));
  class Unsized : public est::BatchSource {
   public:
    void begin() override { left_ = 2; }
    const Batch* next() override {
      batch_ = small_batch();
      return left_-- > 0 ? &batch_ : nullptr;
    }
    void end() override {}

   private:
    int left_ = 0;
    Batch batch_;
  };
  const est::Batches unsized(std::make_shared<Unsized>());
  const std::string without = logged({.figures_every = 9, .is_terminal = true}, {.batches = 3}, &unsized);
  CHECK_THAT(without, contains("\r\033[Kepoch 1 batch 1  ") && contains("samples/s  0:00\ntraining ends"));
}

TEST_CASE("Figures go to a file of rows", "[gluon][estimator]") {
  const TemporaryFolder folder;
  Training training;
  const auto odd = std::make_shared<gluon::metric::MSE>("with \"quotes\", and more");
  Estimator estimator(training.net, training.loss, SGD({.learning_rate = 0.125}), {.train_metrics = {odd}});
  put_text(folder / "rows.csv", "of another training\n");
  const auto logger = std::make_shared<est::CSVLogger>(est::CSVLoggerOptions{.path = folder / "rows.csv"});
  estimator.fit(
      training.loader,
      {.epochs = 2,
       .handlers =
           {logger,
            std::make_shared<est::ValidationHandler>(training.validation, est::ValidationOptions{.every_epochs = 2})},
       .log = false});
  const std::string rows = text_of(folder / "rows.csv");
  CHECK(
      rows.starts_with("epoch,batch,samples,learning_rate,training loss,\"training with \"\"quotes\"\", and more\","
                       "validation loss\r\n1,5,20,0.125,"));
  CHECK(count_of(rows, "\r\n") == 3);
  CHECK_THAT(rows, contains(",\r\n2,10,40,0.125,"));
  CHECK(std::stod(rows.substr(rows.rfind(',') + 1)) == estimator.figure("validation loss"));
  estimator.fit(training.loader, {.epochs = 1, .handlers = {logger}, .log = false});
  CHECK(text_of(folder / "rows.csv").starts_with(rows + "3,15,60,0.125,"));
  CHECK_THROWS_AS(est::CSVLogger({.path = {}}), ValueError);
  CHECK_THROWS_AS(est::CSVLogger({.path = "x", .every_batches = -1}), ValueError);
  Estimator another(training.net, training.loss, SGD());
  CHECK_THROWS_AS(
      another.fit(
          training.loader,
          {.epochs = 1,
           .handlers = est::handlers(est::CSVLogger({.path = folder / "rows.csv/below.csv"})),
           .log = false}),
      FileError);
}

TEST_CASE("CRC-32C and the wire format are what others have published", "[gluon][estimator]") {
  CHECK(gluon::detail::crc32c("") == 0);
  CHECK(gluon::detail::crc32c("123456789") == 0xe3069283u);  // RFC 3720's and others' check value
  CHECK(gluon::detail::crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(gluon::detail::crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  using gluon::detail::ProtoMessage;
  CHECK(ProtoMessage().add_number(1, 150).bytes() == "\x08\x96\x01");
  CHECK(ProtoMessage().add_bytes(2, "testing").bytes() == "\x12\x07testing");
  CHECK(ProtoMessage().add_number(16, -1).bytes() == "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST_CASE("Figures go to event files, which a resumed training goes on with", "[gluon][estimator]") {
  const TemporaryFolder folder;
  std::vector<fs::path> files;
  const auto run = [&](std::int64_t epochs, std::int64_t every_batches) {
    Training training;
    Estimator estimator(training.net, training.loss, SGD({.learning_rate = 0.25}));
    const auto board = std::make_shared<est::TensorBoardHandler>(
        est::TensorBoardOptions{.folder = folder / "events", .every_batches = every_batches});
    estimator.fit(
        training.loader,
        {.epochs = epochs,
         .validation = training.validation,
         .handlers =
             {board,
              std::make_shared<est::CheckpointHandler>(
                  CheckpointOptions{.folder = folder / "c", .existing = Existing::resume})},
         .log = false});
    files.push_back(board->file());
    return std::pair(estimator.figure("training loss"), estimator.figure("validation loss"));
  };
  const auto [training_loss, validation_loss] = run(2, 0);
  const std::vector<Event> first = events_in(files[0]);
  REQUIRE(first.size() == 3);
  CHECK(first[0].version == "brain.Event:2");
  CHECK(first[0].wall_time > 1.7e9);
  CHECK(first[2].step == 10);
  CHECK(
      first[2].scalars == std::map<std::string, float>{
                              {"training/loss", static_cast<float>(training_loss)},
                              {"validation/loss", static_cast<float>(validation_loss)},
                              {"learning_rate", 0.25f}});
  run(3, 2);
  CHECK(files[0].filename() < files[1].filename());
  const std::vector<Event> second = events_in(files[1]);
  REQUIRE(second.size() == 5);  // after 12 and 14 batches, and the epoch's validation
  CHECK(second[1].is_start);
  CHECK(second[1].step == 11);
  CHECK(second[2].scalars.size() == 2);
  CHECK(second[4].step == 15);
  CHECK(second[4].scalars.contains("validation/loss"));
  run(4, 5);  // the epoch's last batch is due, too
  const std::vector<Event> third = events_in(files[2]);
  REQUIRE(third.size() == 4);
  CHECK(third[2].scalars.contains("training/loss"));
  CHECK(third[3].scalars.size() == 1);
  put_text(folder / "file", "");
  CHECK_THROWS_AS(gluon::detail::EventFile(folder / "file"), FileError);
  CHECK_THROWS_AS(est::TensorBoardHandler({.folder = {}}), ValueError);
}

TEST_CASE("A sweep of learning rates suggests one and leaves all as it was", "[gluon][estimator]") {
  for (const bool schedule : {false, true}) {
    Training training;
    Trainer trainer(training.net.collect_params(), Adam({.learning_rate = 0.01}));
    if (schedule)
      trainer.set_schedule(gluon::lr_scheduler::FactorScheduler({.step = 2, .factor = 0.5, .base_lr = 0.02}));
    Estimator estimator(training.net, training.loss, trainer);
    estimator.fit(training.loader, {.batches = 3, .log = false});
    const auto before = training.trail(trainer);
    const double rate = trainer.learning_rate();
    const auto sweep = est::find_learning_rate(estimator, training.loader, {.first = 1e-4, .last = 10, .steps = 43});
    CHECK(training.trail(trainer) == before);
    CHECK(trainer.learning_rate() == rate);
    CHECK((trainer.optimizer().schedule() != nullptr) == schedule);
    CHECK(training.loader.state().epochs == 1);
    CHECK(training.loader.state().position == 3);
    REQUIRE(!sweep.rates.empty());
    CHECK(sweep.rates[0] == Approx(1e-4));
    CHECK(sweep.rates[1] / sweep.rates[0] == Approx(std::pow(1e5, 1 / 42.0)));
    CHECK(sweep.losses.size() == sweep.rates.size());
    REQUIRE(sweep.suggestion);
    CHECK((*sweep.suggestion > 1e-4 && *sweep.suggestion < 10));
    estimator.fit(training.loader, {.epochs = 1, .log = false});
    CHECK(std::isfinite(estimator.figure("training loss")));
  }
}

TEST_CASE("A sweep ends where losses grow, are none, or fail, and takes what it changed back", "[gluon][estimator]") {
  Training training;
  Trainer trainer(training.net.collect_params(), SGD({.learning_rate = 0.5}));
  Estimator estimator(training.net, training.loss, trainer);
  const auto before = training.trail(trainer);
  const auto grown =
      est::find_learning_rate(estimator, training.loader, {.first = 1, .last = 1e30, .steps = 60, .smoothing = 0});
  CHECK(grown.rates.size() < 60);
  CHECK(std::all_of(grown.losses.begin(), grown.losses.end(), [](double loss) { return std::isfinite(loss); }));
  CHECK(training.trail(trainer) == before);
  const std::vector<Batch> bad = {small_batch(), {zeros({4, 7}), zeros({4, 1})}}, none;
  CHECK_THROWS_AS(est::find_learning_rate(estimator, bad), ShapeError);
  CHECK(training.trail(trainer) == before);
  CHECK(trainer.learning_rate() == 0.5);
  CHECK_THROWS_WITH(est::find_learning_rate(estimator, none), contains("no batches"));
  const auto flat = est::find_learning_rate(
      estimator, std::vector<Batch>{{zeros({2, 3}), zeros({2, 1})}}, {.steps = 2, .smoothing = 0});
  CHECK(flat.rates.size() == 2);
  const auto refuse = [&](const est::LearningRateOptions& options) {
    CHECK_THROWS_AS(est::find_learning_rate(estimator, training.loader, options), ValueError);
  };
  refuse({.first = 0});
  refuse({.first = 1, .last = 1});
  refuse({.last = std::numeric_limits<double>::infinity()});
  refuse({.steps = 1});
  refuse({.smoothing = 1});
  refuse({.stop_factor = 1});
  gluon::nn::Dense unshaped(1);
  unshaped.initialize();
  Estimator later(unshaped, training.loss, SGD());
  CHECK(est::find_learning_rate(later, training.loader, {.steps = 3}).rates.size() == 3);
}

namespace {

/// Fails, and fails to end.
class Failing : public est::BatchSource {
 public:
  void begin() override {}
  const Batch* next() override { throw ValueError("the first"); }
  void end() override { throw ValueError("the second"); }
};

}  // namespace

TEST_CASE("An error of batches is not hidden by that of leaving them", "[gluon][estimator]") {
  Training training;
  Trainer trainer(training.net.collect_params(), Adam({.learning_rate = 0.01}));
  Estimator estimator(training.net, training.loss, trainer);
  const est::Batches batches(std::make_shared<Failing>());
  CHECK_THROWS_WITH(estimator.fit(batches, {.epochs = 1, .log = false}), contains("the first"));
  CHECK_THROWS_WITH(estimator.evaluate(batches), contains("the first"));
  CHECK_THROWS_WITH(est::find_learning_rate(estimator, batches), contains("the first"));
  estimator.fit(training.loader, {.epochs = 1, .validation = training.validation, .log = false});
}

TEST_CASE(
    "A sweep takes steps back before a schedule sees their number, and all else in any case", "[gluon][estimator]") {
  Training training;
  Trainer trainer(training.net.collect_params(), Adam());
  trainer.set_schedule([](std::int64_t step) {
    require(step <= 4, [] { return "no rate of so many steps"; });
    return 0.01;
  });
  Estimator estimator(training.net, training.loss, trainer);
  estimator.fit(training.loader, {.batches = 2, .log = false});
  const auto before = training.trail(trainer);
  CHECK(est::find_learning_rate(estimator, training.loader, {.steps = 12}).rates.size() > 1);
  CHECK(training.trail(trainer) == before);
  CHECK(trainer.optimizer().schedule() != nullptr);
  CHECK(trainer.optimizer().num_updates() == 2);
}

TEST_CASE("A sweep within a fit is refused before it touches the batches", "[gluon][estimator]") {
  Training training;
  Estimator estimator(training.net, training.loss, SGD());
  int refused = 0;
  Recorder sweeping;
  sweeping.then = [&](Estimator& e, const std::string& what) {
    CHECK(e.is_fitting());
    if (what == "batch_end") {
      CHECK_THROWS_WITH(est::find_learning_rate(e, training.loader), contains("within fit()"));
      ++refused;
    }
  };
  estimator.fit(training.loader, {.epochs = 2, .handlers = est::handlers(sweeping), .log = false});
  CHECK(refused == 10);
  CHECK(!estimator.is_fitting());
}
