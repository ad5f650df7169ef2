#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include <sluice/operator/elementwise/parameters.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/fused/formula.h>

namespace sluice::fused {

namespace {

using Numbers = boost::container::small_vector<Scalar, 2>;

/// A row's formula and which numbers a call of it has.
struct RowFormula {
  const char* function;
  Numbers (*parameters)(const Attributes&) = nullptr;  // of rows with parameters, behind the arrays
};

template <Unary row>
Numbers parameters_of([[maybe_unused]] const Attributes& attributes) {
  Numbers numbers;
  if constexpr (math::UnaryRow<row>::parameters > 0) {
    for (const Scalar number : attributes.as<UnaryParameters<row>>().numbers())
      numbers.push_back(number);
  }
  return numbers;
}

using Formulas = std::unordered_map<std::string_view, RowFormula>;

template <Unary row>
void add_unary(Formulas& all, const char* value, const char* gradient) {
  using Row = math::UnaryRow<row>;
  all[Row::name] = {value, parameters_of<row>};
  if constexpr (is_differentiable(Row::kind) && Row::uses != nothing_)
    all[Row::backward_name] = {gradient, parameters_of<row>};
}
template <Binary row>
void add_binary(Formulas& all, const char* value, const char* gradient_a, const char* gradient_b) {
  using Row = math::BinaryRow<row>;
  all[Row::name] = {value};
  if constexpr (is_differentiable(Row::kind) && Row::uses_a != nothing_)
    all[Row::backward_a_name] = {gradient_a};
  if constexpr (is_differentiable(Row::kind) && Row::uses_b != nothing_)
    all[Row::backward_b_name] = {gradient_b};
}

Formulas make_formulas() {
  Formulas all;
#define UNARY(row, ...)  \
  add_unary<Unary::row>( \
      all, "math::UnaryRow<Unary::" #row ">::Value::of", "math::UnaryRow<Unary::" #row ">::Gradient::of");
#include <sluice/operator/elementwise/unary.def>
#define BINARY(row, ...)                                  \
  add_binary<Binary::row>(                                \
      all,                                                \
      "math::BinaryRow<Binary::" #row ">::Value::of",     \
      "math::BinaryRow<Binary::" #row ">::GradientA::of", \
      "math::BinaryRow<Binary::" #row ">::GradientB::of");
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
  all["where"] = {"math::select"};
  for (const char* const moved : {"astype", "copy", "to"})
    all[moved] = {"detail::convert"};
  return all;
}

const RowFormula* find(const Operator& op) {
  static const auto* const formulas = new Formulas(make_formulas());
  const auto at = formulas->find(op.name);
  return at == formulas->end() ? nullptr : &at->second;
}

constexpr std::string_view k_cast = "detail::convert";

struct Rounded {
  std::string_view name;
  const char* function;
};
constexpr Rounded k_rounded[] = {
    {"add", "fused::add"},
    {"subtract", "fused::subtract"},
    {"multiply", "fused::multiply"},
    {"square", "fused::square"}};

// Short rows in which no operand is a term of a sum. What is missing here costs an instruction an operand.
constexpr std::string_view k_without_sums[] = {
    "negative",
    "abs",
    "relu",
    "relu_backward",
    "maximum",
    "minimum",
    "where",
    "clip",
    "multiply_backward_a",
    "multiply_backward_b",
    "divide",
    "reciprocal",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal"};

// How the call stands beside others: kernels.h says what that is for.
void note_sums(std::string_view name, Formula& formula) {
  for (const Rounded& row : k_rounded) {
    if (row.name == name) {
      formula.function = row.function;
      formula.rounds = true;
    }
  }
  const auto* const end = std::end(k_without_sums);
  formula.begins = !formula.rounds && std::find(std::begin(k_without_sums), end, name) == end;
}

Term number_term(Scalar number, DType dtype) {
  return {.is_number = true, .number = number, .dtype = dtype};
}

// The row power itself says so of this exponent; in general powers would be compiled that never run.
bool is_square(const Call& call, const Formula& formula) {
  return std::string_view(call.op->name) == "power" && formula.terms.size() == 2 && formula.terms[1].is_number &&
         is_floating(formula.terms[1].dtype) && formula.terms[1].number.as_double() == 2;
}

}  // namespace

bool has_formula(const Operator& op) {
  return find(op) != nullptr;
}

DType type_of(const Program& program, Number value) {
  const std::size_t inputs = program.inputs.size();
  return value < inputs ? program.inputs[value] : program.calls[value - inputs].dtype;
}

Formula formula_of(const Program& program, const Call& call) {
  const RowFormula* const row = find(*call.op);
  require<UnsupportedError>(
      row != nullptr, [&] { return message("fused: ", call.op->name, " is not elementwise, or has no formula"); });
  Formula formula{row->function};
  note_sums(call.op->name, formula);
  for (const Number operand : call.operands)
    formula.terms.push_back({.value = operand, .dtype = type_of(program, operand)});
  if (row->function == k_cast) {
    formula.function += message("<", cpp_name(call.dtype), ">");
    formula.begins = false;
    return formula;
  }
  const DType first = formula.terms[0].dtype;
  if (row->parameters != nullptr) {
    for (const Scalar number : row->parameters(call.attributes))
      formula.terms.push_back(number_term(sluice::detail::scalar_within(number, first), first));
    return formula;
  }
  const sluice::detail::NumberAttribute* const beside = sluice::detail::number_of(call.attributes);
  if (beside == nullptr)
    return formula;
  const bool is_where = row->function == std::string_view("math::select");
  const Term number = number_term(beside->number, is_where ? formula.terms[1].dtype : first);
  const bool is_gradient = std::string_view(call.op->name).find("_backward_") != std::string_view::npos;
  const std::size_t place = is_where || is_gradient ? (beside->first ? 1 : 2) : (beside->first ? 0 : 1);
  if (is_gradient)
    formula.terms[place] = number;
  else
    formula.terms.insert(formula.terms.begin() + static_cast<std::ptrdiff_t>(place), number);
  if (is_square(call, formula)) {
    note_sums("square", formula);
    formula.terms.pop_back();
  }
  return formula;
}

std::string_view cpp_name(DType dtype) noexcept {
  switch (dtype) {
#define SLUICE_ROW(name, type, text) \
  case DType::name:                  \
    return #type;
    SLUICE_DTYPES(SLUICE_ROW)
#undef SLUICE_ROW
  }
  return "";
}

}  // namespace sluice::fused
