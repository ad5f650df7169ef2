// Checkpoints of estimators: going on from one is as if nothing had been between.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/gluon/checkpointed.h"

using namespace sluice;
using namespace sluice::test;
using est::Estimator;

namespace {

void check_resumes_exactly(TrainingProgram program, std::int64_t batches) {
  const TemporaryFolder folder;
  program.csv = folder / "whole.csv";
  const TrainingOutcome whole = run_training(program);
  for (std::int64_t stop = 1; stop < batches; ++stop) {
    INFO("stopped after " << stop);
    const TemporaryFolder here;
    program.checkpoints = in(here);
    program.csv = here / "parts.csv";
    program.stop_after = stop;
    CHECK(run_training(program).progress.batches == stop);
    program.stop_after.reset();
    const TrainingOutcome resumed = run_training(program);
    CHECK(resumed.trail == whole.trail);
    CHECK(resumed.progress == whole.progress);
    CHECK(resumed.reason == whole.reason);
    CHECK(text_of(here / "parts.csv") == text_of(folder / "whole.csv"));
  }
}

}  // namespace

TEST_CASE("Training that goes on from a checkpoint ends as if it had not stopped", "[gluon][checkpoint]") {
  SECTION("with everything in it") {
    check_resumes_exactly({}, 20);
  }
  SECTION("with a rate that no schedule says") {
    check_resumes_exactly({.epochs = 2, .schedule = false}, 10);
  }
  SECTION("in the midst of gradients that are added up") {
    check_resumes_exactly({.epochs = 3, .accumulate = 3}, 15);
  }
  SECTION("with batches of a range that has no state") {
    check_resumes_exactly({.epochs = 3, .plain_range = true}, 12);
  }
}

TEST_CASE("A state written when training has ended holds the gradients that waited", "[gluon][checkpoint]") {
  for (const bool adds_anyway : {false, true}) {
    const TemporaryFolder folder;
    const fs::path file = folder / "end.npz";
    const auto train = [&](std::int64_t batches, const std::string& event) {
      Training training;
      if (adds_anyway)
        training.net.collect_params()["0.weight"].set_grad_req(GradReq::add);
      Trainer trainer(training.net.collect_params(), Adam());
      Estimator estimator(training.net, training.loss, trainer);
      Recorder recorder("s", 10);
      recorder.then = [&](Estimator& e, const std::string& what) {
        if (what == event && event == "train_end")
          e.save_state(file);
        else if (what == event)
          e.resume_with(est::read_state(file));
      };
      estimator.fit(
          training.loader,
          {.epochs = 2,
           .batches = batches,
           .handlers = est::handlers(est::GradientUpdateHandler({.every = 4}), recorder),
           .log = false});
      return training.trail(trainer);
    };
    const Trail whole = train(100, "");
    for (const std::int64_t stop : {2, 4, 7}) {
      train(stop, "train_end");
      CHECK(train(100, "train_begin") == whole);
    }
  }
}

TEST_CASE("A rate set by hand goes on", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  TrainingProgram program{.epochs = 2, .stop_after = 4, .schedule = false, .checkpoints = in(folder)};
  Recorder halving;
  halving.then = [](Estimator& e, const std::string& what) {
    if (what == "batch_end" && e.progress().batches == 3)
      e.trainer().set_learning_rate(0.125);
  };
  program.more = [&](est::FitOptions& options) { options.handlers.push_back(std::make_shared<Recorder>(halving)); };
  run_training(program);
  double rate = 0;
  program.stop_after.reset();
  Recorder looking;
  looking.then = [&](Estimator& e, const std::string& what) {
    if (what == "train_resumed")
      rate = e.trainer().learning_rate();
  };
  program.more = [&](est::FitOptions& options) { options.handlers.push_back(std::make_shared<Recorder>(looking)); };
  run_training(program);
  CHECK(rate == 0.125);
}

