#include <sluice/engine/detail/trace_text.h>
#include <sluice/engine/error.h>
#include <sluice/operator/graph/detail/svg_writer.h>

namespace sluice::graph {

using sluice::detail::xml_text;

SvgWriter::SvgWriter(std::int64_t width, std::int64_t height)
    : text_(message(
          R"(<svg xmlns="http://www.w3.org/2000/svg" width=")",
          width,
          R"(" height=")",
          height,
          R"(" viewBox="0 0 )",
          width,
          ' ',
          height,
          R"(" font-family="Helvetica, Arial, sans-serif" font-size="12">)",
          "\n<defs>",
          R"(<marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerUnits="userSpaceOnUse" markerWidth="7" )",
          R"(markerHeight="7" orient="auto"><path d="M0 0L6 3L0 6z" fill="#57606a"/></marker></defs>)",
          "\n",
          R"(<rect width="100%" height="100%" fill="#ffffff"/>)",
          '\n')) {}

void SvgWriter::box(const Box& box, std::string_view fill, std::string_view title) {
  text_ += message(R"(<rect x=")", box.x, R"(" y=")", box.y, R"(" width=")", box.width, R"(" height=")", box.height);
  text_ += message(R"(" rx=")", box.rounding, R"(" fill=")", fill, R"(" stroke="#57606a" stroke-width="0.5">)");
  text_ += "<title>" + xml_text(title) + "</title></rect>\n";
}

void SvgWriter::text(std::int64_t x, std::int64_t y, std::string_view text, Anchor anchor) {
  constexpr const char* names[] = {"start", "middle", "end"};
  text_ += message(R"(<text x=")", x, R"(" y=")", y, R"(" pointer-events="none" text-anchor=")");
  text_ += message(names[static_cast<int>(anchor)], R"(">)", xml_text(text), "</text>\n");
}

void SvgWriter::upright_text(std::int64_t x, std::int64_t y, std::string_view text) {
  text_ += message("<text transform=\"translate(", x, ' ', y, ") rotate(-90)\" text-anchor=\"end\">");
  text_ += xml_text(text) + "</text>\n";
}

void SvgWriter::line(std::int64_t x1, std::int64_t y1, std::int64_t x2, std::int64_t y2) {
  text_ += message(R"(<path d="M)", x1, ' ', y1, 'L', x2, ' ', y2, R"(" stroke="#d0d7de"/>)", '\n');
}

void SvgWriter::arrow(std::int64_t x1, std::int64_t y1, std::int64_t x2, std::int64_t y2, bool thick) {
  const std::int64_t middle = (y1 + y2) / 2;
  text_ += message(R"(<path d="M)", x1, ' ', y1, 'C', x1, ' ', middle, ' ', x2, ' ', middle, ' ', x2, ' ', y2);
  text_ += message(R"(" fill="none" stroke="#57606a" stroke-opacity="0.7" stroke-width=")", thick ? "2.5" : "1");
  text_ += "\" marker-end=\"url(#tip)\"/>\n";
}

std::string SvgWriter::finish() && {
  return std::move(text_) + "</svg>\n";
}

}  // namespace sluice::graph
