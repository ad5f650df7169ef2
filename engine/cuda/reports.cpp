#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/portable_memory.h>
#include <sluice/engine/cuda/reports.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/fault_code.h>

namespace sluice::detail {

using cuda::cuda_check;

namespace {

std::atomic_ref<int> code_of(ErrorWord& word) noexcept {
  return std::atomic_ref<int>(word.code);
}

/// The first of some kept words, or one of a task alone, where something is reported; null if nothing is.
Reports::Word* reported_in(Reports::Word& words) noexcept {
  for (Reports::Word* word = &words; word != nullptr; word = word->next) {
    if (code_of(*word->word).load(std::memory_order_acquire) != 0)
      return word;
  }
  return nullptr;
}

/// Null where there is no memory.
std::shared_ptr<FailureRecord> record_of(const Reports::Asker& asker, const Reports::Word& reported) {
  if (!reported.of_region)
    return new_record(asker.name, asker.site, asker.push_number);
  try {
    const std::string name = message(reported.task.c_str(), "\" of region \"", asker.name);
    return new_record(name.c_str(), reported.site, asker.push_number);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

FailureRef failure_of(const Reports::Asker& asker, Device device, const Reports::Word& reported) {
  const ErrorWord& word = *reported.word;
  try {
    if (const auto code = static_cast<FaultCode>(word.code); code != FaultCode::index)
      throw ValueError(message("a kernel on ", device, " found that ", matrix_fault(code, word.value, word.bound)));
    throw IndexError(message(
        "a kernel on ",
        device,
        " met index ",
        word.value,
        " outside [0, ",
        word.bound,
        "); what it wrote for that element is 0"));
  } catch (...) {
    return capture_failure(record_of(asker, reported));
  }
}

}  // namespace

Reports::~Reports() {
  for (void* chunk : chunks_)
    cuda::free_portable(chunk);
}

const LateFailures& Reports::core_late() const noexcept {
  return core_.late();
}

// -- Words --

void Reports::grow() {
  void* memory = nullptr;
  chunks_.reserve(chunks_.size() + 1);
  free_.reserve(words_.size() + k_chunk);
  constexpr std::size_t bytes = sizeof(ErrorWord) * k_chunk;
  cuda_check(cuda::allocate_portable(&memory, bytes), "cudaHostAlloc");
  chunks_.push_back(memory);
  auto* const made = ::new (memory) ErrorWord[k_chunk];
  for (std::size_t i = 0; i < k_chunk; ++i)
    free_.push_back(&words_.emplace_back(Word{.word = made + i}));
}

void Reports::make_first() {
  const std::lock_guard hold(mutex_);
  if (chunks_.empty())
    grow();
}

Reports::Word& Reports::take() {
  if (free_.empty())
    grow();
  Word& word = *free_.back();
  free_.pop_back();
  return word;
}

void Reports::release(Word& word) noexcept {
  if (word.askers > 0 || word.kept)
    return;
  for (Word* each = &word; each != nullptr;) {
    Word* const next = each->next;
    *each->word = ErrorWord();
    *each = Word{.word = each->word};
    free_.push_back(each);
    each = next;
  }
}

void Reports::note(Asker&& asker, Word& word) {
  asked_.push_back({std::move(asker), &word, issued_begin_ + issued_.size()});
  ++word.askers;
  any_.store(true, std::memory_order_release);
  judge_crowd();
}

ErrorWord* Reports::word_for(Asker asker) {
  const std::lock_guard hold(mutex_);
  for (auto asked = asked_.rbegin(); asked != asked_.rend(); ++asked) {
    const Position there = asked->who.at;
    if (there.stream() != asker.at.stream() || there.sequence() > asker.at.sequence())
      continue;
    if (there.sequence() < asker.at.sequence())
      break;
    if (asked->word->of_region)
      continue;
    asked->who = std::move(asker);  // a body that enqueued nothing may have left the place to another task
    return asked->word->word;
  }
  if (asked_.size() == asked_.capacity())
    asked_.reserve(2 * asked_.size() + 16);
  Word& word = take();
  note(std::move(asker), word);
  return word.word;
}

ErrorWord* Reports::keep(Word*& words, const TaskName& task, SourceLocation site) {
  const std::lock_guard hold(mutex_);
  Word& word = take();
  word.kept = word.of_region = true;
  word.task = task;
  word.site = site;
  Word** last = &words;
  while (*last != nullptr)
    last = &(*last)->next;
  *last = &word;
  return word.word;
}

void Reports::use(Word& words, Asker asker) {
  const std::lock_guard hold(mutex_);
  note(std::move(asker), words);
}

void Reports::hand_over(Word& words) noexcept {
  const std::lock_guard hold(mutex_);
  for (Word* word = &words; word != nullptr; word = word->next)
    word->handed_over = true;
}

void Reports::give_back(Word& words) noexcept {
  const std::lock_guard hold(mutex_);
  for (Word* word = &words; word != nullptr; word = word->next)
    word->kept = false;
  release(words);
}

bool Reports::take_report(Word& words) noexcept {
  bool any = false;
  for (Word* word = reported_in(words); word != nullptr; word = reported_in(words)) {
    *word->word = ErrorWord();
    any = true;
  }
  return any;
}

// -- Tasks that come after --

// One lock for both questions: either the publisher finds the task noted, or the task finds what was published.
void Reports::follow(const TaskNode& task, Position at, FailureRef& failure) noexcept {
  if (failure != nullptr || task.on_failed_input == OnFailedInput::run)
    return;
  try {
    LateFailures::Uses uses = core_.late().uses_of(task);
    const std::lock_guard hold(mutex_);
    failure = core_.late().of_inputs(uses);
    if (failure != nullptr || asked_.empty())
      return;
    issued_.push_back({at, std::move(uses)});
    judge_crowd();
  } catch (...) {
    failure = capture_failure(core_.record_of(&task));
  }
}

void Reports::forget_log() noexcept {
  const std::uint64_t end = asked_.empty() ? issued_begin_ + issued_.size() : asked_.front().logged_before;
  for (; issued_begin_ < end; ++issued_begin_)
    issued_.pop_front();
}

void Reports::judge_crowd() noexcept {
  crowded_.store(asked_.size() + issued_.size() > crowd_, std::memory_order_relaxed);
}

// Nobody waits for long, and so nobody learns how far the GPU is. The latest that may be passed is asked first.
void Reports::relieve() noexcept {
  constexpr std::size_t k_parts = 4;
  std::array<Position, k_parts> places;
  {
    const std::lock_guard hold(mutex_);
    for (std::size_t i = 0; i < k_parts && !asked_.empty(); ++i)
      places[i] = asked_[asked_.size() * (k_parts - 1 - i) / k_parts].who.at;
  }
  for (const Position place : places) {
    if (!place || passes(place))
      break;
  }
  const std::lock_guard hold(mutex_);
  crowd_ = asked_.size() + issued_.size() + k_crowd;
  judge_crowd();
}

bool Reports::passes(Position place) noexcept {
  LogicalStream& stream = table_.of(place);
  try {
    return stream.launched() >= place.sequence() && stream.query(place.sequence());
  } catch (...) {  // a wait will say it
    return false;
  }
}

// -- What was reported --

void Reports::publish(Asked& asked, const Word& reported) noexcept {
  const Asker& who = asked.who;
  LateFailures& late = core_.late();
  LogicalStream& stream = table_.of(who.at);
  asked.published = true;
  try {
    if (late.of_task(who.at) != nullptr)  // it has failed already
      return;
    core_.fail_late(who.at, failure_of(who, stream.device(), reported), true, who.uses);
    for (std::size_t i = asked.logged_before - issued_begin_; i < issued_.size(); ++i) {
      Issued& task = issued_[i];
      const FailureRef failure = task.failed || late.of_task(task.at) ? nullptr : late.of_inputs(task.uses);
      if (failure == nullptr)
        continue;
      task.failed = true;
      late.add(task.at, failure, true, task.uses);
    }
  } catch (...) {  // where nobody can be told, nothing of the device is to be believed
    stream.gpu().loss.declare(no_memory_failure());
  }
}

// All launches under way have been told of.
void Reports::clear_kept() noexcept {
  for (Word& word : words_) {
    if (word.kept && !word.handed_over && code_of(*word.word).load(std::memory_order_acquire) != 0)
      *word.word = ErrorWord();
  }
}

// Whether a place is passed is asked before its word is read: then the word has its last value.
void Reports::look(const LogicalStream& passed, std::uint64_t sequence) noexcept {
  const std::lock_guard hold(mutex_);
  bool again = false;
  for (Asked& asked : asked_) {
    const Position at = asked.who.at;
    asked.over = table_.of(at).done() >= at.sequence() || (at.stream() == passed.number() && at.sequence() <= sequence);
    if (asked.published || asked.word->handed_over)
      continue;
    const Word* const reported = reported_in(*asked.word);
    if (reported == nullptr)
      continue;
    publish(asked, *reported);
    again |= asked.word->kept;
  }
  if (again)
    clear_kept();
  std::erase_if(asked_, [this](const Asked& asked) {
    if (!asked.over)
      return false;
    if (--asked.word->askers == 0 && asked.word->kept && !asked.word->handed_over)
      take_report(*asked.word);  // what came after all launches had been told of is no later one's
    release(*asked.word);
    return true;
  });
  forget_log();
  if (asked_.empty())
    crowd_ = k_crowd;
  judge_crowd();
  any_.store(!asked_.empty(), std::memory_order_release);
}

}  // namespace sluice::detail
