#include <cmath>
#include <limits>

#include "samples/support/divergence.h"
#include "samples/support/evaluation.h"
#include "samples/support/report/report.h"
#include "samples/support/terminal.h"
#include "tests/support/catch.h"

using namespace samples;

namespace {

// Three classes: 0 and 2 are always right, 1 is taken for 2 once, surely, and for 0 once, barely.
Evaluation five_images() {
  return {.labels = {0, 1, 2, 1, 1}, .predictions = {5, 0, 0, 0, 1, 9, 0, 0, 4, 1.1f, 1, 0, 0, 3, 0}, .classes = 3};
}

}  // namespace

TEST_CASE("an evaluation counts hits, confusions and scores", "[samples]") {
  const Evaluation evaluation = five_images();
  CHECK(evaluation.accuracy() == Approx(3.0 / 5));
  CHECK(evaluation.confusion() == std::vector<std::int64_t>{1, 0, 0, 1, 1, 1, 0, 0, 1});
  const std::vector<ClassScore> scores = class_scores(evaluation);
  REQUIRE(scores.size() == 3);
  CHECK(scores[0].label == 1);
  CHECK(scores[0].precision == 1);
  CHECK(scores[0].recall == Approx(1.0 / 3));
  CHECK(scores[0].taken_for == 0);
  CHECK(scores[0].times == 1);
  CHECK(scores[1].precision == Approx(0.5));
  CHECK(scores[1].taken_for == -1);
}

TEST_CASE("mistakes come with the surest first", "[samples]") {
  CHECK(confident_mistakes(five_images(), 25) == std::vector<std::int64_t>{1, 3});
  CHECK(confident_mistakes(five_images(), 1) == std::vector<std::int64_t>{1});
  const std::vector<double> shares = five_images().probabilities(3);
  CHECK(shares[0] + shares[1] + shares[2] == Approx(1));
  CHECK(shares[0] / shares[1] == Approx(std::exp(0.1)).epsilon(1e-5));
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
  CHECK(report_parts::escaped("<a href=\"x\">&") == "&lt;a href=&quot;x&quot;&gt;&amp;");
}
