#include <algorithm>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/gluon/parameter.h>

namespace sluice::gluon {

void ParameterDict::insert(std::string name, Parameter parameter) {
  require(!contains(name), [&] { return message("two parameters are called '", name, "'"); });
  parameter.path_ = std::make_shared<const std::string>(name);
  entries_.emplace_back(std::move(name), std::move(parameter));
}

const ParameterDict::Entry* ParameterDict::entry(std::string_view name) const noexcept {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == name; });
  return found == entries_.end() ? nullptr : &*found;
}

bool ParameterDict::contains(std::string_view name) const noexcept {
  return entry(name) != nullptr;
}

std::optional<Parameter> ParameterDict::find(std::string_view name) const {
  const Entry* const found = entry(name);
  return found == nullptr ? std::nullopt : std::optional(found->second);
}

Parameter ParameterDict::operator[](std::string_view name) const {
  const Entry* const found = entry(name);
  require(found != nullptr, [&] { return message("no parameter is called '", name, "'; there are ", names()); });
  return found->second;
}

std::string ParameterDict::names() const {
  std::string joined;
  for (const Entry& entry : entries_)
    joined += (joined.empty() ? "" : ", ") + entry.first;
  return joined.empty() ? "none" : joined;
}

void ParameterDict::setattr(std::string_view name, double value) const {
  require(name == "lr_mult" || name == "wd_mult", [&] {
    return message("setattr: '", name, "' of parameters is no number; \"lr_mult\" and \"wd_mult\" are");
  });
  for (const auto& [path, parameter] : entries_) {
    if (name == "lr_mult")
      parameter.set_lr_mult(value);
    else
      parameter.set_wd_mult(value);
  }
}

void ParameterDict::setattr(std::string_view name, GradReq value) const {
  require(name == "grad_req", [&] {
    return message("setattr: '", name, "' of parameters does not say where gradients go; \"grad_req\" does");
  });
  for (const auto& [path, parameter] : entries_) {
    if (parameter.is_trainable() || value == GradReq::null)
      parameter.set_grad_req(value);
  }
}

void ParameterDict::reset_device(Device device) const {
  for (const auto& [path, parameter] : entries_)
    parameter.to(device);
}

}  // namespace sluice::gluon
