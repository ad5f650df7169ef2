#include <atomic>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/deposits.h>
#include <sluice/ndarray/detail/leaf_node.h>

namespace sluice::detail {
namespace {

/// Nobody else sees the gradient, nor through a view or a detached copy what it replaces, and it looks as the array
/// that is to hold it: its buffer can change owner.
bool can_move(const ArrayObject& gradient, const ArrayObject& held) noexcept {
  return !calls_are_taken() && gradient.buffer != nullptr && held.buffer != nullptr &&
         gradient.references.load(std::memory_order_acquire) == 1 && gradient.buffer->use_count() == 1 &&
         held.buffer->use_count() == 1 && gradient.buffer != held.buffer && covers_buffer(gradient) &&
         covers_buffer(held) && is_contiguous(gradient) && gradient.dtype == held.dtype &&
         gradient.device == held.device;
}

std::atomic<std::uint64_t> deposits{0};

}  // namespace

std::uint64_t last_deposit(const NDArray& variable) noexcept {
  const auto* const leaf =
      variable.defined() ? dynamic_cast<const LeafNode*>(variable.object()->entry.node.get()) : nullptr;
  return leaf != nullptr ? leaf->last_deposit() : 0;
}

void LeafNode::deposit(NDArray gradient, bool keep_graph) {
  const std::shared_ptr<autograd::Variable> variable = known_.lock();
  if (variable == nullptr)
    return;  // the array is gone: nobody can ask for its gradient
  last_deposit_ = deposits.fetch_add(1, std::memory_order_relaxed) + 1;
  put(*variable, std::move(gradient), keep_graph);
  variable_ = autograd::on_tape(variable->grad) ? nullptr : variable;
}

void LeafNode::put(autograd::Variable& variable, NDArray gradient, bool keep_graph) {
  require<UnsupportedError>(!keep_graph || gradient.object()->buffer != nullptr, [] {
    return "backward: with create_graph an array without memory would become a variable's gradient; ask grad() for it";
  });
  if (variable.req == GradReq::add) {
    if (keep_graph) {
      variable.grad = add_gradients(variable.grad, gradient);
    } else {
      accumulate_gradient(variable.grad, gradient);
    }
    return;
  }
  if (keep_graph) {
    variable.grad = std::move(gradient);
    return;
  }
  ArrayObject& from = *gradient.object();
  ArrayObject& held = *variable.grad.object();
  if (can_move(from, held)) {
    std::swap(from.buffer, held.buffer);
    std::swap(from.offset, held.offset);
  } else {
    copy_into(gradient, variable.grad);
  }
}

}  // namespace sluice::detail
