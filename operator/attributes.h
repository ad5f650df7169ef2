#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include <sluice/engine/detail/block_pool.h>
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
  T read = [&field] {
    if constexpr (std::is_same_v<T, Scalar>) {
      return field.value_or(T(0));
    } else {
      return field.value_or(T());
    }
  }();
  if (!assign(read, value))
    return false;
  field = std::move(read);
  return true;
}

/// A value of the field's kind, also where an optional one has none.
template <class T>
AttributeValue sample_of(const T& field) {
  return value_of(field);
}
template <class T>
AttributeValue sample_of(const std::optional<T>& field) {
  if constexpr (std::is_same_v<T, Scalar>)
    return value_of(field.value_or(T(0)));
  else
    return value_of(field.value_or(T()));
}

/// Hands the named values to the fields of one struct, and then says which did not fit.
class SLUICE_API FieldSetter {
 public:
  FieldSetter(std::string_view op, std::span<const NamedValue> values) : op_(op), values_(values) {}
  template <class T>
  void field(const char* name, T& field) {
    if (const AttributeValue* value = find(name); value != nullptr && !assign(field, *value))
      refuse(name, *value, sample_of(field));
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

/// Hands on fields as they are read, whatever the visitor asks for.
template <class V>
struct ConstFields {
  V& visitor;
  template <class T>
  void field(const char* name, const T& field) {
    visitor.field(name, field);
  }
};

/// Hands the fields of a struct that others share to `visitor`, as constants. visit() is one function for reading and
/// writing: it walks over a copy.
template <class A, class V>
void read_fields(const A& attributes, V& visitor) {
  A copy = attributes;
  ConstFields<V> fields{visitor};
  copy.visit(fields);
}

}  // namespace detail

/// What is known of an attribute struct without its C++ type. One constant a struct: attribute_type<A>.
struct AttributeType {
  const std::type_info* cpp;
  std::vector<NamedValue> (*values)(const void* attributes);
  Attributes (*make)(std::string_view op, std::span<const NamedValue> values);
  bool in_place;  // an Attributes holds the struct itself

  bool operator==(const AttributeType& other) const noexcept { return cpp == other.cpp || *cpp == *other.cpp; }
};

/// The attributes of one call, immutable. `A` is a plain struct, with a default for each field, and
/// `template <class V> void visit(V&& v) { v.field("axis", axis); ... }`. A number or two lie in place, larger structs
/// are shared, in a recycled block: a steady program does not call the heap for them.
class SLUICE_API Attributes {
 public:
  Attributes() noexcept {}  // NOLINT: what is in place stays unwritten
  template <class A>
  static Attributes of(A value);
  Attributes(const Attributes& other) noexcept { copy(other); }
  Attributes(Attributes&& other) noexcept { take(other); }
  Attributes& operator=(const Attributes& other) noexcept {
    Attributes copied(other);
    drop();
    take(copied);
    return *this;
  }
  Attributes& operator=(Attributes&& other) noexcept {
    if (this != &other) {
      drop();
      take(other);
    }
    return *this;
  }
  ~Attributes() { drop(); }

  /// The struct that was put in, as long as this object lives. invoke() has seen to it that it is the operator's.
  template <class A>
  const A& as() const noexcept {
    return *static_cast<const A*>(k_in_place<A> ? static_cast<const void*>(bytes_) : box_->value);
  }
  bool empty() const noexcept { return type_ == nullptr; }
  /// Null if empty.
  const AttributeType* type() const noexcept { return type_; }
  /// The fields by name, in order; none for none.
  std::vector<NamedValue> values() const {
    if (type_ == nullptr)
      return {};
    return type_->values(type_->in_place ? static_cast<const void*>(bytes_) : box_->value);
  }

  /// Whether such a struct lies in place.
  template <class A>
  static constexpr bool k_in_place = sizeof(A) <= 24 && alignof(A) <= 8 && std::is_trivially_copyable_v<A>;

 private:
  struct Box {
    explicit Box(const void* v) noexcept : value(v) {}
    virtual ~Box() = default;
    static void* operator new(std::size_t bytes) { return detail::take_block(bytes); }
    static void operator delete(void* memory, std::size_t bytes) noexcept { detail::give_block(memory, bytes); }
    std::atomic<int> references{1};
    const void* value;
  };
  template <class A>
  struct BoxOf final : Box {
    explicit BoxOf(A v) : Box(&held), held(std::move(v)) {}
    A held;
  };

  bool is_boxed() const noexcept { return type_ != nullptr && !type_->in_place; }
  void copy(const Attributes& other) noexcept {
    type_ = other.type_;
    if (type_ != nullptr)
      std::memcpy(bytes_, other.bytes_, sizeof(bytes_));
    if (is_boxed())
      box_->references.fetch_add(1, std::memory_order_relaxed);
  }
  void take(Attributes& other) noexcept {
    type_ = std::exchange(other.type_, nullptr);
    if (type_ != nullptr)
      std::memcpy(bytes_, other.bytes_, sizeof(bytes_));
  }
  void drop() noexcept {
    if (is_boxed() && box_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete box_;
    type_ = nullptr;
  }

  const AttributeType* type_ = nullptr;
  union {
    alignas(8) std::byte bytes_[24];
    Box* box_;
  };
};

namespace detail {

template <class A>
std::vector<NamedValue> values_of(const void* attributes) {
  FieldGetter getter;
  read_fields(*static_cast<const A*>(attributes), getter);
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
inline constexpr AttributeType attribute_type{
    &typeid(A), detail::values_of<A>, detail::make_attributes<A>, Attributes::k_in_place<A>};

template <class A>
Attributes Attributes::of(A value) {
  Attributes made;
  if constexpr (k_in_place<A>) {
    std::memset(made.bytes_, 0, sizeof(made.bytes_));
    ::new (static_cast<void*>(made.bytes_)) A(value);
  } else {
    made.box_ = new BoxOf<A>(std::move(value));
  }
  made.type_ = &attribute_type<A>;
  return made;
}

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
