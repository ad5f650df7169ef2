#include <deque>
#include <regex>

#include <sluice/engine/error.h>
#include <sluice/gluon/block.h>

namespace sluice::gluon {

struct Block::Members {
  std::deque<Parameter> parameters;  // a deque: growing moves nothing
  std::vector<std::pair<std::string, std::shared_ptr<Block>>> children;

  void check_new(const std::string& name) const {
    require(!name.empty() && name.find('.') == std::string::npos, [&] {
      return message("'", name, "' cannot name a parameter or a child: it is empty or contains a dot");
    });
    bool taken = false;
    for (const Parameter& parameter : parameters)
      taken |= parameter.name() == name;
    for (const auto& child : children)
      taken |= child.first == name;
    require(!taken, [&] { return message("the block has a parameter or a child '", name, "' already"); });
  }
};

Block::Block() : members_(std::make_unique<Members>()) {}
Block::Block(Block&&) noexcept = default;
Block& Block::operator=(Block&&) noexcept = default;
Block::~Block() = default;

Block::Members& Block::members() const {
  require(members_ != nullptr, [] { return "this block was moved from"; });
  return *members_;
}

Parameter& Block::parameter(const std::string& name, ParameterOptions options) {
  members().check_new(name);
  return members().parameters.emplace_back(name, std::move(options));
}

Block& Block::child(const std::string& name, std::shared_ptr<Block> block) {
  members().check_new(name);
  require(block != nullptr, [&] { return message("child '", name, "' is null"); });
  return *members().children.emplace_back(name, std::move(block)).second;
}

void Block::initialize(const init::Initializer& init, Device device, bool force_reinit) {
  for (const auto& [name, parameter] : collect_params())
    parameter.initialize(init, device, force_reinit);
}

void Block::collect(const std::string& prefix, ParameterDict& into) const {
  for (const Parameter& parameter : members().parameters)
    into.insert(prefix + parameter.name(), parameter);
  for (const auto& [name, block] : members().children)
    block->collect(prefix + name + ".", into);
}

ParameterDict Block::collect_params(std::string_view select) const {
  ParameterDict all;
  collect("", all);
  if (select.empty())
    return all;
  try {
    const std::regex pattern(select.begin(), select.end());
    ParameterDict selected;
    for (const auto& [name, parameter] : all) {
      if (std::regex_search(name, pattern))
        selected.insert(name, parameter);
    }
    return selected;
  } catch (const std::regex_error& error) {
    throw ValueError(message("collect_params: '", select, "' is not a regular expression: ", error.what()));
  }
}

const Parameter& Block::own_parameter(std::string_view name) const {
  for (const Parameter& parameter : members().parameters) {
    if (parameter.name() == name)
      return parameter;
  }
  throw ValueError(message("the block has no parameter '", name, "' of its own"));
}

std::size_t Block::num_children() const noexcept {
  return members_ == nullptr ? 0 : members_->children.size();
}

Block& Block::child_at(std::size_t index) const {
  require<IndexError>(index < num_children(), [&] {
    return message("child_at(", index, "): the block has ", num_children(), " children");
  });
  return *members().children[index].second;
}

Block& Block::child_named(std::string_view name) const {
  for (const auto& [held, block] : members().children) {
    if (held == name)
      return *block;
  }
  throw ValueError(message("the block has no child '", name, "'"));
}

void Block::apply(const std::function<void(Block&)>& visit) {
  for (const auto& [name, block] : members().children)
    block->apply(visit);
  visit(*this);
}

void Block::cast(DType dtype) {
  for (const Parameter& parameter : members().parameters)
    parameter.cast(dtype);
  for (const auto& [name, block] : members().children)
    block->cast(dtype);
}

void Block::to(Device device) {
  for (const auto& [name, parameter] : collect_params())
    parameter.to(device);
}

void Block::zero_grad() {
  for (const auto& [name, parameter] : collect_params())
    parameter.zero_grad();
}

void Block::share_parameters(const ParameterDict& shared) {
  std::size_t replaced = 0;
  const std::function<void(Block&, const std::string&, bool)> walk =
      [&](Block& block, const std::string& prefix, bool replace) {
        for (Parameter& parameter : block.members().parameters) {
          const Parameter* other = shared.find(prefix + parameter.name());
          if (other == nullptr)
            continue;
          if (replace) {
            parameter = *other;
          } else {
            parameter.check_shared(*other);
          }
          ++replaced;
        }
        for (const auto& [name, child] : block.members().children)
          walk(*child, prefix + name + ".", replace);
      };
  walk(*this, "", false);
  require(replaced > 0, [&] {
    return message(
        "share_parameters: no common name; this block has ", collect_params().names(), ", the other ", shared.names());
  });
  walk(*this, "", true);
}

}  // namespace sluice::gluon