TEST_CASE("The last checkpoints are kept, and the best", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  CheckpointOptions options = in(folder);
  options.prefix = "net";
  options.every_epochs = 0;
  options.every_batches = 2;
  options.keep_last = 3;
  options.monitor = "training loss";
  options.mode = est::MonitorMode::max;  // which the first epoch has
  const TrainingOutcome outcome = run_training({.epochs = 3, .checkpoints = options});
  CHECK(
      names_in(options.folder) ==
      std::vector<std::string>{"net-00000012.npz", "net-00000014.npz", "net-00000015.npz", "net-best.npz"});
  const est::TrainingState best = est::read_state(options.folder / "net-best.npz");
  CHECK(best.progress.total_batches == 5);
  CHECK(best.progress.epochs == 1);
  Training other(0);
  other.net.load_parameters(options.folder / "net-best.npz", {.ignore_extra = true});
  CHECK(values(other.net.collect_params()["0.weight"].data()) == values(best.parameters.at("0.weight")));
  CHECK(outcome.progress.batches == 15);
}

TEST_CASE("Of two monitors' checkpoints each has its own best", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  CheckpointOptions low = in(folder), high = in(folder);
  low.prefix = "low";
  high.prefix = "high";
  low.monitor = high.monitor = "training loss";
  high.mode = est::MonitorMode::max;
  low.min_delta = 1e6;  // the first is the best
  TrainingProgram program{.epochs = 2, .checkpoints = low};
  program.more = [&](est::FitOptions& options) {
    options.handlers.push_back(std::make_shared<est::CheckpointHandler>(high));
  };
  run_training(program);
  program.epochs = 3;
  const TrainingOutcome outcome = run_training(program);
  CHECK(outcome.progress.epochs == 3);
  CHECK(est::read_state(low.folder / "low-best.npz").progress.total_batches == 5);
  CHECK(est::read_state(low.folder / "high-best.npz").progress.total_batches == 5);
}

TEST_CASE("Checkpoints of another training are refused, or done away with", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  TrainingProgram program{.epochs = 2, .checkpoints = in(folder)};
  run_training(program);
  program.checkpoints->existing = Existing::refuse;
  CHECK_THROWS_WITH(run_training(program), sluice::test::contains("model-00000010.npz is there from another training"));
  program.checkpoints->existing = Existing::remove;
  program.epochs = 0;
  run_training(program);
  CHECK(names_in(folder.path() / "checkpoints").size() == 2);  // nothing new that could take their place
  program.epochs = 1;
  CHECK(run_training(program).progress.total_batches == 5);
  CHECK(names_in(folder.path() / "checkpoints") == std::vector<std::string>{"model-00000005.npz"});
  CHECK_THROWS_AS(est::CheckpointHandler({.folder = {}}), ValueError);
  CHECK_THROWS_AS(est::CheckpointHandler({.folder = "x", .prefix = "a/b"}), ValueError);
  CHECK_THROWS_AS(est::CheckpointHandler({.folder = "x", .keep_last = 0}), ValueError);
  CHECK_THROWS_AS(est::CheckpointHandler({.folder = "x", .every_batches = -1}), ValueError);
}

TEST_CASE("Fits after one another go on where their process was killed", "[gluon][checkpoint]") {
  const auto two_fits = [](const fs::path& folder, std::int64_t stop_second_after) {
    Training training;
    Trainer trainer(training.net.collect_params(), Adam());
    Estimator estimator(training.net, training.loss, trainer);
    est::Handlers handlers;
    if (!folder.empty())
      handlers = est::handlers(est::CheckpointHandler({.folder = folder, .existing = Existing::resume}));
    estimator.fit(training.loader, {.epochs = 2, .handlers = handlers, .log = false});
    estimator.fit(training.loader, {.epochs = 3, .batches = stop_second_after, .handlers = handlers, .log = false});
    return TrainingOutcome{training.trail(trainer), estimator.progress()};
  };
  const TrainingOutcome whole = two_fits({}, 100);
  CHECK(whole.progress.total_batches == 25);
  for (const std::int64_t stop : {0, 3, 5, 15}) {
    const TemporaryFolder folder;
    two_fits(folder / "c", stop);
    const TrainingOutcome again = two_fits(folder / "c", 100);
    CHECK(again.trail == whole.trail);
    CHECK(again.progress == whole.progress);
  }
}

