#include <algorithm>

#include <sluice/operator/linalg/equation.h>

namespace sluice::detail {

namespace {

constexpr std::string_view k_dots = "...";

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw ValueError(message("einsum: \"", text, "\" ", why));
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Letters around at most one "...".
struct Term {
  std::string before, behind;
  bool has_dots = false;

  std::string letters() const { return before + behind; }
  /// With so many axes in place of the dots.
  std::string names(int dots) const {
    std::string axes = before;
    for (int i = dots; i > 0; --i)
      axes += static_cast<char>(i);
    return axes + behind;
  }
};

Term parse_term(std::string_view whole, std::string_view text) {
  Term term;
  while (!text.empty()) {
    if (text.substr(0, k_dots.size()) == k_dots && !term.has_dots) {
      term.has_dots = true;
      text.remove_prefix(k_dots.size());
      continue;
    }
    if (!is_letter(text.front()))
      refuse(whole, message("has '", text.front(), "' where a letter or one \"...\" for each operand may stand"));
    (term.has_dots ? term.behind : term.before) += text.front();
    text.remove_prefix(1);
  }
  return term;
}

std::vector<Term> parse_terms(std::string_view whole, std::string_view text) {
  std::vector<Term> terms;
  for (;;) {
    const std::size_t comma = text.find(',');
    terms.push_back(parse_term(whole, text.substr(0, comma)));
    if (comma == std::string_view::npos)
      return terms;
    text.remove_prefix(comma + 1);
  }
}

void note_extent(Equation& equation, std::string_view text, char axis, std::int64_t extent) {
  const auto [known, is_new] = equation.extents.emplace(axis, extent);
  if (is_new || known->second == extent || extent == 1)
    return;
  require<ShapeError>(known->second == 1, [&] {
    const std::string name = is_letter(axis) ? std::string(1, axis) : message("an axis of ...");
    return message("einsum: \"", text, "\": ", name, " is ", known->second, " and ", extent);
  });
  known->second = extent;
}

// The letters that stand once, in their order, behind the axes of the dots.
Term implied(const std::vector<Term>& terms) {
  std::string all;
  Term result;
  for (const Term& term : terms) {
    all += term.letters();
    result.has_dots = result.has_dots || term.has_dots;
  }
  std::sort(all.begin(), all.end());
  for (const char axis : all) {
    if (std::count(all.begin(), all.end(), axis) == 1)
      result.behind += axis;
  }
  return result;
}

void check_result(std::string_view text, const Equation& equation) {
  const std::string& result = equation.result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result.find(result[i], i + 1) != std::string::npos)
      refuse(text, message("names ", result[i], " twice in its result"));
    if (equation.extents.count(result[i]) == 0)
      refuse(text, message("has ", result[i], " in its result alone"));
  }
}

}  // namespace

Shape Equation::result_shape() const {
  Shape shape;
  for (const char axis : result)
    shape.push_back(extents.at(axis));
  return shape;
}

Equation parse_equation(std::string_view text, std::span<const Shape> shapes) {
  std::string plain(text);
  std::erase(plain, ' ');
  const std::size_t arrow = plain.find("->");
  const std::vector<Term> terms = parse_terms(text, std::string_view(plain).substr(0, arrow));
  if (terms.size() != shapes.size())
    refuse(text, message("is of ", terms.size(), " operands, of which ", shapes.size(), " were given"));
  Equation equation;
  int most_dots = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const int dots = shapes[i].ndim() - static_cast<int>(terms[i].letters().size());
    require<ShapeError>(terms[i].has_dots ? dots >= 0 : dots == 0, [&] {
      return message("einsum: \"", text, "\": operand ", i, " has shape ", shapes[i]);
    });
    most_dots = std::max(most_dots, dots);
    equation.operands.push_back(terms[i].names(dots));
    for (int axis = 0; axis < shapes[i].ndim(); ++axis)
      note_extent(equation, text, equation.operands[i][static_cast<std::size_t>(axis)], shapes[i][axis]);
  }
  const Term result =
      arrow == std::string::npos ? implied(terms) : parse_term(text, std::string_view(plain).substr(arrow + 2));
  if (most_dots > 0 && !result.has_dots)
    refuse(text, "sums axes of \"...\", which its result must name");
  equation.result = result.names(result.has_dots ? most_dots : 0);
  check_result(text, equation);
  return equation;
}

}  // namespace sluice::detail
