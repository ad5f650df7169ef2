#include <atomic>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/engine.h>
#include <sluice/storage/foreign.h>
#include <sluice/storage/snapshot.h>
#include <sluice/storage/storage.h>

namespace sluice {

namespace detail {
namespace {

/// What could not go back when it was due, for lack of memory for a task. Whoever takes foreign memory over later tries
/// again; the engine ends when its GPUs have passed everything.
class Overdue {
 public:
  explicit Overdue(Engine& inside) noexcept : engine(inside) {}
  ~Overdue();
  void keep(ForeignPool* pool) noexcept;
  void try_again() noexcept;

  Engine& engine;  // which lives as long as this

 private:
  std::atomic<ForeignPool*> first_{nullptr};
};

}  // namespace

class ForeignPool final : public Pool, public WorkBehind {
 public:
  ForeignPool(Engine& engine, const ForeignMemory& memory) : memory_(memory), overdue_(engine.extension<Overdue>()) {
    overdue_.try_again();
  }

  Chunk acquire(std::size_t bytes, WorkPlace work, ChunkUse use) override {
    if (taken_.exchange(true, std::memory_order_relaxed))
      return ordinary().acquire(bytes, work, use);
    users_.fetch_add(1, std::memory_order_relaxed);
    return {
        .data = memory_.data,
        .bytes = memory_.bytes,
        .requested = memory_.bytes,
        .device = memory_.device,
        .kind = memory_.kind,
        .pool = this};
  }
  void release(Chunk&& chunk) noexcept override {
    pending_ = std::move(chunk.pending);
    chunk.pool = nullptr;
    drop();
  }
  std::size_t trim() override { return ordinary().trim(); }
  MemoryStats stats() const override { return ordinary().stats(); }
  void reset_peaks() override { ordinary().reset_peaks(); }
  void share(Device peer) override { ordinary().share(peer); }
  void set_limit(std::size_t bytes) override { ordinary().set_limit(bytes); }
  std::string_view name() const noexcept override { return "foreign"; }
  MemorySnapshot snapshot() const override { return ordinary().snapshot(); }
  void record_history(std::size_t events) override { ordinary().record_history(events); }

  void drop() noexcept {
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1 && !give_back_behind())
      overdue_.keep(this);
  }
  bool give_back_behind() noexcept { return EngineAccess::run_behind(overdue_.engine, pending_, *this); }
  void run() noexcept override {
    const ForeignMemory memory = memory_;
    delete this;
    if (memory.give_back != nullptr)
      memory.give_back(memory.context);
  }

  ForeignPool* next = nullptr;  // of those overdue

 private:
  Pool& ordinary() const { return Storage::of(overdue_.engine).pool(memory_.device); }

  const ForeignMemory memory_;
  Overdue& overdue_;
  PositionSet pending_;
  std::atomic<bool> taken_{false};
  std::atomic<int> users_{1};  // the loan, and the chunk
};

namespace {

Overdue::~Overdue() {
  for (ForeignPool* pool = first_.exchange(nullptr); pool != nullptr;)
    std::exchange(pool, pool->next)->run();
}

void Overdue::keep(ForeignPool* pool) noexcept {
  pool->next = first_.load(std::memory_order_relaxed);
  while (!first_.compare_exchange_weak(pool->next, pool, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void Overdue::try_again() noexcept {
  if (first_.load(std::memory_order_relaxed) == nullptr)
    return;
  for (ForeignPool* pool = first_.exchange(nullptr, std::memory_order_acquire); pool != nullptr;) {
    ForeignPool* const due = std::exchange(pool, pool->next);
    if (!due->give_back_behind())
      keep(due);
  }
}

}  // namespace
}  // namespace detail

ForeignLoan::ForeignLoan(Engine& engine, const ForeignMemory& memory)
    : pool_(new detail::ForeignPool(engine, memory)) {}

ForeignLoan::~ForeignLoan() {
  pool_->drop();
}

Pool& ForeignLoan::pool() const noexcept {
  return *pool_;
}

}  // namespace sluice
