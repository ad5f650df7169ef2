#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/engine/export.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/ndarray/scalar.h>
#include <sluice/ndarray/shape.h>

namespace sluice {

struct Operator;
class Attributes;

/// The value of an attribute as graph files, text and other languages hold it. monostate: none, of an optional one.
using AttributeValue = std::variant<
    std::monostate,
    bool,
    std::int64_t,
    double,
    std::string,
    DType,
    Device,
    std::vector<std::int64_t>,
    std::vector<double>>;

/// "2", "2.0", "0.1", "\"text\"", "(2, 3)", "float32", "gpu(1)", "none": the fewest digits that read as the same value,
/// whatever the locale.
SLUICE_API std::string to_string(const AttributeValue& value);

struct NamedValue {
  std::string name;
  AttributeValue value;
  bool operator==(const NamedValue&) const = default;
};

namespace detail {

/// The field types that an attribute struct may have: bool, int64, double, string, DType, Device, Scalar, Shape, lists
/// of int64 and of double, and optional ones of these.
SLUICE_API AttributeValue value_of(bool field);
SLUICE_API AttributeValue value_of(std::int64_t field);
SLUICE_API AttributeValue value_of(double field);
SLUICE_API AttributeValue value_of(const std::string& field);
SLUICE_API AttributeValue value_of(DType field);
SLUICE_API AttributeValue value_of(Device field);
SLUICE_API AttributeValue value_of(Scalar field);
SLUICE_API AttributeValue value_of(const Shape& field);
SLUICE_API AttributeValue value_of(const std::vector<std::int64_t>& field);
SLUICE_API AttributeValue value_of(const std::vector<double>& field);
template <class T>
AttributeValue value_of(const std::optional<T>& field) {
  return field ? value_of(*field) : AttributeValue{};
}

/// False, and `field` as it was, where the value is of another kind. Whole numbers become real ones, lists shapes.
SLUICE_API bool assign(bool& field, const AttributeValue& value);
SLUICE_API bool assign(std::int64_t& field, const AttributeValue& value);
SLUICE_API bool assign(double& field, const AttributeValue& value);
SLUICE_API bool assign(std::string& field, const AttributeValue& value);
SLUICE_API bool assign(DType& field, const AttributeValue& value);
SLUICE_API bool assign(Device& field, const AttributeValue& value);
SLUICE_API bool assign(Scalar& field, const AttributeValue& value);
SLUICE_API bool assign(Shape& field, const AttributeValue& value);
SLUICE_API bool assign(std::vector<std::int64_t>& field, const AttributeValue& value);
SLUICE_API bool assign(std::vector<double>& field, const AttributeValue& value);
template <class T>
bool assign(std::optional<T>& field, const AttributeValue& value) {
  if (std::holds_alternative<std::monostate>(value)) {
    field.reset();
    return true;
  }
  T read = field.value_or(T());
  if (!assign(read, value))
    return false;
  field = std::move(read);
  return true;
}

/// Hands the named values to the fields of one struct, and then says which did not fit.
class SLUICE_API FieldSetter {
 public:
  FieldSetter(std::string_view op, std::span<const NamedValue> values) : op_(op), values_(values) {}
  template <class T>
  void field(const char* name, T& field) {
    if (const AttributeValue* value = find(name); value != nullptr && !assign(field, *value))
      refuse(name, *value, value_of(field));
  }
  /// Throws ValueError where a value was named twice, or is no field's.
  void finish() const;

 private:
  const AttributeValue* find(const char* name);
  [[noreturn]] void refuse(const char* name, const AttributeValue& value, const AttributeValue& now) const;

  std::string_view op_;
  std::span<const NamedValue> values_;
  std::vector<const char*> names_;
};

struct FieldGetter {
  template <class T>
  void field(const char* name, const T& field) {
    values.push_back({name, value_of(field)});
  }
  std::vector<NamedValue> values;
};

}  // namespace detail

/// What is known of an attribute struct without its C++ type. One constant a struct: attribute_type<A>.
struct AttributeType {
  const std::type_info* cpp;
  std::vector<NamedValue> (*values)(const void* attributes);
  Attributes (*make)(std::string_view op, std::span<const NamedValue> values);

  bool operator==(const AttributeType& other) const noexcept { return cpp == other.cpp || *cpp == *other.cpp; }
};

/// The attributes of one call, shared and immutable. `A` is a plain struct, with a default for each field, and
/// `template <class V> void visit(V&& v) { v.field("axis", axis); ... }`.
class SLUICE_API Attributes {
 public:
  Attributes() = default;
  template <class A>
  static Attributes of(A value);
  /// The struct that was put in. invoke() has seen to it that it is the operator's.
  template <class A>
  const A& as() const noexcept {
    return static_cast<const BoxOf<A>&>(*box_).value;
  }
  bool empty() const noexcept { return box_ == nullptr; }
  /// Null if empty.
  const AttributeType* type() const noexcept { return box_ == nullptr ? nullptr : box_->type; }
  /// The fields by name, in order; none for none.
  std::vector<NamedValue> values() const { return box_ == nullptr ? std::vector<NamedValue>{} : box_->values(); }

 private:
  struct Box {
    explicit Box(const AttributeType* t) : type(t) {}
    virtual ~Box() = default;
    virtual std::vector<NamedValue> values() const = 0;
    const AttributeType* type;
  };
  template <class A>
  struct BoxOf final : Box {
    explicit BoxOf(A v);
    std::vector<NamedValue> values() const override { return this->type->values(&value); }
    A value;
  };
  std::shared_ptr<const Box> box_;
};

namespace detail {

template <class A>
std::vector<NamedValue> values_of(const void* attributes) {
  A copy = *static_cast<const A*>(attributes);  // visit() is one function for reading and writing
  FieldGetter getter;
  copy.visit(getter);
  return std::move(getter.values);
}

template <class A>
Attributes make_attributes(std::string_view op, std::span<const NamedValue> values) {
  A made;
  FieldSetter setter(op, values);
  made.visit(setter);
  setter.finish();
  return Attributes::of(std::move(made));
}

}  // namespace detail

template <class A>
inline constexpr AttributeType attribute_type{&typeid(A), detail::values_of<A>, detail::make_attributes<A>};

template <class A>
Attributes Attributes::of(A value) {
  Attributes made;
  made.box_ = std::make_shared<BoxOf<A>>(std::move(value));
  return made;
}

template <class A>
Attributes::BoxOf<A>::BoxOf(A v) : Box(&attribute_type<A>), value(std::move(v)) {}

/// Attributes of operators that have none.
struct NoAttributes {
  template <class V>
  void visit(V&&) {}
};

/// The fields of an operator's attributes by name, in order: "axis=1, shape=(2, 3)"; empty for none.
SLUICE_API std::string to_string(const Attributes& attributes);

/// The attributes of `op` with these values; fields that are not named keep their defaults. Throws ValueError naming
/// the operator, where a name is no field's or comes twice, or a value is of another kind than its field.
SLUICE_API Attributes make_attributes(const Operator& op, std::span<const NamedValue> values);
/// The same from what to_string() writes. Throws ValueError with the place where the text cannot be read.
SLUICE_API Attributes parse_attributes(const Operator& op, std::string_view text);

namespace detail {

/// Throws ValueError where a call of `op` comes with attributes of another operator, or without what it needs.
void check_attributes(const Operator& op, const Attributes& attributes);

}  // namespace detail

}  // namespace sluice
