#include <atomic>
#include <cstring>
#include <new>

#include <sluice/engine/detail/block_pool.h>
#include <sluice/engine/task_name.h>

namespace sluice {

namespace detail {

/// Its characters, and a zero, stand behind it.
struct NameText {
  std::atomic<int> names{1};
  std::size_t bytes = 0;  // of all

  char* characters() noexcept { return reinterpret_cast<char*>(this + 1); }
};

void retain(NameText* text) noexcept {
  text->names.fetch_add(1, std::memory_order_relaxed);
}

void release(NameText* text) noexcept {
  if (text->names.fetch_sub(1, std::memory_order_acq_rel) != 1)
    return;
  const std::size_t bytes = text->bytes;
  text->~NameText();
  give_block(text, bytes);
}

}  // namespace detail

TaskName::TaskName(std::string_view text) {
  const std::size_t bytes = sizeof(detail::NameText) + text.size() + 1;
  counted_ = ::new (detail::take_block(bytes)) detail::NameText;
  counted_->bytes = bytes;
  char* const characters = counted_->characters();
  std::memcpy(characters, text.data(), text.size());
  characters[text.size()] = '\0';
  text_ = characters;
}

}  // namespace sluice
