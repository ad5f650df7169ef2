#include <dlfcn.h>

#include <sluice/engine/error.h>
#include <sluice/operator/library/shared_library.h>

namespace sluice::detail {

bool SharedLibrary::load() {
  State state = state_.load(std::memory_order_acquire);
  if (state == State::unknown) [[unlikely]] {
    const std::lock_guard hold(mutex_);
    state = state_.load(std::memory_order_relaxed);
    if (state == State::unknown) {
      state = try_to_load();
      state_.store(state, std::memory_order_release);
    }
  }
  return state == State::loaded;
}

void SharedLibrary::require(const char* op) {
  if (!load()) [[unlikely]]
    throw LibraryError(message(op, ": ", problem_));
}

// The loader looks in LD_LIBRARY_PATH, then where the run path of the object that this code is part of says, then in
// the system's folders. Local, so that no other library's symbols are bound to this one's.
SharedLibrary::State SharedLibrary::try_to_load() noexcept {
  std::string reason;
  try {
    handle_ = ::dlopen(about_.file, RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) {
      const char* said = ::dlerror();
      throw LibraryError(said != nullptr ? said : "the loader does not say why");
    }
    take_(*this);
    return State::loaded;
  } catch (const std::exception& error) {
    reason = error.what();
  }
  problem_ = message(
      about_.name,
      " is needed and could not be loaded as ",
      about_.file,
      " (",
      reason,
      "). Install ",
      about_.install,
      ", or name the folder that has it in LD_LIBRARY_PATH before the program starts");
  return State::missing;
}

void* SharedLibrary::address_of(const char* name) const {
  void* const found = ::dlsym(handle_, name);
  if (found == nullptr)
    throw LibraryError(message("it has no function ", name));
  return found;
}

void* SharedLibrary::seen_from_inside(const char* name) const noexcept {
  void* const found = ::dlsym(RTLD_DEFAULT, name);
  return found != nullptr ? found : ::dlsym(handle_, name);
}

}  // namespace sluice::detail
