// The page that an estimator writes about its training.
#include <cmath>
#include <limits>
#include <regex>
#include <utility>

#include "tests/gluon/checkpointed.h"

using namespace sluice;
using namespace sluice::test;
using est::Estimator;
using est::ReportHandler;
using est::ReportPage;
using sluice::test::contains;

namespace {

std::int64_t times_in(const std::string& text, const std::string& pattern) {
  const std::regex wanted(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), wanted), std::sregex_iterator());
}

std::string page_of(const est::Curve& curve) {
  ReportPage page("t", "s");
  page.add_curves({curve});
  return page.html("f");
}

/// What the rows of the epochs say, without times.
std::string rows_of(const fs::path& page) {
  const std::string text = text_of(page);
  const std::size_t begin = text.find("<h2>Epochs");
  return std::regex_replace(
      text.substr(begin, text.find("</table>", begin)), std::regex("<td>[0-9]+</td><td>[0-9.]+ s</td>"), "");
}

}  // namespace

TEST_CASE("A page holds what it is given, and no character of it becomes markup", "[gluon][estimator]") {
  const std::string bad = "<b>\"&", safe = "&lt;b&gt;&quot;&amp;";
  ReportPage page(bad, bad);
  page.add_note(bad);
  page.add_figures({{bad, bad}});
  page.add_curves({{.name = bad, .training = {1, 2}}});
  page.add_confusions({{1, 2}, {0, 3}}, {bad}, bad);
  page.add_table(bad, {bad}, {{bad}});
  page.add_list(bad, {{bad, bad}});
  const std::string text = page.html(bad);
  CHECK(text.find(bad) == std::string::npos);
  CHECK(times_in(text, safe) >= 17);
  CHECK_THAT(text, contains("2 of 3 " + safe + " of " + safe + " taken for 1\""));  // a class without a name
  CHECK(times_in(text, "<section>") == times_in(text, "</section>"));
  CHECK(times_in(text, "<section>") == 5);
}

TEST_CASE("Curves leave out what cannot be drawn, and end where nothing can", "[gluon][estimator]") {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  CHECK(times_in(page_of({.name = "loss", .training = {nan, inf, -inf}}), "<svg") == 0);
  CHECK(times_in(page_of({.name = "loss"}), "<svg") == 0);
  const std::string gap = page_of({.name = "loss", .training = {3, 2, nan, 1, 1}, .validation = {nan, 2}});
  CHECK(times_in(gap, "<polyline class=\"train\"") == 2);
  CHECK(times_in(gap, "<polyline class=\"test\"") == 1);
  CHECK(times_in(gap, "<circle") == 5);
  CHECK(gap.find("nan") == std::string::npos);
  for (const double value : {0.0, 5.0, -1e299, 1e-310, 1e20, std::numeric_limits<double>::max()}) {
    CAPTURE(value);
    const std::string text = page_of({.name = "loss", .training = {value, value, -value}});
    CHECK(text.find("nan") == std::string::npos);
    CHECK(text.find("inf") == std::string::npos);
    CHECK(times_in(text, "class=\"grid\"") <= 12);
  }
  CHECK(times_in(page_of({.name = "loss", .training = std::vector<double>(61, 1)}), "<circle") == 0);
}

TEST_CASE("Scores of classes want a square of counts", "[gluon][estimator]") {
  CHECK_THROWS_AS(est::class_scores({{1, 2}, {3}}), ValueError);
  CHECK(est::class_scores({}).empty());
  const auto scores = est::class_scores({{4, 0, 1}, {0, 0, 0}, {3, 0, 2}});
  CHECK((scores[0].label == 2 && scores[1].label == 0 && scores[2].label == 1));
  CHECK((scores[0].recall == Approx(0.4) && scores[0].precision == Approx(2.0 / 3) && scores[0].taken_for == 0));
  CHECK(scores[2].samples == 0);
}

TEST_CASE("An estimator's page shows each epoch's figures and why training ended", "[gluon][estimator]") {
  const TemporaryFolder folder(quick_folder());
  Training training;
  Estimator estimator(training.net, training.loss, SGD({.learning_rate = 0.01}));
  const auto handler = std::make_shared<ReportHandler>(
      est::ReportOptions{.folder = folder.path() / "new" / "page", .title = "Sums", .settings = {{"width", "8"}}});
  estimator.fit(
      training.loader,
      {.epochs = 3,
       .handlers =
           {handler,
            std::make_shared<est::ValidationHandler>(training.validation, est::ValidationOptions{.every_epochs = 2})},
       .log = false});
  const std::string text = text_of(handler->page());
  CHECK_THAT(
      text, contains("<h1>Sums</h1>") && contains("<dt>width</dt><dd>8</dd>") && contains("<dt>optimizer</dt><dd>SGD"));
  CHECK_THAT(text, contains("training loss") && contains("validation loss") && !contains("error"));
  CHECK_THAT(text, contains("<dt>ended</dt><dd>3 epochs are done</dd>"));
  CHECK(times_in(rows_of(handler->page()), "<tr><td>") == 3);
  CHECK(times_in(rows_of(handler->page()), "<td>-</td>") == 2);  // epochs without validation
  CHECK(times_in(text, "<polyline class=\"train\"") == 1);
  CHECK(times_in(text, "<circle class=\"train\"") == 3);
  CHECK(times_in(text, "<circle class=\"test\"") == 1);
  estimator.fit(training.loader, {.epochs = 1, .handlers = {handler}, .log = false});
  CHECK(times_in(rows_of(handler->page()), "<tr><td>") == 4);
}

