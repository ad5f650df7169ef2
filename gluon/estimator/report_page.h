#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sluice/engine/export.h>

namespace sluice::gluon::estimator {

/// How often guess j was made where label i is right, as metric::ConfusionMatrix::matrix() has it: counts[i][j].
using ConfusionCounts = std::vector<std::vector<std::int64_t>>;

/// How well one class is told from the others.
struct ClassScore {
  std::int64_t label = 0;
  std::int64_t samples = 0;                  // of this class; without any the scores mean nothing
  double precision = 0, recall = 0, f1 = 0;  // 0 where nothing was there to count
  std::int64_t taken_for = -1, times = 0;    // the class that it is taken for most often; -1 = none
};
/// Of all classes, the worst (by F1) first, those without a sample last. Throws ValueError unless there are as many
/// guesses as labels.
SLUICE_API std::vector<ClassScore> class_scores(const ConfusionCounts& counts);

/// A figure over the epochs, one value each; empty where there is none, NaN for an epoch without it.
struct Curve {
  std::string name = {};
  std::vector<double> training = {}, validation = {};
};

/// A page about a training: one HTML file that needs nothing else, in light and dark. Parts stand in the order in which
/// they are added; text given may hold any characters. Nothing here waits.
class SLUICE_API ReportPage {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  ReportPage(std::string title, const std::string& subtitle);

  /// A sentence that is not to be overlooked.
  void add_note(const std::string& text);
  /// Numbers in large type, each above what it is.
  void add_figures(const Pairs& values_and_names);
  /// A drawing (SVG) each; none for a curve without a finite value.
  void add_curves(const std::vector<Curve>& curves);
  /// The matrix, with colours that follow the share of each row, and the scores of the classes, the worst first. Of
  /// classes without a name the number stands. `noun` is what they are classes of: "images". Throws as class_scores().
  void add_confusions(
      const ConfusionCounts& counts, const std::vector<std::string>& classes, const std::string& noun = "samples");
  void add_table(
      const std::string& title,
      const std::vector<std::string>& head,
      const std::vector<std::vector<std::string>>& rows);
  /// Names and values, one below the other.
  void add_list(const std::string& title, const Pairs& names_and_values);
  /// Taken as it is.
  void add_html(const std::string& html) { body_ += html; }

  /// The whole page. `footer` is its last line.
  std::string html(const std::string& footer) const;

  /// `text` with the characters that mean something in HTML written as references; control characters become blanks.
  static std::string escaped(std::string_view text);

 private:
  std::string title_, body_;
};

}  // namespace sluice::gluon::estimator
