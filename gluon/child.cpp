#include <cstdlib>
#include <cxxabi.h>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/child_slot.h>

namespace sluice::gluon::detail {

std::string type_name(const std::type_info& type) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), &std::free);
  std::string name = text == nullptr ? type.name() : text.get();
  name.erase(std::min(name.find('<'), name.size()));  // arguments of a template may hold colons
  const std::size_t space = name.rfind("::");
  return space == std::string::npos ? name : name.substr(space + 2);
}

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

NDArray ChildHandle::operator()(const NDArray& x) const {
  return block()(x);
}
NDArray ChildHandle::operator()(const NDArray& x, const NDArray& y) const {
  return block()(x, y);
}
Arrays ChildHandle::operator()(std::initializer_list<NDArray> inputs) const {
  return block()(inputs);
}

}  // namespace sluice::gluon::detail
