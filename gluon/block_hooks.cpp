#include <algorithm>
#include <atomic>
#include <string>

#include <sluice/gluon/detail/block_members.h>
#include <sluice/gluon/detail/layer_watch.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/operator/observer.h>

namespace sluice::gluon {

namespace detail {

namespace {
std::atomic<std::int64_t> registered{0};  // in the process

template <class Hook>
void erase(BlockHooks::List<Hook>& list, std::uint64_t number) {
  std::erase_if(list, [&](const auto& one) { return one.first == number; });
}

template <class Hook>
bool contains(const BlockHooks::List<Hook>& list, std::uint64_t number) {
  return std::any_of(list.begin(), list.end(), [&](const auto& one) { return one.first == number; });
}

/// Tells the hooks of a block, and of those around it, of the operators that its forward calls.
class OperatorWatch final : public CallObserver {
 public:
  OperatorWatch(const BlockHooks& hooks, const BlockHooks::List<BlockHooks::WatchedOperators>& list)
      : hooks_(hooks), list_(list), around_(sluice::detail::observer_here()), scope_(this) {}

  void called(const Operator& op, std::span<const NDArray> inputs, std::span<const NDArray> results) override {
    const std::string path = LayerCall::path(), name = (path.empty() ? "" : path + '.') + op.name;
    for (const auto& [number, watched] : list_) {
      if (watched->inputs)
        tell({number, watched->hook}, name + "_input", op, inputs);
      tell({number, watched->hook}, name + "_output", op, results);
    }
    if (around_ != nullptr)
      around_->called(op, inputs, results);
  }

 private:
  struct Told {
    std::uint64_t number;
    const OpHook& hook;
  };
  // A hook may take itself off, or another one.
  void tell(const Told& told, const std::string& name, const Operator& op, std::span<const NDArray> arrays) const {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (arrays[i].defined() && hooks_.has(told.number))
        told.hook(arrays.size() == 1 ? name : name + std::to_string(i), op.name, arrays[i]);
    }
  }

  const BlockHooks& hooks_;
  const BlockHooks::List<BlockHooks::WatchedOperators>& list_;
  CallObserver* const around_;
  const CallObserverScope scope_;
};
}  // namespace

bool hooks_exist() noexcept {
  return registered.load(std::memory_order_relaxed) != 0;
}

BlockHooks::~BlockHooks() {
  registered.fetch_sub(static_cast<std::int64_t>(lists_->size()), std::memory_order_relaxed);
}

std::shared_ptr<const BlockHooks::Lists> BlockHooks::lists() const {
  const std::lock_guard hold(mutex_);
  return lists_;
}

template <class Hook>
std::uint64_t BlockHooks::add(List<Hook> Lists::*list, Hook hook) {
  const auto made = std::make_shared<const Hook>(std::move(hook));
  std::shared_ptr<const Lists> before;  // dropped without the lock: a hook may hold anything
  const std::lock_guard hold(mutex_);
  auto changed = std::make_shared<Lists>(*lists_);
  ((*changed).*list).emplace_back(++last_, made);
  registered.fetch_add(1, std::memory_order_relaxed);
  before = std::exchange(lists_, std::move(changed));
  return last_;
}

void BlockHooks::remove(std::uint64_t number) noexcept {
  std::shared_ptr<const Lists> before;
  const std::lock_guard hold(mutex_);
  auto changed = std::make_shared<Lists>(*lists_);
  erase(changed->before, number);
  erase(changed->behind, number);
  erase(changed->operators, number);
  registered.fetch_sub(static_cast<std::int64_t>(lists_->size() - changed->size()), std::memory_order_relaxed);
  before = std::exchange(lists_, std::move(changed));
}

bool BlockHooks::has(std::uint64_t number) const noexcept {
  const auto now = lists();
  return contains(now->before, number) || contains(now->behind, number) || contains(now->operators, number);
}

}  // namespace detail