namespace {

/// A fit of three epochs that fails after those batches, and is tried again each time.
TrainingOutcome tried_again(
    const fs::path& folder, const std::vector<std::int64_t>& failures, bool one_handler, bool dies = false) {
  Training training;
  Trainer trainer(training.net.collect_params(), Adam());
  Estimator estimator(training.net, training.loss, trainer);
  const auto made = [&] {
    return std::make_shared<est::CheckpointHandler>(
        CheckpointOptions{.folder = folder, .every_batches = 2, .existing = Existing::resume});
  };
  auto checkpoints = made();
  for (const std::int64_t at : failures) {
    const auto failing = std::make_shared<Recorder>("f", 3000);
    failing->then = [&](Estimator& e, const std::string& what) {
      if (what == "batch_end" && e.progress().batches == at)
        throw ValueError("no memory");
    };
    CHECK_THROWS_WITH(
        estimator.fit(training.loader, {.epochs = 3, .handlers = {checkpoints, failing}, .log = false}),
        sluice::test::contains("no memory"));
    CHECK(estimator.progress().batches == at);
    CHECK(estimator.progress().fits == 0);
    if (!one_handler)
      checkpoints = made();
  }
  if (!dies)
    estimator.fit(training.loader, {.epochs = 3, .handlers = {checkpoints}, .log = false});
  return {training.trail(trainer), estimator.progress(), estimator.stop_reason()};
}

}  // namespace

TEST_CASE("A fit that failed goes on when it is tried again, here and in a later process", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  const TrainingOutcome whole = tried_again(folder / "whole", {}, true);
  CHECK(whole.progress.fits == 1);
  int at = 0;
  for (const bool one_handler : {true, false}) {
    const TrainingOutcome here = tried_again(folder / std::to_string(++at), {3, 4, 9}, one_handler);
    CHECK(here.trail == whole.trail);
    CHECK(here.progress == whole.progress);
    const fs::path of_the_dead = folder / std::to_string(++at);
    tried_again(of_the_dead, {3, 9}, one_handler, true);
    const TrainingOutcome later = tried_again(of_the_dead, {}, one_handler);
    CHECK(later.trail == whole.trail);
    CHECK(later.progress == whole.progress);
  }
}

TEST_CASE("A fit that an earlier process had done with ends with what that process had", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  const auto fits = [&](int count) {
    Training training;
    Trainer trainer(training.net.collect_params(), Adam());
    Estimator estimator(training.net, training.loss, trainer);
    const auto checkpoints = std::make_shared<est::CheckpointHandler>(in(folder));
    // Of batches whose loader could not take the state of the later fit's.
    estimator.fit(training.validation, {.epochs = 1, .handlers = {checkpoints}, .log = false});
    if (count > 1)
      estimator.fit(training.loader, {.epochs = 2, .batches = 7, .handlers = {checkpoints}, .log = false});
    return TrainingOutcome{training.trail(trainer), estimator.progress(), estimator.stop_reason()};
  };
  const TrainingOutcome both = fits(2), first = fits(1);
  CHECK(first.trail == both.trail);
  CHECK_THAT(first.reason, sluice::test::contains("is of a later fit"));
  CHECK(first.progress.fits == 1);
  CHECK(first.progress.batches == 0);
  CHECK(first.progress.total_batches == both.progress.total_batches);
  const TrainingOutcome again = fits(2);
  CHECK(again.trail == both.trail);
  CHECK(again.progress == both.progress);
}

TEST_CASE("Training that is stopped leaves a checkpoint, whoever stops it and when", "[gluon][checkpoint]") {
  for (const std::string event : {"batch_end", "batch_begin", "epoch_begin", "epoch_end", "train_begin"}) {
    INFO(event);
    const TemporaryFolder folder;
    TrainingProgram program{.epochs = 3, .checkpoints = in(folder)};
    program.checkpoints->every_epochs = 0;
    Recorder stopping("s", 3000);
    stopping.then = [&](Estimator& e, const std::string& what) {
      if (what == event && (e.progress().total_batches >= 5 || what == "train_begin"))
        e.stop("enough");
    };
    program.more = [&](est::FitOptions& options) { options.handlers.push_back(std::make_shared<Recorder>(stopping)); };
    const TrainingOutcome stopped = run_training(program);
    CHECK(stopped.reason == "enough");
    const std::vector<std::string> names = names_in(program.checkpoints->folder);
    if (event == "train_begin") {
      CHECK(names.empty());
      continue;
    }
    REQUIRE(names.size() == 1);
    CHECK(est::read_state(program.checkpoints->folder / names[0]).progress == stopped.progress);
    program.more = {};
    CHECK(run_training(program).trail == run_training({.epochs = 3}).trail);
  }
}

