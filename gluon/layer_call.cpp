#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <sluice/engine/detail/fork_watch.h>
#include <sluice/engine/detail/this_thread.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/detail/layer_call.h>

namespace sluice::gluon::detail {

namespace {

thread_local constinit const LayerCall* innermost = nullptr;

const LayerPath* intern(const std::string& path, const Origin& origin) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::pair<std::string, const Origin*>, LayerPath>;  // outlives everything
  static auto* const held = new sluice::detail::HeldOverForks(mutex);
  (void)held;
  const std::lock_guard hold(mutex);
  return &known->try_emplace({path, &origin}, LayerPath{path, &origin}).first->second;
}

// By their texts: a file's may stand where that of another stood.
bool same(SourceLocation a, SourceLocation b) noexcept {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

const LayerPath* make_path(const char* name, const std::type_info& type, const LayerPath* parent, SourceLocation site) {
  const std::string kind = type_name(type), above = parent == nullptr ? "" : parent->path;
  const SourceLocation called = parent == nullptr ? site : parent->origin->called();
  if (name == nullptr)
    return intern(above, Origin::of(parent == nullptr ? kind : kind + " in " + parent->origin->what(), called));
  const std::string path = above.empty() ? name : above + "." + name;
  return intern(path, Origin::of("layer " + path + " (" + kind + ")", called));
}

}  // namespace

std::string type_name(const std::type_info& type) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), &std::free);
  std::string name = text == nullptr ? type.name() : text.get();
  if (const std::size_t arguments = name.find('<'); arguments != std::string::npos)
    name.erase(arguments);
  const std::size_t last = name.rfind("::");
  return last == std::string::npos ? name : name.substr(last + 2);
}

const LayerPath& LayerPaths::find(
    const char* name, const std::type_info& type, const LayerPath* parent, SourceLocation site) {
  Known* first = known_.load(std::memory_order_acquire);
  for (const Known* at = first; at != nullptr; at = at->next) {
    if (at->parent == parent && (parent != nullptr || same(at->path->origin->called(), site))) [[likely]]
      return *at->path;
  }
  // Two threads may each add one; either serves.
  auto* const made = new Known{parent, make_path(name, type, parent, site), first};
  while (!known_.compare_exchange_weak(first, made, std::memory_order_release, std::memory_order_relaxed))
    made->next = first;
  return *made->path;
}

void LayerPaths::clear() noexcept {
  for (Known* at = known_.exchange(nullptr); at != nullptr;)
    delete std::exchange(at, at->next);
}

// Serial engines and waiting workers run bodies on top of a call: those are no part of it.
const LayerCall* LayerCall::current() noexcept {
  const sluice::detail::Work& work = sluice::detail::this_thread();
  const bool same = innermost != nullptr && innermost->core_ == work.core && innermost->task_ == work.task;
  return same ? innermost : nullptr;
}

LayerCall::LayerCall(LayerPaths& paths, const char* name, const std::type_info& type, SourceLocation site)
    : before_(innermost),
      core_(sluice::detail::this_thread().core),
      task_(sluice::detail::this_thread().task),
      path_(paths.find(name, type, current() == nullptr ? nullptr : &before_->path_, site)),
      site_{current() == nullptr ? path_.origin->called().file : site.file, site.line, path_.origin->number()},
      scope_(path_.origin) {
  innermost = this;
}

LayerCall::~LayerCall() {
  innermost = before_;
}

SourceLocation LayerCall::site() noexcept {
  const LayerCall* const call = current();
  return call == nullptr ? SourceLocation::current() : call->site_;
}

std::string LayerCall::path() {
  const LayerCall* const call = current();
  return call == nullptr ? "" : call->path_.path;
}

}  // namespace sluice::gluon::detail
