#include <algorithm>
#include <array>
#include <charconv>

#include <sluice/engine/error.h>
#include <sluice/operator/operator.h>

namespace sluice {

namespace {

// In no locale: the fewest digits that read as the same number; a real one shows that it is one.
struct Text {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(DType value) const { return std::string(name_of(value)); }
  std::string operator()(Device value) const { return sluice::to_string(value); }
  std::string operator()(double value) const {
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    std::string text(digits.data(), end);
    return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
  }
  std::string operator()(const std::string& value) const {
    std::string text = "\"";
    for (const char c : value)
      text += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
    return text + '"';
  }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::string text = "(";
    for (std::size_t i = 0; i < list.size(); ++i)
      text += (i == 0 ? "" : ", ") + (*this)(list[i]);
    return text + (list.size() == 1 ? ",)" : ")");
  }
};

template <class T>
bool assign_same(T& field, const AttributeValue& value) {
  const T* same = std::get_if<T>(&value);
  if (same != nullptr)
    field = *same;
  return same != nullptr;
}

std::string list_of(std::span<const NamedValue> values) {
  std::string text;
  for (const NamedValue& value : values)
    text += message(text.empty() ? "" : ", ", value.name);
  return text.empty() ? "none" : text;
}

}  // namespace

std::string to_string(const AttributeValue& value) {
  return std::visit(Text(), value);
}

std::string to_string(const Attributes& attributes) {
  std::string text;
  for (const NamedValue& value : attributes.values())
    text += message(text.empty() ? "" : ", ", value.name, '=', to_string(value.value));
  return text;
}

Attributes make_attributes(const Operator& op, std::span<const NamedValue> values) {
  return op.attributes->make(op.name, values);
}

namespace detail {

AttributeValue value_of(bool field) {
  return field;
}
AttributeValue value_of(std::int64_t field) {
  return field;
}
AttributeValue value_of(double field) {
  return field;
}
AttributeValue value_of(const std::string& field) {
  return field;
}
AttributeValue value_of(DType field) {
  return field;
}
AttributeValue value_of(Device field) {
  return field;
}
AttributeValue value_of(Scalar field) {
  switch (field.kind()) {
    case Scalar::Kind::boolean:
      return field.as_int64() != 0;
    case Scalar::Kind::integer:
      return field.as_int64();
    default:
      return field.as_double();
  }
}
AttributeValue value_of(const Shape& field) {
  return std::vector<std::int64_t>(field.begin(), field.end());
}
AttributeValue value_of(const std::vector<std::int64_t>& field) {
  return field;
}
AttributeValue value_of(const std::vector<double>& field) {
  return field;
}

bool assign(bool& field, const AttributeValue& value) {
  return assign_same(field, value);
}
bool assign(std::int64_t& field, const AttributeValue& value) {
  return assign_same(field, value);
}
bool assign(double& field, const AttributeValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    field = static_cast<double>(*whole);
    return true;
  }
  return assign_same(field, value);
}
bool assign(std::string& field, const AttributeValue& value) {
  return assign_same(field, value);
}
bool assign(DType& field, const AttributeValue& value) {
  return assign_same(field, value);
}
bool assign(Device& field, const AttributeValue& value) {
  return assign_same(field, value);
}
bool assign(Scalar& field, const AttributeValue& value) {
  if (const bool* boolean = std::get_if<bool>(&value))
    field = *boolean;
  else if (const auto* whole = std::get_if<std::int64_t>(&value))
    field = *whole;
  else if (const double* real = std::get_if<double>(&value))
    field = *real;
  else
    return false;
  return true;
}
bool assign(std::vector<std::int64_t>& field, const AttributeValue& value) {
  return assign_same(field, value);
}
bool assign(std::vector<double>& field, const AttributeValue& value) {
  if (const auto* whole = std::get_if<std::vector<std::int64_t>>(&value)) {
    field.assign(whole->begin(), whole->end());
    return true;
  }
  return assign_same(field, value);
}
bool assign(Shape& field, const AttributeValue& value) {
  const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
  if (list == nullptr || list->size() > static_cast<std::size_t>(k_max_ndim))
    return false;
  field = Shape(*list);
  return true;
}

const AttributeValue* FieldSetter::find(const char* name) {
  names_.push_back(name);
  const auto it = std::find_if(values_.begin(), values_.end(), [&](const NamedValue& v) { return v.name == name; });
  return it == values_.end() ? nullptr : &it->value;
}

void FieldSetter::refuse(const char* name, const AttributeValue& value, const AttributeValue& now) const {
  // In the order of AttributeValue.
  constexpr const char* k_kinds[] = {
      "of another kind",
      "true or false",
      "a whole number",
      "a number",
      "text",
      "a type",
      "a device",
      "a list of whole numbers",
      "a list of numbers"};
  static_assert(std::size(k_kinds) == std::variant_size_v<AttributeValue>);
  const std::string sample = to_string(now);
  const bool says_kind_alone = now.index() < 2 || sample == "\"\"";
  throw ValueError(message(
      op_,
      ": the attribute ",
      name,
      " cannot be ",
      to_string(value),
      "; it is ",
      k_kinds[now.index()],
      says_kind_alone ? "" : ", as ",
      says_kind_alone  ? ""
      : sample == "()" ? "(1, 2)"
                       : sample));
}

void FieldSetter::finish() const {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const std::string& name = values_[i].name;
    const auto is_named = [&](const auto& other) { return name == other; };
    require(std::any_of(names_.begin(), names_.end(), is_named), [&] {
      std::string known;
      for (const char* field : names_)
        known += message(known.empty() ? "" : ", ", field);
      return message(op_, ": has no attribute ", name, "; it has ", known.empty() ? "none" : known);
    });
    const auto same_name = [&](const NamedValue& other) { return other.name == name; };
    require(std::none_of(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(i), same_name), [&] {
      return message(op_, ": the attribute ", name, " is given twice");
    });
  }
}

void check_attributes(const Operator& op, const Attributes& attributes) {
  const AttributeType* given = attributes.type();
  const bool fits = given != nullptr ? given == op.attributes || *given == *op.attributes
                                     : op.optional_attributes || *op.attributes == attribute_type<NoAttributes>;
  if (fits) [[likely]]
    return;
  const std::vector<NamedValue> wanted = op.attributes->make(op.name, {}).values();
  throw ValueError(message(
      op.name,
      ": takes the attributes ",
      list_of(wanted),
      "; was given ",
      given == nullptr ? "none" : "those of another operator: " + to_string(attributes)));
}

}  // namespace detail

}  // namespace sluice
