#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <regex>
#include <sys/resource.h>

#include "samples/support/divergence.h"
#include "samples/support/evaluation.h"
#include "samples/support/png_image.h"
#include "samples/support/report/report.h"
#include "samples/support/safe_file.h"
#include "samples/support/terminal.h"
#include "tests/gluon/support.h"
#include "tests/support/catch.h"

using namespace samples;
using sluice::test::contains;
namespace est = sluice::gluon::estimator;

namespace {

// Three classes: 0 and 2 are always right, 1 is taken for 2 once, surely, and for 0 once, barely.
Evaluation five_images() {
  return {.labels = {0, 1, 2, 1, 1}, .predictions = {5, 0, 0, 0, 1, 9, 0, 0, 4, 1.1f, 1, 0, 0, 3, 0}, .classes = 3};
}

Image no_image(std::int64_t /*index*/) {
  return {.height = 1, .width = 1, .channels = 1, .pixels = {7}};
}

}  // namespace

TEST_CASE("an evaluation counts hits, confusions and scores", "[samples]") {
  const Evaluation evaluation = five_images();
  CHECK(evaluation.accuracy() == Approx(3.0 / 5));
  CHECK(evaluation.confusions() == est::ConfusionCounts{{1, 0, 0}, {1, 1, 1}, {0, 0, 1}});
  const std::vector<est::ClassScore> scores = est::class_scores(evaluation.confusions());
  REQUIRE(scores.size() == 3);
  CHECK(scores[0].label == 1);
  CHECK(scores[0].precision == 1);
  CHECK(scores[0].recall == Approx(1.0 / 3));
  CHECK(scores[0].taken_for == 0);
  CHECK(scores[0].times == 1);
  CHECK(scores[1].precision == Approx(0.5));
  CHECK(scores[1].taken_for == -1);
  // Found always, and guessed too often: no better than one that is found a third of the time and never guessed
  // wrongly.
  const Evaluation eager{
      .labels = {0, 1, 1, 1, 2}, .predictions = {1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1}, .classes = 3};
  const std::vector<est::ClassScore> by_f1 = est::class_scores(eager.confusions());
  CHECK((by_f1[0].label == 0 && by_f1[1].label == 1 && by_f1[2].label == 2));
  CHECK(by_f1[0].f1 == Approx(0.5));
}

TEST_CASE(
    "a class without an image is no bad class, and what was not found is wrong whatever its probabilities",
    "[samples]") {
  // Of 0 and 2 there are images; 2 was guessed wrongly once.
  const Evaluation evaluation{.labels = {0, 2, 0}, .predictions = {1, 0, 0, 0, 0, 1, 0, 0, 1}, .classes = 3};
  const std::vector<est::ClassScore> scores = est::class_scores(evaluation.confusions());
  REQUIRE(scores.size() == 3);
  CHECK((scores[0].label != 1 && scores[1].label != 1));
  CHECK((scores[2].label == 1 && scores[2].samples == 0 && scores[0].samples + scores[1].samples == 3));
  const std::string table =
      report_page({.title = "t", .evaluation = &evaluation, .classes = {"ant", "bee", "cat"}, .image = no_image});
  CHECK_THAT(table, contains("bee</th><td class=\"quiet\">-</td><td class=\"quiet\">-</td>"));
  const float nan = std::nanf("");
  const Evaluation spoilt{.labels = {1, 0}, .predictions = {nan, nan, nan, nan}, .classes = 2};
  const Report report{.title = "t", .evaluation = &spoilt, .classes = {"ant", "bee"}};
  const std::string page = report_page(report);
  CHECK_THAT(page, contains("<b>1</b><span>of 2 images wrong") && !contains("There are none"));
}

