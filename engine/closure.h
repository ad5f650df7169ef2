#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include <sluice/engine/detail/block_pool.h>
#include <sluice/engine/export.h>
#include <sluice/engine/queue.h>

namespace sluice {

class Coroutine;
namespace detail {
SLUICE_API void adopt_coroutine(Coroutine&& made);
}

/// A move-only task body, called with a Queue or with nothing, which returns void or a Coroutine. Up to 64 bytes live
/// in place, larger ones in a recycled block (beyond 16 KiB on the heap).
class Closure {
 public:
  static constexpr std::size_t k_inline_bytes = 64;

  Closure() = default;
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Closure>) explicit Closure(F&& body) {
    using Body = std::decay_t<F>;
    static_assert(alignof(Body) <= 64, "a task body is aligned to 64 bytes at most");
    static_assert(
        std::invocable<Body&, Queue> || std::invocable<Body&>, "a task body is called as body(Queue) or as body()");
    if constexpr (fits<Body>) {
      ::new (static_cast<void*>(bytes_)) Body(std::forward<F>(body));
      table_ = &inline_table<Body>;
    } else {
      void* block = detail::take_block(sizeof(Body));
      try {
        ::new (block) Body(std::forward<F>(body));
      } catch (...) {
        detail::give_block(block, sizeof(Body));
        throw;
      }
      ::new (static_cast<void*>(bytes_)) void*(block);
      table_ = &block_table<Body>;
    }
  }
  Closure(Closure&& other) noexcept : table_(std::exchange(other.table_, nullptr)) {
    if (table_ != nullptr)
      take_bytes(other);
  }
  Closure& operator=(Closure&& other) noexcept {
    if (this == &other)
      return *this;
    reset();
    table_ = std::exchange(other.table_, nullptr);
    if (table_ != nullptr)
      take_bytes(other);
    return *this;
  }
  ~Closure() { reset(); }

  explicit operator bool() const noexcept { return table_ != nullptr; }
  void operator()(Queue queue) { table_->call(bytes_, queue); }
  void reset() noexcept {
    if (table_ != nullptr && table_->destroy != nullptr)
      table_->destroy(bytes_);
    table_ = nullptr;
  }

 private:
  struct Table {
    void (*call)(void*, Queue);
    void (*move)(void* to, void* from) noexcept;  // null: copying the bytes does it
    void (*destroy)(void*) noexcept;              // null: nothing to do
    bool small;                                   // the first 16 bytes hold it
  };
  void take_bytes(Closure& other) noexcept {
    if (table_->small) {
      std::memcpy(bytes_, other.bytes_, 16);
    } else if (table_->move == nullptr) {
      std::memcpy(bytes_, other.bytes_, k_inline_bytes);
    } else {
      table_->move(bytes_, other.bytes_);
    }
  }
  template <class Body>
  static constexpr bool fits = sizeof(Body) <= k_inline_bytes &&
                               alignof(Body) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<Body>;
  template <class Body>
  static void invoke(Body& body, Queue queue) {
    auto call = [&]() -> decltype(auto) {
      if constexpr (std::invocable<Body&, Queue>) {
        return body(queue);
      } else {
        return body();
      }
    };
    if constexpr (std::same_as<decltype(call()), Coroutine>) {
      detail::adopt_coroutine(call());
    } else {
      call();
    }
  }
  template <class Body>
  static void move_inline(void* to, void* from) noexcept {
    ::new (to) Body(std::move(*static_cast<Body*>(from)));
    static_cast<Body*>(from)->~Body();
  }
  template <class Body>
  static void destroy_inline(void* self) noexcept {
    static_cast<Body*>(self)->~Body();
  }
  template <class Body>
  static constexpr Table inline_table = {
      [](void* self, Queue queue) { invoke(*static_cast<Body*>(self), queue); },
      std::is_trivially_copyable_v<Body> ? nullptr : &move_inline<Body>,
      std::is_trivially_destructible_v<Body> ? nullptr : &destroy_inline<Body>,
      sizeof(Body) <= 16 && std::is_trivially_copyable_v<Body>};
  template <class Body>
  static constexpr Table block_table = {
      [](void* self, Queue queue) { invoke(**static_cast<Body**>(self), queue); },
      nullptr,
      [](void* self) noexcept {
        Body* body = *static_cast<Body**>(self);
        body->~Body();
        detail::give_block(body, sizeof(Body));
      },
      true};

  const Table* table_ = nullptr;
  alignas(std::max_align_t) std::byte bytes_[k_inline_bytes];
};

}  // namespace sluice
