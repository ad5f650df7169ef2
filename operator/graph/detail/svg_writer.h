#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::graph {

/// Writes a picture piece by piece. Lengths are pixels.
class SvgWriter {
 public:
  SvgWriter(std::int64_t width, std::int64_t height);

  struct Box {
    std::int64_t x = 0, y = 0, width = 0, height = 0, rounding = 0;
  };
  /// `title`: shown where the pointer rests.
  void box(const Box& box, std::string_view fill, std::string_view title = {});
  enum class Anchor { start, middle, end };
  void text(std::int64_t x, std::int64_t y, std::string_view text, Anchor anchor = Anchor::start);
  /// Reading upwards, ending at (x, y).
  void upright_text(std::int64_t x, std::int64_t y, std::string_view text);
  void line(std::int64_t x1, std::int64_t y1, std::int64_t x2, std::int64_t y2);
  /// A curve that leaves and arrives vertically.
  void arrow(std::int64_t x1, std::int64_t y1, std::int64_t x2, std::int64_t y2, bool thick);
  /// The whole picture; nothing more can be added.
  std::string finish() &&;

  /// Roughly: of a letter in these texts.
  static constexpr std::int64_t k_letter = 7;

 private:
  std::string text_;
};

}  // namespace sluice::graph