TEST_CASE("a picture that cannot be written leaves the link to the device that stood there", "[samples]") {
  const sluice::test::TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", folder / "out.png");
  const Image image{.height = 1, .width = 1, .channels = 1, .pixels = {7}};
  CHECK_THROWS_AS(write_png(folder / "out.png", image), sluice::FileError);
  CHECK(std::filesystem::is_symlink(folder / "out.png"));
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("a picture with a palette is read as its colours, and refuses numbers without one", "[samples]") {
  const sluice::test::TemporaryFolder folder;
  Image image{
      .height = 1, .width = 3, .channels = 1, .pixels = {2, 0, 1}, .palette = {{1, 2, 3}, {40, 50, 60}, {7, 8, 9}}};
  write_png(folder / "out.png", image);
  const Image back = read_png(folder / "out.png");
  CHECK(back.channels == 3);
  CHECK(back.pixels == std::vector<std::uint8_t>{7, 8, 9, 1, 2, 3, 40, 50, 60});
  image.palette.pop_back();
  CHECK_THROWS_AS(encode_png(image), sluice::Error);
  image.palette.resize(257);
  CHECK_THROWS_AS(encode_png(image), sluice::Error);
  image.palette.resize(4);
  image.channels = 3;
  CHECK_THROWS_AS(encode_png(image), sluice::Error);
}

TEST_CASE("mistakes come with the surest first", "[samples]") {
  CHECK(confident_mistakes(five_images(), 25) == std::vector<std::int64_t>{1, 3});
  CHECK(confident_mistakes(five_images(), 1) == std::vector<std::int64_t>{1});
  const std::vector<double> shares = five_images().probabilities(3);
  CHECK(shares[0] + shares[1] + shares[2] == Approx(1));
  CHECK(shares[0] / shares[1] == Approx(std::exp(0.1)).epsilon(1e-5));
  const Evaluation sure{.labels = {0}, .predictions = {1000, 1002}, .classes = 2};
  CHECK(sure.probabilities(0)[1] == Approx(1 / (1 + std::exp(-2))));
  CHECK(confident_mistakes(sure, 1) == std::vector<std::int64_t>{0});
  Evaluation partly = five_images();
  partly.predictions[3] = std::nanf("");  // of image 1
  CHECK(confident_mistakes(partly, 25) == std::vector<std::int64_t>{3});
}

TEST_CASE("training that comes to nothing is told from training that is only rough", "[samples]") {
  DivergenceWatch rough("");
  for (int step = 0; step < 200; ++step)
    rough.look(step, step % 50 == 0 ? 100 : 2.5);  // a step is no trend
  CHECK(rough.first_loss() == 100);
  DivergenceWatch fine("", 0.01);  // resumed, well trained: ten times little is little
  for (int step = 0; step < 100; ++step)
    fine.look(step, 0.5);
  DivergenceWatch steady("");
  for (int step = 0; step < 2000; ++step)
    steady.look(step, 2.5);
  DivergenceWatch lost("Do something else.");
  for (int step = 0; step < 19; ++step)
    lost.look(step, step == 0 ? 2.0 : 40);
  CHECK_THROWS_WITH(
      lost.look(19, 40), sluice::test::contains("step 19") && sluice::test::contains("Do something else."));
  for (const double value : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    DivergenceWatch watch("");
    watch.look(0, 2);
    CHECK_THROWS_AS(watch.look(1, value), Diverged);
    CHECK_THROWS_AS(watch.look_at_validation(1, value), Diverged);
  }
}

TEST_CASE("a line fits any width, and what matters most stays longest", "[samples]") {
  const std::vector<Part> parts = {{1, "epoch 1/5", "1/5"}, {2, "a longer part"}, {0, "loss 1.0"}};
  CHECK(fit(parts, 80) == "epoch 1/5  a longer part  loss 1.0");
  CHECK(fit(parts, 30) == "epoch 1/5  loss 1.0");
  CHECK(fit(parts, 15) == "1/5  loss 1.0");
  CHECK(fit(parts, 8) == "loss 1.0");
  CHECK(fit(parts, 3) == "1/5");
  CHECK(fit(parts, 2).empty());
}

TEST_CASE("lines are wrapped at words", "[samples]") {
  CHECK(wrap("one two three four", 0) == "one two three four");
  CHECK(wrap("one two three four", 9) == "one two\n  three\n  four");
  CHECK(wrap("unbreakable", 4) == "unbreakable");
  CHECK(wrap("              pullover: precision", 19) == "          pullover:\n  precision");
  CHECK(clock_text(7.4) == "0:07");
  CHECK(clock_text(754) == "12:34");
  CHECK(clock_text(3723) == "1:02:03");
}

TEST_CASE("text on a page cannot become markup", "[samples]") {
  CHECK(est::ReportPage::escaped("<a href=\"x\">&") == "&lt;a href=&quot;x&quot;&gt;&amp;");
}

TEST_CASE("the page's curves rise where their values do", "[samples]") {
  // Loss falls, accuracy rises; of validation both stay.
  const History history = {
      {.loss = 3, .accuracy = 0.2, .validation_loss = 2, .validation_accuracy = 0.5},
      {.loss = 2, .accuracy = 0.5, .validation_loss = 2, .validation_accuracy = 0.5},
      {.loss = 1, .accuracy = 0.8, .validation_loss = 2, .validation_accuracy = 0.5}};
  const std::string page = report_page({.title = "t", .history = history});
  std::vector<std::vector<double>> heights;  // of each line; on a page they are counted from above
  const std::regex line("points=\"([^\"]*)\""), point("([\\d.]+),([\\d.]+)");
  for (std::sregex_iterator at(page.begin(), page.end(), line), end; at != end; ++at) {
    const std::string points = at->str(1);
    heights.emplace_back();
    for (std::sregex_iterator each(points.begin(), points.end(), point); each != end; ++each)
      heights.back().push_back(-std::stod(each->str(2)));
  }
  REQUIRE(heights.size() == 4);
  for (const auto& each : heights)
    REQUIRE(each.size() == 3);
  CHECK((heights[0][0] > heights[0][1] && heights[0][1] > heights[0][2]));
  CHECK((heights[1][0] == heights[0][1] && heights[1][2] == heights[0][1]));
  CHECK((heights[2][0] < heights[2][1] && heights[2][1] < heights[2][2]));
  CHECK((heights[3][0] == heights[2][1] && heights[3][2] == heights[2][1]));
}

TEST_CASE("the page's matrix has labels in rows, and shows the images that were mistaken", "[samples]") {
  const Evaluation evaluation = five_images();
  const std::vector<std::string> classes = {"ant", "bee", "cat"};
  const std::string matrix =
      report_page({.title = "t", .evaluation = &evaluation, .classes = classes, .image = no_image});
  CHECK_THAT(matrix, contains("1 of 3 images of bee taken for cat") && !contains("of cat taken for bee"));
  std::vector<std::int64_t> shown;
  report_parts::mistakes(
      {.title = "t", .evaluation = &evaluation, .classes = classes, .image = [&](std::int64_t index) {
         shown.push_back(index);
         return Image{.height = 1, .width = 1, .channels = 1, .pixels = {7}};
       }});
  CHECK(shown == std::vector<std::int64_t>{1, 3});
}

TEST_CASE("a page that does not fit on the disk is an error, and the one before stays", "[samples]") {
  sluice::test::TemporaryFolder folder;
  write_text(folder / "index.html", "good");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{.rlim_cur = 1000, .rlim_max = before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  std::string said;
  try {
    write_text(folder / "index.html", std::string(5000, 'x'));
  } catch (const sluice::FileError& error) {
    said = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK_THAT(said, contains("index.html: cannot be written"));
  CHECK(std::filesystem::file_size(folder / "index.html") == 4);
}
