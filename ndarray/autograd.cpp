// The modes of a thread, and the tape's own objects: nodes, entries, variables, saved arrays.
#include <optional>
#include <utility>

#include <sluice/engine/detail/static_tls.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/abstract_version.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/autocast_here.h>
#include <sluice/ndarray/detail/leaf_node.h>
#include <sluice/ndarray/detail/located.h>

constinit thread_local const sluice::detail::AutocastState* sluice::detail::t_autocast
    [[gnu::tls_model("initial-exec")]] = nullptr;

namespace sluice::autograd {
namespace {

SLUICE_STATIC_TLS constinit thread_local bool recording = false;
SLUICE_STATIC_TLS constinit thread_local bool training = false;

SLUICE_STATIC_TLS constinit thread_local std::uint32_t section = 0;
std::atomic<std::uint32_t> sections{0};
std::atomic<std::uint64_t> hooks_added{0};

// Nodes whose last reference is gone. The outermost release drops them one by one: a chain of any length is
// dropped without recursion.
SLUICE_STATIC_TLS constinit thread_local bool is_dropping = false;
SLUICE_STATIC_TLS constinit thread_local Node* dying = nullptr;

}  // namespace

bool is_recording() noexcept {
  return recording;
}
bool is_training() noexcept {
  return training;
}

ModeScope::ModeScope(bool record, bool train) noexcept : recording_before_(recording), training_before_(training) {
  recording = record;
  training = train;
}
ModeScope::~ModeScope() {
  recording = recording_before_;
  training = training_before_;
}

TapeSection::TapeSection() noexcept : before_(section) {
  do {  // 0 is none's
    number_ = sections.fetch_add(1, std::memory_order_relaxed) + 1;
  } while (number_ == 0);
  section = number_;
}
TapeSection::~TapeSection() {
  section = before_;
}
std::uint32_t TapeSection::here() noexcept {
  return section;
}

Node::~Node() = default;

std::uint64_t add_hook(const NDArray& array, GradientHook hook, SourceLocation site) {
  detail::located(site, [&] {
    const detail::ArrayObject& object = detail::object_of(array, "add_hook");
    require<AutogradError>(static_cast<bool>(object.entry.node), [&] {
      return message("add_hook: an array of shape ", object.shape, " is neither a variable nor computed from one");
    });
    require<ValueError>(static_cast<bool>(hook), [] { return "add_hook: the hook is empty"; });
  });
  const detail::ArrayObject& object = *array.object();
  detail::note_hook();
  auto& hooks = object.entry.node->hooks;
  if (hooks == nullptr)
    hooks = std::make_unique<std::vector<Node::Hook>>();
  const std::uint64_t number = hooks_added.fetch_add(1, std::memory_order_relaxed) + 1;
  hooks->push_back({number, object.entry.index, std::move(hook)});
  return number;
}

bool remove_hook(const NDArray& array, std::uint64_t number) {
  const detail::ArrayObject& object = detail::object_of(array, "remove_hook");
  if (!object.entry.node || object.entry.node->hooks == nullptr)
    return false;
  return std::erase_if(*object.entry.node->hooks, [&](const Node::Hook& hook) { return hook.number == number; }) != 0;
}

NodeRef NodeRef::share(Node* node) noexcept {
  if (node != nullptr)
    node->references_.fetch_add(1, std::memory_order_relaxed);
  return NodeRef(node);
}

NodeRef::NodeRef(const NodeRef& other) noexcept : NodeRef(share(other.node_)) {}

void NodeRef::drop() noexcept {
  if (node_->references_.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  node_->next_dying_ = std::exchange(dying, node_);
  if (is_dropping)
    return;
  is_dropping = true;
  while (dying != nullptr)
    delete std::exchange(dying, dying->next_dying_);
  is_dropping = false;
}

namespace {
std::optional<std::uint64_t> version_of(const NDArray& array) noexcept {
  const detail::Buffer* const buffer = array.object()->buffer;
  return buffer != nullptr ? std::optional(buffer->version()) : detail::abstract_version(array);
}
}  // namespace

Saved::Saved(const NDArray& array) : array_(array.detach()), version_(version_of(array_).value_or(0)) {}

const NDArray& Saved::get(const char* op) const {
  require<AutogradError>(array_.defined(), [&] {
    return message(op, ": what forward kept was released by an earlier backward; ask for retain_graph");
  });
  const std::uint64_t now = version_of(array_).value_or(version_);
  require<AutogradError>(now == version_, [&] {
    return message(
        op,
        ": an array of shape ",
        array_.shape(),
        " that backward needs was written after forward (version ",
        now,
        ", kept at ",
        version_,
        ")");
  });
  return array_;
}

bool on_tape(const NDArray& array) noexcept {
  return array.defined() && static_cast<bool>(array.object()->entry.node);
}

void set_entry(const NDArray& array, NodeRef node, int index) {
  detail::object_of(array, "set_entry").entry = {std::move(node), index};
}

Entry entry_of(const NDArray& array) noexcept {
  return array.defined() ? array.object()->entry : Entry{};
}

}  // namespace sluice::autograd

namespace sluice {

void NDArray::attach_grad(GradReq req, SourceLocation site) {
  detail::located(site, [&] {
    const DType dtype = detail::object_of(*this, "attach_grad").dtype;
    require<DTypeError>(is_floating(dtype) || req == GradReq::null, [&] {
      return message("attach_grad: an array of ", dtype, " has no gradient; make it a floating one");
    });
  });
  detail::ArrayObject& object = *object_;
  auto variable = std::make_shared<autograd::Variable>();
  variable->req = req;
  autograd::Entry entry;
  if (req != GradReq::null) {
    variable->grad = zeros_like(*this, site);
    entry.node = autograd::NodeRef(new detail::LeafNode(object, variable));
  }
  object.entry = std::move(entry);
  object.variable = std::move(variable);
}

NDArray NDArray::grad() const {
  const detail::ArrayObject& object = detail::object_of(*this, "grad");
  return object.variable != nullptr ? object.variable->grad : NDArray();
}

void NDArray::zero_grad() const {
  const NDArray held = grad();
  if (held.defined())
    fill(held, 0);
}

bool NDArray::requires_grad() const noexcept {
  return defined() && object()->variable != nullptr && object()->variable->req != GradReq::null;
}

void NDArray::backward(SourceLocation site) const {
  autograd::backward({this, 1}, {}, {}, site);
}

void NDArray::backward(const NDArray& head, const BackwardOptions& options, SourceLocation site) const {
  autograd::backward({this, 1}, {&head, 1}, options, site);
}

}  // namespace sluice
