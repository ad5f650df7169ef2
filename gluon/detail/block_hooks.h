#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <sluice/engine/detail/fork_watch.h>
#include <sluice/gluon/hook.h>

namespace sluice::gluon::detail {

/// Whether any block of the process has a hook: where none has, calls look no further.
bool hooks_exist() noexcept;

/// The hooks of one block. Any thread: calls take the lists as they are and run them without a lock.
class BlockHooks {
 public:
  /// Shared: a hook that has a state of its own keeps it when others come and go.
  template <class Hook>
  using List = std::vector<std::pair<std::uint64_t, std::shared_ptr<const Hook>>>;
  struct WatchedOperators {
    OpHook hook;
    bool inputs;  // are told too
  };
  struct Lists {
    List<ForwardPreHook> before = {};
    List<ForwardHook> behind = {};
    List<WatchedOperators> operators = {};

    std::size_t size() const noexcept { return before.size() + behind.size() + operators.size(); }
  };

  BlockHooks() = default;
  BlockHooks(const BlockHooks&) = delete;
  BlockHooks& operator=(const BlockHooks&) = delete;
  ~BlockHooks();

  std::shared_ptr<const Lists> lists() const;
  /// The number by which it is found.
  template <class Hook>
  std::uint64_t add(List<Hook> Lists::*list, Hook hook);
  void remove(std::uint64_t number) noexcept;
  bool has(std::uint64_t number) const noexcept;

 private:
  mutable std::mutex mutex_;
  const sluice::detail::HeldOverForks held_{mutex_};
  std::shared_ptr<const Lists> lists_ = std::make_shared<Lists>();
  std::uint64_t last_ = 0;
};

}  // namespace sluice::gluon::detail
