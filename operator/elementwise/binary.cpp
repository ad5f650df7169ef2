// The operators of binary.def and their gradients. Each row has three forms: two arrays, an array and a number, a
// number and an array.
#include <array>
#include <utility>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/borrowed.h>
#include <sluice/operator/elementwise/binary_forms.h>
#include <sluice/operator/elementwise/families.h>
#include <sluice/operator/elementwise/in_place.h>

namespace sluice {

namespace {

NDArray first_of(Arrays&& results) {
  return std::move(results[0]);
}

template <Binary row>
void list(std::vector<const Operator*>& all) {
  all.push_back(&detail::BinaryForms<row>::arrays);
  all.push_back(&detail::BinaryForms<row>::right_scalar);
  all.push_back(&detail::BinaryForms<row>::left_scalar);
  if constexpr (detail::BinaryForms<row>::fused_a)
    all.push_back(&detail::BinaryBackward<row, 0>::op);
  if constexpr (detail::BinaryForms<row>::fused_b)
    all.push_back(&detail::BinaryBackward<row, 1>::op);
}

template <Binary row>
NDArray with_scalar(const Operator& op, const NDArray& array, Scalar scalar, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    using Row = math::BinaryRow<row>;
    require<ValueError>(array.defined(), [] { return message(Row::name, ": the operand is an undefined NDArray"); });
    const Attributes number = Attributes::of(detail::NumberAttribute{scalar});
    return first_of(invoke(op, detail::Borrowed<1>({&array}).arrays(), number, site));
  });
}

template <Binary row>
NDArray with_array(const NDArray& a, const NDArray& b, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    using Row = math::BinaryRow<row>;
    require<ValueError>(
        a.defined() && b.defined(), [] { return message(Row::name, ": an operand is an undefined NDArray"); });
    return first_of(invoke(detail::BinaryForms<row>::arrays, detail::Borrowed<2>({&a, &b}).arrays(), {}, site));
  });
}

}  // namespace

void detail::list_binary(std::vector<const Operator*>& all) {
#define BINARY(name, ...) list<Binary::name>(all);
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
}

detail::InPlace detail::in_place(Binary row) noexcept {
  static constexpr InPlace k_forms[] = {
#define BINARY(name, ...) \
  {&BinaryForms<Binary::name>::arrays, &BinaryForms<Binary::name>::right_scalar, math::BinaryRow<Binary::name>::kind},
#include <sluice/operator/elementwise/binary.def>
#undef BINARY
  };
  return k_forms[static_cast<std::size_t>(row)];
}

#define BINARY(name, ...)                                                                          \
  NDArray name(const NDArray& a, const NDArray& b, SourceLocation site) {                          \
    return with_array<Binary::name>(a, b, site);                                                   \
  }                                                                                                \
  NDArray name(const NDArray& a, Scalar b, SourceLocation site) {                                  \
    return with_scalar<Binary::name>(detail::BinaryForms<Binary::name>::right_scalar, a, b, site); \
  }                                                                                                \
  NDArray name(Scalar a, const NDArray& b, SourceLocation site) {                                  \
    return with_scalar<Binary::name>(detail::BinaryForms<Binary::name>::left_scalar, b, a, site);  \
  }
#include <sluice/operator/elementwise/binary.def>
#undef BINARY

}  // namespace sluice
