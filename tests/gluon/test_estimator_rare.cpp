// What estimators write in several fits, and to files that others change; sweeps of networks with idle layers.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include <sluice/gluon/estimator/learning_rate_finder.h>

#include "tests/gluon/checkpointed.h"

using namespace sluice;
using namespace sluice::test;
using est::Estimator;
using sluice::test::contains;

namespace {

std::shared_ptr<est::CSVLogger> rows_in(const fs::path& path, std::int64_t every_batches = 0) {
  return std::make_shared<est::CSVLogger>(est::CSVLoggerOptions{.path = path, .every_batches = every_batches});
}

std::int64_t lines_of(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST_CASE("Rows of several fits stand in one file, whichever logger wrote them", "[gluon][estimator]") {
  const TemporaryFolder folder;
  const fs::path path = folder / "below/rows.csv";
  fs::create_directories(path.parent_path());
  Training training;
  Estimator estimator(training.net, training.loss, SGD());
  const auto fit = [&](const fs::path& file) {
    estimator.fit(training.loader, {.epochs = 2, .handlers = {rows_in(file)}, .log = false});
  };
  put_text(path, "of another training\n");
  fit(path);
  const std::string first = text_of(path);
  CHECK(lines_of(first) == 3);
  fit(path);
  const std::string second = text_of(path);
  CHECK(second.starts_with(first + "3,15,60,"));
  CHECK(lines_of(second) == 5);
  SECTION("what a killed process wrote behind them goes") {
    put_text(path, second + "5,25,100,0.1,1\r\n6,30,120,0.1");
    fit(path);
    CHECK(text_of(path).starts_with(second + "5,25,100,"));
    CHECK(lines_of(text_of(path)) == 7);
  }
  SECTION("rows of later batches go, and what is no row") {
    for (const std::string more : {"9,99,396,0.1,1\r\n", "torn", "no number,x,1\r\n", "\r\n", ",,\r\n", "7\r\n"}) {
      INFO(more);
      const std::string before = text_of(path);
      put_text(path, before + more);
      fit(path);
      CHECK(text_of(path).starts_with(before));
      CHECK(lines_of(text_of(path)) == lines_of(before) + 2);
    }
  }
  SECTION("a file with other figures is another one") {
    std::string other = second;
    other.replace(other.find("training loss"), 8, "sobering");
    put_text(path, other);
    fit(path);
    CHECK(lines_of(text_of(path)) == 3);
    CHECK_THAT(text_of(path), contains("epoch,batch,samples,learning_rate,training loss"));
    CHECK_THAT(text_of(path), contains("\n5,25,"));
  }
  SECTION("a first logger of a later fit makes its folder") {
    fit(folder / "new/rows.csv");
    CHECK(lines_of(text_of(folder / "new/rows.csv")) == 3);
  }
  SECTION("another estimator begins it anew, with the same logger too") {
    const auto logger = rows_in(path);
    estimator.fit(training.loader, {.epochs = 1, .handlers = {logger}, .log = false});
    Estimator other(training.net, training.loss, SGD());
    other.fit(training.loader, {.epochs = 1, .handlers = {logger}, .log = false});
    CHECK(lines_of(text_of(path)) == 2);
    CHECK_THAT(text_of(path), contains("\n1,5,20,"));
  }
}

TEST_CASE("A file of rows that others shorten gets whole rows, and no zeros", "[gluon][estimator]") {
  const TemporaryFolder folder;
  const fs::path path = folder / "rows.csv";
  for (const std::int64_t left : {0, 10, -1, -20}) {
    INFO(left);
    Training training;
    Estimator estimator(training.net, training.loss, SGD());
    Recorder cutting("cut", 0);
    std::string before;
    cutting.then = [&](Estimator& e, const std::string& what) {
      if (what != "epoch_end" || e.progress().epochs != 3)
        return;
      before = text_of(path);
      fs::resize_file(path, static_cast<std::uintmax_t>(left < 0 ? std::ssize(before) + left : left));
    };
    estimator.fit(
        training.loader, {.epochs = 4, .handlers = {std::make_shared<Recorder>(cutting), rows_in(path)}, .log = false});
    const std::string text = text_of(path);
    CHECK(text.find('\0') == std::string::npos);
    CHECK(text.starts_with("epoch,batch,"));
    CHECK_THAT(text, contains("\n3,15,60,") && contains("\n4,20,80,"));
    CHECK(lines_of(text) == (left < 0 ? 4 : 3));  // of the row that was cut nothing is left
  }
}

TEST_CASE("Rows are gone on with from a checkpoint, though the file was shortened meanwhile", "[gluon][checkpoint]") {
  const TemporaryFolder folder;
  TrainingProgram program{.epochs = 2, .checkpoints = in(folder), .csv = folder / "rows.csv"};
  run_training(program);
  const std::string rows = text_of(program.csv);
  fs::resize_file(program.csv, rows.size() - 3);
  program.epochs = 3;
  run_training(program);
  const std::string text = text_of(program.csv);
  CHECK(text.find('\0') == std::string::npos);
  CHECK(text.starts_with(rows.substr(0, rows.rfind('\n', rows.size() - 2) + 1)));
  CHECK_THAT(text, contains(",14,"));
}

TEST_CASE("A sweep leaves alone what nothing uses", "[gluon][estimator]") {
  Training training;
  Spare net;
  net.initialize();
  for (const char* idle : {"spare.weight", "spare.bias"})
    net.collect_params()[idle].set_grad_req(GradReq::null);
  Trainer trainer(net.collect_params(), SGD());
  Estimator estimator(net, training.loss, trainer);
  const auto sweep = est::find_learning_rate(estimator, training.loader, {.steps = 10});
  CHECK(!sweep.rates.empty());
  CHECK(!net.collect_params()["spare.weight"].is_initialized());
  CHECK(net.collect_params()["used.weight"].is_initialized());
  estimator.fit(training.loader, {.epochs = 1, .log = false});
  CHECK(estimator.progress().batches == 5);
}