HookHandle::HookHandle(std::weak_ptr<detail::BlockHooks> hooks, std::uint64_t number) noexcept
    : hooks_(std::move(hooks)), number_(number) {}

void HookHandle::detach() noexcept {
  if (const auto hooks = hooks_.lock(); hooks != nullptr)
    hooks->remove(number_);
  hooks_.reset();
}

bool HookHandle::is_attached() const noexcept {
  const auto hooks = hooks_.lock();
  return hooks != nullptr && hooks->has(number_);
}

HookScope::HookScope(HookHandle handle) noexcept : handle_(std::move(handle)) {}
HookScope::~HookScope() {
  handle_.detach();
}

template <class List, class Hook>
HookHandle Block::add_hook(List list, Hook hook) {
  if (members().hooks == nullptr)
    members().hooks = std::make_shared<detail::BlockHooks>();
  const std::uint64_t number = members().hooks->add(list, std::move(hook));
  return {members().hooks, number};
}

HookHandle Block::register_forward_pre_hook(ForwardPreHook hook) {
  require(hook != nullptr, [] { return "register_forward_pre_hook: the hook is empty"; });
  return add_hook(&detail::BlockHooks::Lists::before, std::move(hook));
}
HookHandle Block::register_forward_hook(ForwardHook hook) {
  require(hook != nullptr, [] { return "register_forward_hook: the hook is empty"; });
  return add_hook(&detail::BlockHooks::Lists::behind, std::move(hook));
}
HookHandle Block::register_op_hook(OpHook hook, bool monitor_all) {
  require(hook != nullptr, [] { return "register_op_hook: the hook is empty"; });
  return add_hook(
      &detail::BlockHooks::Lists::operators, detail::BlockHooks::WatchedOperators{std::move(hook), monitor_all});
}

bool Block::is_hooked_inside() const {
  const auto& children = members().children;
  return std::any_of(children.begin(), children.end(), [](const auto& child) {
    const auto& hooks = child->block->members().hooks;
    return (hooks != nullptr && hooks->lists()->size() != 0) || child->block->is_hooked_inside();
  });
}

// What is traced calls no hooks.
const Block* Block::unwatched(const detail::ChildHandle& child, const std::type_info& type) {
  const Block& block = child.block();
  const std::shared_ptr<detail::BlockHooks>& hooks = block.members().hooks;
  const bool is_traced = sluice::detail::calls_are_taken();
  const bool is_watched =
      is_traced ? detail::LayerWatch::current() != nullptr : hooks != nullptr && hooks->lists()->size() != 0;
  if (is_watched || typeid(block) != type)
    return nullptr;
  block.members().note_call();
  return &block;
}

// A graph has no calls of layers: while somebody wants to see those inside, they are made one by one.
Arrays Block::compute_watched(std::span<const NDArray> inputs) const {
  const std::shared_ptr<detail::BlockHooks> hooks = members().hooks;
  const auto lists = hooks == nullptr ? std::make_shared<const detail::BlockHooks::Lists>() : hooks->lists();
  for (const auto& [number, hook] : lists->before) {
    if (hooks->has(number))  // those before it may have taken it off
      (*hook)(*this, inputs);
  }
  Arrays outputs = [&] {
    const bool by_hand = !lists->operators.empty() || sluice::detail::observer_here() != nullptr || is_hooked_inside();
    if (!by_hand)
      return compute_as_asked(inputs);
    if (const std::shared_ptr<detail::Hybrid>& hybrid = members().hybrid; hybrid != nullptr)
      hybrid->note_aside("hooks look at its operators, or at layers inside it");
    if (lists->operators.empty())
      return forward_all(inputs);
    const detail::OperatorWatch watch(*hooks, lists->operators);
    return forward_all(inputs);
  }();
  for (const auto& [number, hook] : lists->behind) {
    if (hooks->has(number))
      (*hook)(*this, inputs, outputs);
  }
  return outputs;
}

}  // namespace sluice::gluon