TEST_CASE("A layer that nothing used yet does not keep training from going on", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  const auto train = [&](std::int64_t batches, const fs::path& to) {
    Training training;
    Spare net;
    net.initialize();
    for (const char* name : {"spare.weight", "spare.bias"})
      net.collect_params()[name].set_grad_req(GradReq::null);
    Trainer trainer(net.collect_params(), SGD());
    CheckpointOptions options{.folder = to, .existing = Existing::resume};
    Estimator(net, training.loss, trainer)
        .fit(
            training.loader,
            {.epochs = 2,
             .batches = batches,
             .handlers = est::handlers(est::CheckpointHandler(options)),
             .log = false});
    CHECK(!net.collect_params()["spare.weight"].is_initialized());
    return values(net.collect_params()["used.weight"].data());
  };
  const std::vector<float> whole = train(100, folder / "whole");
  train(3, folder / "parts");
  CHECK(train(100, folder / "parts") == whole);
}

TEST_CASE("Drafts of checkpoints of a longer prefix stay", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  const std::vector<std::string> others = {
      "model-a-00000001.npz.part-1-0",
      "model-a-best.npz.part-1-0",
      "model-best-00000001.npz.part-1-0",
      "model-1234567.npz.part-1-0",
      "models-00000001.npz.part-1-0"};
  const CheckpointOptions options = in(folder);
  fs::create_directories(options.folder);
  for (const std::string& name : others)
    put_text(options.folder / name, "another's");
  put_text(options.folder / "model-00000001.npz.part-1-0", "ours");
  put_text(options.folder / "model-best.npz.part-7-3", "ours");
  run_training({.epochs = 0, .checkpoints = options});
  std::vector<std::string> expected = others;
  std::sort(expected.begin(), expected.end());
  CHECK(names_in(options.folder) == expected);
}

TEST_CASE("A checkpoint of something else changes nothing", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  run_training({.epochs = 1, .checkpoints = in(folder)});
  const auto refused = [&](const char* why, auto&& make_net, auto&& optimizer, std::int64_t batch_size) {
    Training training(0.2, batch_size);
    gluon::nn::Sequential net = make_net();
    net.initialize(gluon::init::Xavier());
    net(small_batch().data);
    Trainer trainer(net.collect_params(), std::forward<decltype(optimizer)>(optimizer));
    Estimator estimator(net, training.loss, trainer);
    std::vector<std::vector<float>> before, after;
    const auto note = [&](auto& to) {
      for (const auto& [name, parameter] : net.collect_params())
        to.push_back(values(parameter.data()));
      to.push_back({static_cast<float>(training.engine.random_state().offset)});
    };
    note(before);
    CHECK_THROWS_WITH(
        estimator.fit(
            training.loader,
            {.epochs = 3, .handlers = est::handlers(est::CheckpointHandler(in(folder))), .log = false}),
        sluice::test::contains(why));
    note(after);
    CHECK(before == after);
    CHECK(trainer.optimizer().num_updates() == 0);
    CHECK(estimator.progress().total_batches == 0);
    CHECK(training.loader.state().epochs == 0);
  };
  const auto net_of = [](std::int64_t units, bool another) {
    return [=] {
      gluon::nn::Sequential net;
      net.add(gluon::nn::Dense(units, {.activation = "relu"}), gluon::nn::BatchNorm(), gluon::nn::Dropout(0.2));
      net.add(gluon::nn::Dense(1));
      if (another)
        net.add(gluon::nn::Dense(1));
      return net;
    };
  };
  refused("the network's has (9", net_of(9, false), Adam(), 4);
  refused("4.", net_of(8, true), Adam(), 4);
  refused("Adam", net_of(8, false), SGD(), 4);
  refused("batch_size", net_of(8, false), Adam(), 5);
}
