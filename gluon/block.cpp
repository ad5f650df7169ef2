#include <algorithm>
#include <atomic>
#include <deque>
#include <regex>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/block_members.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/detail/layer_watch.h>
#include <sluice/gluon/detail/network_changes.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/located.h>

namespace sluice::gluon {

namespace detail {

namespace {
std::atomic<std::uint64_t> changes{0}, of_called{0};
}  // namespace

std::uint64_t network_changes() noexcept {
  return changes.load(std::memory_order_acquire);
}
std::uint64_t changes_of_called() noexcept {
  return of_called.load(std::memory_order_acquire);
}
void note_network_change(bool was_called) noexcept {
  if (was_called)
    of_called.fetch_add(1, std::memory_order_release);
  changes.fetch_add(1, std::memory_order_release);
}

namespace {
// At the end of what changes a network: who reads the count before lists the network as it was, and then again.
struct NotesChange {
  explicit NotesChange(bool called) noexcept : was_called(called) {}
  NotesChange(const NotesChange&) = delete;
  NotesChange& operator=(const NotesChange&) = delete;
  ~NotesChange() { note_network_change(was_called); }

  const bool was_called;
};
}  // namespace

}  // namespace detail

Block::Block() : members_(std::make_unique<Members>()) {}
Block::Block(Block&&) noexcept = default;
Block::~Block() = default;

Block::Members& Block::members() const {
  require(members_ != nullptr, [&] {
    return message(
        "this block, of type ", detail::type_name(typeid(*this)), ", was moved from; use the one that it went to");
  });
  return *members_;
}

Parameter& Block::parameter(const std::string& name, ParameterOptions options) {
  const detail::NotesChange change(members().called);
  members().check_new(name);
  return members().parameters.emplace_back(name, std::move(options));
}

void Block::check_new(const std::string& name) const {
  members().check_new(name);
}

bool Block::holds(const Block& other) const {
  if (this == &other)
    return true;
  const auto& children = members().children;
  return std::any_of(children.begin(), children.end(), [&](const auto& child) { return child->block->holds(other); });
}

void Block::check_child(const std::string& name, const Block* block) const {
  require(block != nullptr, [&] { return message("child '", name, "' is null"); });
  require(!block->holds(*this), [&] {
    return message(
        "child '", name, "' of a ", detail::type_name(typeid(*this)), ": it is that very block, or holds it inside");
  });
}

void Block::check_adoptable(const Block& block, const std::type_info& as) const {
  const std::type_info& type = typeid(block);
  require(type == as, [&] {
    return message(
        "a ",
        detail::type_name(type),
        " cannot be moved in as a ",
        detail::type_name(as),
        ", which would cut it off; make it with std::make_shared and give that");
  });
  check_child("to be", &block);
}

std::shared_ptr<detail::ChildSlot> Block::add_child(const std::string& name, std::shared_ptr<Block> block) {
  const detail::NotesChange change(members().called);
  members().check_new(name);
  check_child(name, block.get());
  return members().children.emplace_back(
      std::shared_ptr<detail::ChildSlot>(new detail::ChildSlot{name, std::move(block)}));
}

void Block::check_replaceable(
    std::string_view name, const Block& block, const std::type_info& as, SourceLocation site) const {
  detail::called("replace", site, [&] {
    child_named(name, site);
    check_adoptable(block, as);
  });
}

std::shared_ptr<Block> Block::replace(std::string_view name, std::shared_ptr<Block> block, SourceLocation site) {
  const detail::NotesChange change(true);
  return detail::called("replace", site, [&] {
    const Child<> child = child_named(name, site);
    check_child(child.name(), block.get());
    child.slot_->paths.clear();
    return std::exchange(child.slot_->block, std::move(block));
  });
}

NDArray Block::operator()(const NDArray& x, SourceLocation site) const {
  return run_for_one(nullptr, {&x, 1}, site);
}
NDArray Block::operator()(const NDArray& x, const NDArray& y, SourceLocation site) const {
  const NDArray inputs[] = {x, y};
  return run_for_one(nullptr, inputs, site);
}
Arrays Block::operator()(std::initializer_list<NDArray> inputs, SourceLocation site) const {
  return run(nullptr, {inputs.begin(), inputs.size()}, site);
}
Arrays Block::call(std::span<const NDArray> inputs, SourceLocation site) const {
  return run(nullptr, inputs, site);
}

// `slot` says where the block stands; null if it is called by itself. `one`: a single output is wanted.
Arrays Block::compute(std::span<const NDArray> inputs) const {
  if (detail::LayerWatch* const watch = detail::LayerWatch::current();
      watch != nullptr && sluice::detail::calls_are_taken()) [[unlikely]]
    return watch->watched(*this, detail::LayerCall::path(), [&] { return forward_all(inputs); });
  if (detail::hooks_exist() && !sluice::detail::calls_are_taken()) [[unlikely]]
    return compute_watched(inputs);
  return compute_as_asked(inputs);
}

Arrays Block::run(detail::ChildSlot* slot, std::span<const NDArray> inputs, SourceLocation site, bool one) const {
  detail::LayerPaths& paths = slot == nullptr ? members().paths : slot->paths;
  const detail::LayerCall call(paths, slot == nullptr ? nullptr : slot->name.c_str(), typeid(*this), site);
  try {
    members().note_call();
    require(inputs.size() != 1 || inputs[0].defined(), [&] {
      return message(detail::type_name(typeid(*this)), ": was called with an undefined NDArray");
    });
    return [&] {  // what a function returns from the middle of a try block it would move
      Arrays outputs = compute(inputs);
      require(!one || outputs.size() == 1, [&] {
        return message(
            detail::type_name(typeid(*this)),
            ": gives ",
            outputs.size(),
            " arrays; call it with a list: block({x, y})");
      });
      return outputs;
    }();
  } catch (Error& error) {
    error.locate("in " + describe(call_site()));
    throw;
  }
}

NDArray Block::call_child(std::size_t index, const NDArray& x) const {
  detail::ChildSlot& slot = *members().children.at(index);
  return slot.block->run_for_one(&slot, {&x, 1}, call_site());
}

SourceLocation Block::call_site() noexcept {
  return detail::LayerCall::site();
}

NDArray Block::run_for_one(detail::ChildSlot* slot, std::span<const NDArray> inputs, SourceLocation site) const {
  return std::move(run(slot, inputs, site, true)[0]);
}

void Block::require_inputs(std::span<const NDArray> inputs, std::size_t wanted) const {
  require(inputs.size() == wanted, [&] {
    return message(detail::type_name(typeid(*this)), ": takes ", wanted, " array(s), was called with ", inputs.size());
  });
}

NDArray Block::forward(const NDArray&) const {
  throw UnsupportedError(message(detail::type_name(typeid(*this)), ": does not say what it computes (no forward)"));
}

Arrays Block::forward_all(std::span<const NDArray> inputs) const {
  require_inputs(inputs, 1);
  return {forward(inputs[0])};
}

void Block::initialize(const init::Initializer& init, Device device, bool force_reinit, SourceLocation site) {
  for (const auto& [path, parameter] : collect_params())
    parameter.initialize_as(path, init, device, force_reinit, site);
}

void Block::initialize(const init::Load& init, Device device, bool force_reinit, SourceLocation site) {
  const ParameterDict parameters = collect_params();
  const auto is_asked = [&](const Parameter& one) { return force_reinit || !one.is_initialized(); };
  for (const auto& [path, parameter] : parameters) {
    if (is_asked(parameter))
      init.check(path, parameter.shape(), parameter.has_initializer());
  }
  for (const auto& [path, parameter] : parameters) {
    if (!is_asked(parameter))
      continue;
    const NDArray value = init.find(path);
    if (!value.defined()) {
      parameter.initialize_as(path, init.fallback(), device, force_reinit, site);
      continue;
    }
    parameter.set_data(value.to(device));
    parameter.to(device);  // it may have had a place
  }
}

void Block::initialize(const init::Mixed& init, Device device, bool force_reinit, SourceLocation site) {
  const ParameterDict parameters = collect_params();
  const auto initializer_of = [&](const std::string& path, const Parameter& parameter) {
    const bool has_its_own = parameter.has_initializer() || (parameter.is_initialized() && !force_reinit);
    return has_its_own ? init::Initializer() : init.of(path);
  };
  for (const auto& [path, parameter] : parameters)
    initializer_of(path, parameter);
  for (const auto& [path, parameter] : parameters)
    parameter.initialize_as(path, initializer_of(path, parameter), device, force_reinit, site);
}

void Block::collect(const std::string& prefix, ParameterDict& into) const {
  for (const Parameter& parameter : members().parameters)
    into.insert(prefix + parameter.name(), parameter);
  for (const auto& child : members().children)
    child->block->collect(prefix + child->name + ".", into);
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

Parameter Block::own_parameter(std::string_view name, SourceLocation site) const {
  return sluice::detail::located(site, [&] {
    for (const Parameter& parameter : members().parameters) {
      if (parameter.name() == name)
        return parameter;
    }
    throw ValueError(message("the block has no parameter '", name, "' of its own"));
  });
}

std::size_t Block::num_children() const noexcept {
  return members_ == nullptr ? 0 : members_->children.size();
}

Child<> Block::child_at(std::size_t index, SourceLocation site) const {
  return sluice::detail::located(site, [&] {
    const auto& children = members().children;
    require<IndexError>(index < children.size(), [&] {
      return message(
          "the ",
          detail::type_name(typeid(*this)),
          " has no child ",
          index,
          "; it has ",
          children.size(),
          " from 0 on");
    });
    return Child<>(children[index]);
  });
}

Child<> Block::child_named(std::string_view name, SourceLocation site) const {
  return sluice::detail::located(site, [&] {
    std::string names;
    for (const auto& child : members().children) {
      if (child->name == name)
        return Child<>(child);
      names += (names.empty() ? "" : ", ") + child->name;
    }
    throw ValueError(message("the block has no child '", name, "'; there are ", names.empty() ? "none" : names));
  });
}

void Block::apply(const std::function<void(Block&)>& visit) {
  for (const auto& child : members().children)
    child->block->apply(visit);
  visit(*this);
}

void Block::setattr(std::string_view name, double value) {
  collect_params().setattr(name, value);
}
void Block::setattr(std::string_view name, GradReq value) {
  collect_params().setattr(name, value);
}

void Block::cast(DType dtype) {
  for (const Parameter& parameter : members().parameters)
    parameter.cast(dtype);
  for (const auto& child : members().children)
    child->block->cast(dtype);
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
  const detail::NotesChange change(true);
  std::size_t replaced = 0;
  const std::function<void(Block&, const std::string&, bool)> walk =
      [&](Block& block, const std::string& prefix, bool replace) {
        for (Parameter& parameter : block.members().parameters) {
          const std::optional<Parameter> other = shared.find(prefix + parameter.name());
          if (!other)
            continue;
          if (replace) {
            parameter = *other;
            parameter.path_.reset();
          } else {
            parameter.check_shared(*other);
          }
          ++replaced;
        }
        for (const auto& child : block.members().children)
          walk(*child->block, prefix + child->name + ".", replace);
      };
  walk(*this, "", false);
  require(replaced > 0, [&] {
    return message(
        "share_parameters: no common name; this block has ", collect_params().names(), ", the other ", shared.names());
  });
  walk(*this, "", true);
}

}  // namespace sluice::gluon
