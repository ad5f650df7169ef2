#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <sluice/engine/export.h>

namespace sluice {

namespace detail {
/// A copied text, counted by the names that hold it.
struct NameText;
SLUICE_API void retain(NameText* text) noexcept;
SLUICE_API void release(NameText* text) noexcept;
}  // namespace detail

/// A task's name. A string literal is kept as a pointer, at no cost; a pointer that the compiler does not know at
/// compile time is refused. A std::string is copied, and the copy is freed once no task, trace or error needs it; of
/// tasks on a GPU, whose streams tell of them later, once the engine is gone: there each text is kept once.
class SLUICE_API TaskName {
 public:
  constexpr TaskName() noexcept = default;
  consteval TaskName(const char* literal) noexcept : text_(literal) {}  // NOLINT: by design
  /// Copies the text. Throws std::bad_alloc.
  TaskName(const std::string& text) : TaskName(std::string_view(text)) {}  // NOLINT: by design
  explicit TaskName(std::string_view text);
  /// Keeps a pointer that is no literal: what it points to must last as long as the process, as where one of two
  /// literals is chosen.
  static TaskName lasting(const char* text) noexcept {
    TaskName name;
    name.text_ = text;
    return name;
  }
  constexpr TaskName(const TaskName& other) noexcept : text_(other.text_), counted_(other.counted_) {
    if (counted_ != nullptr)
      detail::retain(counted_);
  }
  constexpr TaskName(TaskName&& other) noexcept
      : text_(other.text_), counted_(std::exchange(other.counted_, nullptr)) {}
  constexpr TaskName& operator=(TaskName other) noexcept {
    std::swap(text_, other.text_);
    std::swap(counted_, other.counted_);
    return *this;
  }
  constexpr ~TaskName() {
    if (counted_ != nullptr)
      detail::release(counted_);
  }

  /// Valid as long as this name, or a copy of it.
  constexpr const char* c_str() const noexcept { return text_; }
  /// True for a copied text.
  constexpr bool counted() const noexcept { return counted_ != nullptr; }

 private:
  const char* text_ = "task";
  detail::NameText* counted_ = nullptr;  // whose text `text_` is, if it is counted
};

}  // namespace sluice
