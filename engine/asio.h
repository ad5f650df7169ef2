#pragma once

// The engine's door to Boost.Asio, which no other door includes: it costs seconds of compile time.
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <boost/asio/append.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/is_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/system/system_error.hpp>

#include <sluice/engine/engine.h>
#include <sluice/engine/pending_wait.h>

namespace sluice {

namespace detail {

/// An executor that counts as having work for as long as this lives, and that nothing touches once it has not: the
/// context may be destroyed then. (executor_work_guard keeps a copy of the executor beyond the end of the work.)
template <class Executor>
using TrackedExecutor = std::decay_t<decltype(boost::asio::prefer(
    std::declval<const Executor&>(), boost::asio::execution::outstanding_work.tracked))>;

/// A started async_wait: keeps the handler and the work on its executor until the wait ends, then posts the handler.
template <class Handler>
class AsioWait final : public WaitObserver {
  using Allocator =
      typename std::allocator_traits<boost::asio::associated_allocator_t<Handler>>::template rebind_alloc<AsioWait>;
  using Traits = std::allocator_traits<Allocator>;

  /// Lives in the handler's cancellation slot. Harmless after the wait has ended.
  struct Cancel {
    PendingWait wait;
    void operator()(boost::asio::cancellation_type type) const {
      if (type == boost::asio::cancellation_type::none)
        return;
      const boost::system::error_code aborted = boost::asio::error::operation_aborted;
      wait.cancel(std::make_exception_ptr(boost::system::system_error(aborted, "async_wait")));
    }
  };

 public:
  AsioWait(Handler&& handler, Var&& var, AccessMode mode)
      : handler_(std::move(handler)),
        work_(boost::asio::prefer(
            boost::asio::get_associated_executor(handler_), boost::asio::execution::outstanding_work.tracked)),
        var_(std::move(var)),
        wait_(Access{var_.core(), mode}, *this) {}

  static void start(Handler&& handler, Var&& var, AccessMode mode) {
    Allocator allocator(boost::asio::get_associated_allocator(handler));
    auto give_back = [&](AsioWait* memory) { Traits::deallocate(allocator, memory, 1); };
    std::unique_ptr<AsioWait, decltype(give_back)> memory(Traits::allocate(allocator, 1), give_back);
    AsioWait* self = ::new (static_cast<void*>(memory.get())) AsioWait(std::move(handler), std::move(var), mode);
    memory.release();
    // Once started the wait may end, and the handler with its slot be gone, at any moment: the slot comes first.
    const PendingWait wait = self->wait_;
    try {
      auto slot = boost::asio::get_associated_cancellation_slot(self->handler_);
      if (slot.is_connected())
        slot.template emplace<Cancel>(Cancel{wait});
    } catch (...) {
      self->~AsioWait();
      Traits::deallocate(allocator, self, 1);
      throw;
    }
    wait.start();
  }

  void complete(std::exception_ptr error) noexcept override {
    [[maybe_unused]] const auto work = std::move(work_);  // goes last
    Handler handler(std::move(handler_));
    Allocator allocator(boost::asio::get_associated_allocator(handler));
    this->~AsioWait();  // its memory is free for what the handler starts next
    Traits::deallocate(allocator, this, 1);
    boost::asio::post(boost::asio::append(std::move(handler), std::move(error)));
  }

 private:
  Handler handler_;
  TrackedExecutor<boost::asio::associated_executor_t<Handler>> work_;
  Var var_;
  PendingWait wait_;
};

/// What async_initiate calls with the handler: at once, or later for lazy tokens, hence with a Var of its own.
struct StartAsioWait {
  template <class Handler>
  void operator()(Handler&& handler, Var var, AccessMode mode) const {
    std::decay_t<Handler> owned(std::forward<Handler>(handler));
    AsioWait<std::decay_t<Handler>>::start(std::move(owned), std::move(var), mode);
  }
};

}  // namespace detail

/// For EngineOptions::executor: CPU tasks run on `executor`, at most `concurrency` at a time (a strand: one). See
/// ExternalExecutor. The executor's context must outlive the engine's tasks, and keep itself alive where tasks wait for
/// a GPU: then nothing of the engine is posted (boost::asio::make_work_guard).
template <class Executor>
requires(boost::asio::is_executor<Executor>::value || boost::asio::execution::is_executor<Executor>::value)
    ExternalExecutor run_on(const Executor& executor, int concurrency = 1) {
  ExternalExecutor made;
  made.post = [executor](std::function<void()> work) { boost::asio::post(executor, std::move(work)); };
  made.concurrency = concurrency;
  if constexpr (requires { executor.running_in_this_thread(); })
    made.runs_here = [executor] { return executor.running_in_this_thread(); };
  return made;
}

/// As above, for an io_context or a thread_pool.
template <class Context>
requires std::is_convertible_v<Context&, boost::asio::execution_context&> ExternalExecutor
run_on(Context& context, int concurrency = 1) {
  return run_on(context.get_executor(), concurrency);
}

/// Any completion token: a callback, use_future, use_awaitable, deferred, ... The handler is called once, through its
/// associated executor (without one: Asio's system executor), never from inside this call, with null or with what
/// wait() would have thrown. Until then the wait counts as outstanding work of that executor. Memory comes from the
/// handler's associated allocator. A signal of any type in its cancellation slot ends the wait at once with
/// boost::asio::error::operation_aborted; the tasks that were waited for run on. Throws ValueError for an empty Var or
/// one of another engine.
template <class Token>
auto Engine::async_wait(Access access, Token&& token) {
  check_awaited(access);
  detail::retain(access.var);
  return boost::asio::async_initiate<Token, void(std::exception_ptr)>(
      detail::StartAsioWait(), token, Var(access.var), access.mode);
}

/// As above, to read.
template <class Token>
auto Engine::async_wait(const Var& var, Token&& token) {
  return async_wait(read(var), std::forward<Token>(token));
}

}  // namespace sluice
