#include <sluice/engine/error.h>
#include <sluice/gluon/detail/child_slot.h>

namespace sluice::gluon::detail {

Block& ChildHandle::block() const {
  require(slot_ != nullptr, [] { return "this handle names no child: it is empty or was moved from"; });
  require(slot_->block != nullptr, [&] {
    return message("the block that held the child '", slot_->name, "' is gone, and the child with it");
  });
  return *slot_->block;
}

void ChildHandle::refuse_type(const std::type_info& wanted) const {
  const Block& held = block();
  throw ValueError(message("the child '", name(), "' is a ", type_name(typeid(held)), ", not a ", type_name(wanted)));
}

std::string ChildHandle::name() const {
  require(slot_ != nullptr, [] { return "this handle names no child: it is empty or was moved from"; });
  return slot_->name;
}

NDArray ChildHandle::operator()(const NDArray& x, SourceLocation site) const {
  return block().run_for_one(slot_.get(), {&x, 1}, site);
}
NDArray ChildHandle::operator()(const NDArray& x, const NDArray& y, SourceLocation site) const {
  const NDArray inputs[] = {x, y};
  return block().run_for_one(slot_.get(), inputs, site);
}
Arrays ChildHandle::operator()(std::initializer_list<NDArray> inputs, SourceLocation site) const {
  return call({inputs.begin(), inputs.size()}, site);
}

Arrays ChildHandle::call(std::span<const NDArray> inputs, SourceLocation site) const {
  return block().run(slot_.get(), inputs, site);
}

}  // namespace sluice::gluon::detail
