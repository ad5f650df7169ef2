#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include <sluice/engine/queue.h>

namespace sluice {

/// A move-only task body of signature void(Queue) or void(). Up to 64 bytes live in place, larger ones on the heap.
class Closure {
 public:
  static constexpr std::size_t k_inline_bytes = 64;

  Closure() = default;
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, Closure>) explicit Closure(F&& body) {
    using Body = std::decay_t<F>;
    static_assert(
        std::invocable<Body&, Queue> || std::invocable<Body&>, "a task body is called as body(Queue) or as body()");
    if constexpr (fits<Body>) {
      ::new (static_cast<void*>(bytes_)) Body(std::forward<F>(body));
      table_ = &inline_table<Body>;
    } else {
      ::new (static_cast<void*>(bytes_)) Body*(new Body(std::forward<F>(body)));
      table_ = &heap_table<Body>;
    }
  }
  Closure(Closure&& other) noexcept : table_(std::exchange(other.table_, nullptr)) {
    if (table_ != nullptr)
      table_->move(bytes_, other.bytes_);
  }
  Closure& operator=(Closure&& other) noexcept {
    if (this == &other)
      return *this;
    reset();
    table_ = std::exchange(other.table_, nullptr);
    if (table_ != nullptr)
      table_->move(bytes_, other.bytes_);
    return *this;
  }
  ~Closure() { reset(); }

  explicit operator bool() const noexcept { return table_ != nullptr; }
  void operator()(Queue queue) { table_->call(bytes_, queue); }
  void reset() noexcept {
    if (table_ != nullptr)
      std::exchange(table_, nullptr)->destroy(bytes_);
  }

 private:
  struct Table {
    void (*call)(void*, Queue);
    void (*move)(void* to, void* from) noexcept;
    void (*destroy)(void*) noexcept;
  };
  template <class Body>
  static constexpr bool fits = sizeof(Body) <= k_inline_bytes &&
                               alignof(Body) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<Body>;
  template <class Body>
  static void invoke(Body& body, Queue queue) {
    if constexpr (std::invocable<Body&, Queue>) {
      body(queue);
    } else {
      body();
    }
  }
  template <class Body>
  static constexpr Table inline_table = {
      [](void* self, Queue queue) { invoke(*static_cast<Body*>(self), queue); },
      [](void* to, void* from) noexcept {
        ::new (to) Body(std::move(*static_cast<Body*>(from)));
        static_cast<Body*>(from)->~Body();
      },
      [](void* self) noexcept { static_cast<Body*>(self)->~Body(); }};
  template <class Body>
  static constexpr Table heap_table = {
      [](void* self, Queue queue) { invoke(**static_cast<Body**>(self), queue); },
      [](void* to, void* from) noexcept { ::new (to) Body*(*static_cast<Body**>(from)); },
      [](void* self) noexcept { delete *static_cast<Body**>(self); }};

  const Table* table_ = nullptr;
  alignas(std::max_align_t) std::byte bytes_[k_inline_bytes];
};

}  // namespace sluice
