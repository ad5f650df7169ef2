#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include <sluice/engine/detail/fork_watch.h>

/// A number that a header defines, as text.
#define SLUICE_TEXT(number) SLUICE_TEXT_OF(number)
#define SLUICE_TEXT_OF(number) #number

namespace sluice::detail {

/// A shared library that is loaded when it is first needed and never unloaded: programs that do not need it start
/// without it, hold none of it in memory and do not miss it. One object a library, which is never destroyed.
class SharedLibrary {
 public:
  struct About {
    const char* name;     // as people know it: "cuDNN 9"
    const char* file;     // its soname, of the version that we were compiled against
    const char* install;  // what to install where it is missing
  };
  /// Looks up all that is called of the library, by find(). Called once, by the thread that loads it.
  using Take = void (*)(const SharedLibrary& library);

  SharedLibrary(const About& about, Take take) noexcept : about_(about), take_(take) {}
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  /// Whether the library is there with all that is called of it; the first call finds out. Any thread may ask.
  bool load();
  /// Throws LibraryError, which names `op`, what was tried and what to install, unless load().
  void require(const char* op);
  /// False until load() was called; then whether it gave false.
  bool is_missing() const noexcept { return state_.load(std::memory_order_acquire) == State::missing; }
  /// Why load() gave false, in one line, with what to do about it.
  const std::string& problem() const noexcept { return problem_; }

  /// In `take`: the function of that name. Throws LibraryError if the library has none.
  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address_of(name));
  }
  /// In `take`: the same as code loaded with the library would find it, in the program before it. Null if there is
  /// none.
  template <class Function>
  void find_as_it_does(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(seen_from_inside(name));
  }

 private:
  enum class State : char { unknown, loaded, missing };

  State try_to_load() noexcept;
  void* address_of(const char* name) const;
  void* seen_from_inside(const char* name) const noexcept;

  const About about_;
  const Take take_;
  std::atomic<State> state_{State::unknown};
  std::mutex mutex_;
  const HeldOverForks held_{mutex_};  // a child may need the library as well
  void* handle_ = nullptr;
  std::string problem_;
};

#ifdef SLUICE_ONEDNN
/// For products and convolutions of float32 on a CPU, which run on our own kernels where it is missing.
SharedLibrary& onednn_library();
#endif
#ifdef SLUICE_CUDA
/// For products and convolutions on a GPU.
SharedLibrary& cublas_library();
SharedLibrary& cudnn_library();
#endif

}  // namespace sluice::detail
