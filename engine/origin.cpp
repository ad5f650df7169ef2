#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include <sluice/engine/detail/this_thread.h>
#include <sluice/engine/error.h>
#include <sluice/engine/origin.h>

namespace sluice {

namespace {

// Found by number without a lock: backward asks for each node. Never destroyed: tasks may end after main.
struct Origins {
  static constexpr std::uint32_t k_block = 1024, k_blocks = 1024;
  using Block = std::array<const Origin*, k_block>;
  using Key = std::tuple<std::string, std::string, int>;

  std::mutex mutex;
  std::map<Key, const Origin*> known;
  std::uint32_t count = 0;
  std::array<std::atomic<Block*>, k_blocks> blocks = {};

  // 0, which means none, where there is no more room.
  std::uint32_t next_number() {
    const std::uint32_t number = count + 1;
    if (number >= k_block * k_blocks)
      return 0;
    if (blocks[number / k_block] == nullptr)
      blocks[number / k_block] = new Block{};
    count = number;
    return number;
  }
  static Origins& all() {
    static Origins* const origins = new Origins;
    return *origins;
  }
};

bool same(SourceLocation a, SourceLocation b) noexcept {
  return a.line == b.line && std::strcmp(a.file, b.file) == 0;
}

}  // namespace

const Origin& Origin::of(const std::string& what, SourceLocation called) {
  Origins& origins = Origins::all();
  called.origin = 0;
  const std::lock_guard hold(origins.mutex);
  const auto entry = origins.known.try_emplace({what, called.file, called.line}).first;
  const Origin*& known = entry->second;
  if (known == nullptr) {
    called.file = std::get<1>(entry->first).c_str();
    const std::uint32_t number = origins.next_number();
    known = new Origin(what, called, number);
    if (number != 0)
      (*origins.blocks[number / Origins::k_block].load())[number % Origins::k_block] = known;
  }
  return *known;
}

// Who has the number was told it after the entry was written.
const Origin* Origin::of(SourceLocation site) noexcept {
  if (site.origin == 0)
    return nullptr;
  const Origins::Block* const block = Origins::all().blocks[site.origin / Origins::k_block].load();
  return block == nullptr ? nullptr : (*block)[site.origin % Origins::k_block];
}

const Origin::Place& Origin::place(const char* file) const {
  const Place* first = places_.load(std::memory_order_acquire);
  for (const Place* at = first; at != nullptr; at = at->next) {
    if (at->file == file) [[likely]]
      return *at;
  }
  // Two threads may each make one; either serves.
  auto* const made = new Place{file, number_, first};
  while (!places_.compare_exchange_weak(first, made, std::memory_order_release, std::memory_order_relaxed))
    made->next = first;
  return *made;
}

OriginScope::OriginScope(const Origin* origin) noexcept
    : before_(detail::this_thread().origin), site_{"", 0, origin == nullptr ? 0 : origin->number()}, replaces_(false) {
  detail::this_thread().origin = this;
}

OriginScope::OriginScope(SourceLocation site) noexcept
    : before_(detail::this_thread().origin), site_(site), replaces_(true) {
  detail::this_thread().origin = this;
}

OriginScope::~OriginScope() {
  detail::this_thread().origin = before_;
}

const Origin* OriginScope::current() noexcept {
  const OriginScope* const innermost = detail::this_thread().origin;
  return innermost == nullptr ? nullptr : Origin::of(innermost->site_);
}

SourceLocation OriginScope::stamp(SourceLocation site) const noexcept {
  if (replaces_)
    return site_;
  if (site.origin == 0)
    site.origin = site_.origin;
  return site;
}

SourceLocation OriginScope::stamped(SourceLocation site) noexcept {
  const detail::ThisThread& here = detail::this_thread();
  if (here.origin != nullptr)
    return here.origin->stamp(site);
  if (site.origin == 0)
    site.origin = here.task_origin;
  return site;
}

std::string describe(SourceLocation site) {
  const Origin* const origin = Origin::of(site);
  if (origin == nullptr)
    return message("pushed at ", site.file, ":", site.line);
  std::string text = message(origin->what(), ", called at ", site.file, ":", site.line);
  if (const SourceLocation called = origin->called(); !same(called, site))
    text += message(" inside the call at ", called.file, ":", called.line);
  return text;
}

}  // namespace sluice
