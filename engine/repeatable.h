#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

/// What a task body would enqueue, told in words: see Repeatable.
class Content {
 public:
  explicit Content(std::vector<std::uint64_t>& words) noexcept : words_(words) {}
  void add(std::uint64_t word) { words_.push_back(word); }
  void add(const void* address) { add(reinterpret_cast<std::uintptr_t>(address)); }
  /// The last word is filled up with zeros.
  void add_bytes(const void* bytes, std::size_t count) {
    const std::size_t before = words_.size();
    words_.resize(before + (count + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
    if (count > 0)
      std::memcpy(words_.data() + before, bytes, count);
  }

 private:
  std::vector<std::uint64_t>& words_;
};

/// Bodies that describe themselves promise: of two of one type with the same content, either enqueues what the other
/// would.
template <class Body>
concept DescribesContent = requires(const Body& body, Content& content) {
  body.describe(content);
};

/// The body of a GPU task that does nothing but enqueue kernels, and always the same ones with the same arguments if
/// what `F` holds is the same, byte for byte (of a reference: the address): it reads nothing else that changes. Where
/// such a task is capturable and comes again, in a batch of tasks that come again, the engine launches what was
/// captured before and does not call it.
///
/// It is called each time if it asks its Queue for more than stream(), holds more than 512 bytes, or if something in
/// the batch copies or fills memory. It may be called after the task has finished, though before a wait for the task
/// returns: what it points to on the host must live until then, and an exception that it throws then is thrown by the
/// next wait, its Vars being as if there had been none.
template <class F>
class Repeatable {
  static_assert(std::is_trivially_copyable_v<F>, "a repeatable body holds numbers and addresses only");

 public:
  explicit Repeatable(F body) noexcept : body_(body) {}
  template <class... Queues>
  requires std::invocable<F&, Queues...>
  void operator()(Queues... queue) {
    static_assert(std::is_void_v<std::invoke_result_t<F&, Queues...>>, "a repeatable body returns nothing");
    body_(queue...);
  }
  void describe(Content& content) const {
    if constexpr (!std::is_empty_v<F>) {
      alignas(F) std::byte bytes[sizeof(F)];
      std::memcpy(bytes, &body_, sizeof(F));
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
      __builtin_clear_padding(reinterpret_cast<F*>(bytes));  // gaps hold whatever was there before
#endif
#endif
      content.add_bytes(bytes, sizeof(F));
    }
  }

 private:
  F body_;
};

/// `engine.push(task, repeatable([a, b, n](Queue queue) { ... }))`.
template <class F>
Repeatable<std::decay_t<F>> repeatable(F&& body) {
  return Repeatable<std::decay_t<F>>(std::forward<F>(body));
}

}  // namespace sluice