TEST_CASE("The confusion matrix on the page is that of the last validation", "[gluon][estimator]") {
  const TemporaryFolder folder(quick_folder());
  const Training here;
  gluon::nn::Sequential net;
  net.add(gluon::nn::Dense(3, {.in_units = k_features}));
  net.initialize(gluon::init::Zero());
  const NDArray labels = array<std::int32_t>({0, 1, 1, 2});
  const DataLoader loader(gluon::data::ArrayDataset(pattern_array({4, k_features}), labels), {.batch_size = 2});
  DataLoader validation = loader, batches = loader;
  const SoftmaxCrossEntropyLoss loss;
  const auto confusions = std::make_shared<gluon::metric::ConfusionMatrix>();
  Estimator estimator(net, loss, SGD({.learning_rate = 0}), {.validation_metrics = {confusions}});
  ReportHandler report({.folder = folder.path(), .confusions = confusions, .classes = {"ant", "bee"}});
  const fs::path page = report.page();
  estimator.fit(
      batches, {.epochs = 2, .validation = validation, .handlers = est::handlers(std::move(report)), .log = false});
  CHECK_THAT(
      text_of(page), contains("2 of 2 samples of bee taken for ant") && contains("1 of 1 samples of 2 taken for ant"));
}

TEST_CASE("A page goes on after a checkpoint, and says where an error ended training", "[gluon][estimator]") {
  const TemporaryFolder folder(quick_folder());
  const auto fit = [&](const std::string& page, std::int64_t stop_after, bool breaks = false) {
    Training training;
    Estimator estimator(training.net, training.loss, SGD({.learning_rate = 0.01}));
    est::Handlers all = est::handlers(
        ReportHandler({.folder = folder / page}),
        est::CheckpointHandler({.folder = folder / "kept", .existing = Existing::resume}));
    if (stop_after > 0)
      all.push_back(std::make_shared<est::StoppingHandler>(est::StoppingOptions{.max_batches = stop_after}));
    std::int64_t batches = 0;
    if (breaks)
      all.push_back(std::make_shared<est::StoppingHandler>(est::StoppingOptions{.stop_when = [&batches]() -> bool {
        require(++batches < 9, [] { return "planted"; });
        return false;
      }}));
    estimator.fit(training.loader, {.epochs = 4, .validation = training.validation, .handlers = all, .log = false});
  };
  fit("parts", 12);  // in the third epoch
  CHECK(times_in(rows_of(folder / "parts/index.html"), "<tr><td>") == 2);
  fit("parts", 0);
  fs::remove_all(folder / "kept");
  fit("whole", 0);
  CHECK(times_in(rows_of(folder / "whole/index.html"), "<tr><td>") == 4);
  CHECK(rows_of(folder / "parts/index.html") == rows_of(folder / "whole/index.html"));
  fs::remove_all(folder / "kept");
  CHECK_THROWS_WITH(fit("broken", 0, true), contains("planted"));
  CHECK_THAT(text_of(folder / "broken/index.html"), contains("ended with an error") && contains("<td>1</td>"));
}

TEST_CASE("Report handlers refuse what cannot be, and states that are none", "[gluon][estimator]") {
  CHECK_THROWS_AS(ReportHandler({}), ValueError);
  const TemporaryFolder folder(quick_folder());
  write_file(folder / "file", {});
  Training training;
  Estimator estimator(training.net, training.loss, SGD());
  CHECK_THROWS_WITH(
      estimator.fit(
          training.loader,
          {.epochs = 1, .handlers = est::handlers(ReportHandler({.folder = folder / "file"})), .log = false}),
      contains("file: the folder cannot be made"));
  ReportHandler handler({.folder = folder.path()});
  CHECK(handler.state().empty());
  const NDArray two = array<double>({1, 2});
  const est::HandlerState good{
      {"samples", two}, {"seconds", two}, {"learning_rate", two}, {"figure training loss", two}};
  handler.load_state(good);
  for (const auto& [name, value] : good) {
    CAPTURE(name);
    for (const NDArray& wrong : {array<double>({1}), array<float>({1, 2}), array<double>({1, 2}).reshape({2, 1})}) {
      est::HandlerState bad = good;
      bad[name] = wrong;
      CHECK_THROWS_AS(handler.load_state(bad), ValueError);
    }
    est::HandlerState less = good;
    less.erase(name);
    if (!name.starts_with("figure"))
      CHECK_THROWS_AS(handler.load_state(less), ValueError);
    CHECK(handler.state().size() == good.size());
    CHECK(values(handler.state().at(name).astype(float32)) == std::vector<float>{1, 2});
  }
  handler.load_state({});
  CHECK(handler.state().empty());
}
