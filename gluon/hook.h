#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include <sluice/engine/export.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon {

class Block;

/// What is called before a block's forward, with the block and what it is given (Gluon's register_forward_pre_hook).
using ForwardPreHook = std::function<void(const Block& block, std::span<const NDArray> inputs)>;
/// What is called behind it, with what it gave too (Gluon's register_forward_hook).
using ForwardHook =
    std::function<void(const Block& block, std::span<const NDArray> inputs, std::span<const NDArray> outputs)>;
/// What is called behind each operator of a block's forward: with the name of an array, that of the operator, and the
/// array (Gluon's register_op_hook). "0.body.dense_output" is what the operator `dense` gave in the layer 0.body of the
/// network that was called; where it gives several the name ends in a number: "topk_output1". Calls of one operator in
/// one layer have the same name.
using OpHook = std::function<void(std::string_view name, std::string_view op, const NDArray& array)>;

namespace detail {
class BlockHooks;
}

/// Where a hook is registered (Gluon's HookHandle). Copies mean the same hook, which stays when they go. Any thread.
class SLUICE_API HookHandle {
 public:
  HookHandle() = default;

  /// Takes the hook off its block; nothing where it is off, or the block gone. A hook may do so itself, and to others:
  /// a call of this thread does not come to them any more. One that has begun on another thread may.
  void detach() noexcept;
  bool is_attached() const noexcept;

 private:
  friend class Block;
  HookHandle(std::weak_ptr<detail::BlockHooks> hooks, std::uint64_t number) noexcept;

  std::weak_ptr<detail::BlockHooks> hooks_;
  std::uint64_t number_ = 0;
};

/// Detaches its hook at the end of a scope, as `with net.register_forward_hook(..):` does.
class SLUICE_API HookScope {
 public:
  explicit HookScope(HookHandle handle) noexcept;
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
  ~HookScope();

 private:
  HookHandle handle_;
};

}  // namespace sluice::gluon
