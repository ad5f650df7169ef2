#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/operator/operator.h>

namespace sluice::gluon {

class Block;
template <class B>
class Child;

namespace detail {
struct ChildSlot;

/// What a Child is apart from the type of its block.
class SLUICE_API ChildHandle {
 public:
  ChildHandle() = default;

  /// The name inside the block that holds it ("0", "body"). Throws ValueError for an empty handle.
  std::string name() const;

  /// Runs the child: see Block. Throws ValueError if the handle is empty or the block that held the child is gone.
  NDArray operator()(const NDArray& x, SourceLocation site = SourceLocation::current()) const;
  NDArray operator()(const NDArray& x, const NDArray& y, SourceLocation site = SourceLocation::current()) const;
  Arrays operator()(std::initializer_list<NDArray> inputs, SourceLocation site = SourceLocation::current()) const;
  Arrays call(std::span<const NDArray> inputs, SourceLocation site = SourceLocation::current()) const;

 protected:
  explicit ChildHandle(std::shared_ptr<ChildSlot> slot) noexcept : slot_(std::move(slot)) {}
  Block& block() const;
  [[noreturn]] void refuse_type(const std::type_info& wanted) const;

 private:
  friend class sluice::gluon::Block;
  template <class B>
  friend class sluice::gluon::Child;
  std::shared_ptr<ChildSlot> slot_;
};
}  // namespace detail

/// A child of a block: what `net[2]` and `child("body", ...)` give. It names the place, not the layer that stands
/// there: after replace() it means the new one. Copies name the same place. Once the block that held the child is gone,
/// every use throws ValueError. `B` is the type through which it is seen, Block for any.
template <class B = Block>
class Child : public detail::ChildHandle {
 public:
  Child() = default;
  Child(const Child&) = default;
  Child(Child&&) = default;
  /// On a variable only: `net[2] = net[1]` would rebind a temporary; replace() puts another block there.
  Child& operator=(const Child&) & = default;
  Child& operator=(Child&&) & = default;
  /// Any child may be seen as a Block.
  template <std::derived_from<B> Derived>
  Child(const Child<Derived>& other) noexcept : ChildHandle(other) {}  // NOLINT: converts by design

  /// The block that stands there now. Throws ValueError if it is no B, as after replace() by another type, or gone.
  B& operator*() const {
    Block& any = block();
    if constexpr (std::same_as<B, Block>) {
      return any;
    } else {
      if (B* const typed = dynamic_cast<B*>(&any))
        return *typed;
      refuse_type(typeid(B));
    }
  }
  B* operator->() const { return &**this; }

  /// The same child seen as an Other: `(*net[0].as<nn::Sequential>())[1]`. Throws ValueError if it is none.
  template <std::derived_from<B> Other>
  Child<Other> as() const {
    Child<Other> seen(slot_);
    *seen;
    return seen;
  }

 private:
  friend class Block;
  template <class Other>
  friend class Child;
  explicit Child(std::shared_ptr<detail::ChildSlot> slot) noexcept : ChildHandle(std::move(slot)) {}
};

}  // namespace sluice::gluon
