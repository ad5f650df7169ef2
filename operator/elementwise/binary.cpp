// The operators of binary.def, their gradients and public functions.
#include <array>
#include <utility>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/borrowed.h>
#include <sluice/operator/elementwise/binary_operator.h>
#include <sluice/operator/elementwise/families.h>
#include <sluice/operator/elementwise/in_place.h>

namespace sluice {

namespace {

NDArray first_of(Arrays&& results) {
  return std::move(results[0]);
}

template <Binary row>
void list(std::vector<const Operator*>& all) {
  all.push_back(&detail::BinaryOperator<row>::op);
  if constexpr (detail::BinaryOperator<row>::fused_a)
    all.push_back(&detail::BinaryBackward<row, 0>::op);
  if constexpr (detail::BinaryOperator<row>::fused_b)
    all.push_back(&detail::BinaryBackward<row, 1>::op);
}

template <Binary row>
void list_loops(std::vector<detail::RowOperator>& all) {
  using Operators = detail::BinaryOperator<row>;
  all.push_back({&Operators::op, Operators::loop_of});
  if constexpr (Operators::fused_a)
    all.push_back({&detail::BinaryBackward<row, 0>::op, detail::BinaryBackward<row, 0>::loop_of});
  if constexpr (Operators::fused_b)
    all.push_back({&detail::BinaryBackward<row, 1>::op, detail::BinaryBackward<row, 1>::loop_of});
}

template <Binary row>
NDArray with_number(const NDArray& array, Scalar number, bool first, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    using Row = math::BinaryRow<row>;
    require<ValueError>(array.defined(), [] { return message(Row::name, ": the operand is an undefined NDArray"); });
    const auto& op = detail::BinaryOperator<row>::op;
    Attributes attributes = Attributes::of(detail::NumberAttribute{number, first, true});
    return first_of(invoke(op, detail::Borrowed<1>({&array}).arrays(), std::move(attributes), site));
  });
}

template <Binary row>
NDArray with_array(const NDArray& a, const NDArray& b, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    using Row = math::BinaryRow<row>;
    require<ValueError>(
        a.defined() && b.defined(), [] { return message(Row::name, ": an operand is an undefined NDArray"); });
    return first_of(invoke(detail::BinaryOperator<row>::op, detail::Borrowed<2>({&a, &b}).arrays(), {}, site));
  });
}

}  // namespace

void detail::list_binary(std::vector<const Operator*>& all) {
#define BINARY(name, ...) list<Binary::name>(all);
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
}

void detail::list_binary_rows(std::vector<RowOperator>& all) {
#define BINARY(name, ...) list_loops<Binary::name>(all);
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
}

const Operator& detail::binary_operator(Binary row) noexcept {
  static constexpr const Operator* k_operators[] = {
#define BINARY(name, ...) &BinaryOperator<Binary::name>::op,
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
  };
  return *k_operators[static_cast<std::size_t>(row)];
}

#define BINARY(name, ...)                                                 \
  NDArray name(const NDArray& a, const NDArray& b, SourceLocation site) { \
    return with_array<Binary::name>(a, b, site);                          \
  }                                                                       \
  NDArray name(const NDArray& a, Scalar b, SourceLocation site) {         \
    return with_number<Binary::name>(a, b, false, site);                  \
  }                                                                       \
  NDArray name(Scalar a, const NDArray& b, SourceLocation site) {         \
    return with_number<Binary::name>(b, a, true, site);                   \
  }
#include <sluice/operator/elementwise/binary.def>
#undef BINARY

}  // namespace sluice
