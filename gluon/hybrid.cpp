#include <algorithm>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/detail/any_batch.h>
#include <sluice/gluon/detail/hybrid.h>
#include <sluice/gluon/detail/hybrid_node.h>
#include <sluice/gluon/detail/network_changes.h>
#include <sluice/gluon/detail/why_by_hand.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/autocast.h>

namespace sluice::gluon::detail {

namespace {

Arrays call_defined(
    const std::shared_ptr<const HybridProgram>& program, std::span<const NDArray> inputs, SourceLocation site) {
  Arrays results = program->forward->run(inputs, site);
  for (std::size_t i = 0; i < program->outputs; ++i) {
    if (!program->passed_on[i] && autograd::on_tape(results[i]))  // an input or a parameter that forward took off it
      results[i] = results[i].detach();
  }
  if (program->backward == nullptr)
    return results;
  const autograd::NodeRef node(new HybridNode(program, inputs, results, site));
  results.resize(program->outputs);
  for (std::size_t i = 0; i < program->heads.size(); ++i) {
    NDArray& head = results[program->heads[i]];
    head = head.detach();  // what the program hands through has a place on the tape already
    autograd::set_entry(head, node, static_cast<int>(i));
  }
  return results;
}

Arrays call(const std::shared_ptr<const HybridProgram>& program, std::span<const NDArray> inputs, SourceLocation site) {
  Arrays results = call_defined(program, inputs, site);
  for (const std::size_t at : program->undefined)
    results.insert(results.begin() + static_cast<std::ptrdiff_t>(at), NDArray());
  return results;
}

bool has_data(std::span<const NDArray> inputs) {
  return std::all_of(inputs.begin(), inputs.end(), [](const NDArray& input) {
    return input.defined() && input.object()->buffer != nullptr;
  });
}

// Whether a call now is recorded: somebody may ask for gradients of what it reads.
bool is_recorded(std::span<const NDArray> inputs, const std::vector<Parameter>& parameters) {
  return autograd::is_recording() &&
         (std::any_of(inputs.begin(), inputs.end(), [](const NDArray& input) { return autograd::on_tape(input); }) ||
          std::any_of(parameters.begin(), parameters.end(), [](const Parameter& parameter) {
            return autograd::on_tape(parameter.data());
          }));
}

// Whether gradients go to an array that the program took for one without, or another block has other parameters now.
bool is_outdated(const HybridProgram& program) {
  const auto has_gradient = [](const NDArray& array) { return autograd::on_tape(array); };
  const auto is_replaced = [](const ParameterRead& read) { return read.is_outdated(); };
  return program.by_hand.empty() &&
         ((autograd::is_recording() && std::any_of(program.captured.begin(), program.captured.end(), has_gradient)) ||
          std::any_of(program.others.begin(), program.others.end(), is_replaced));
}

const void* engine_of(std::span<const NDArray> inputs) noexcept {
  return &sluice::detail::EngineAccess::core(inputs.empty() ? Engine::current() : inputs[0].engine());
}

constexpr auto used_before = [](const auto& a, const auto& b) { return a->used.load() < b->used.load(); };

}  // namespace

bool Hybrid::Signature::operator==(const Signature& other) const {
  const auto same = [](const ArraySpec& a, const ArraySpec& b) {
    return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
  };
  return is_like(other) && std::equal(inputs.begin(), inputs.end(), other.inputs.begin(), other.inputs.end(), same);
}

bool Hybrid::Signature::is_like(const Signature& other) const {
  return recorded == other.recorded && recording == other.recording && training == other.training &&
         precision == other.precision && autocast == other.autocast && engine == other.engine &&
         wanted == other.wanted && parameters == other.parameters && inputs.size() == other.inputs.size();
}

bool Hybrid::stands_for(const Signature& made, std::span<const NDArray> inputs, const Table& table, bool recorded) {
  if (made.recorded != recorded || made.recording != autograd::is_recording() ||
      made.training != autograd::is_training() || made.precision != sluice::detail::current_float32_precision() ||
      made.autocast != amp::autocast_dtype() || made.engine != engine_of(inputs) || made.inputs.size() != inputs.size())
    return false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const sluice::detail::ArrayObject& given = *inputs[i].object();
    const ArraySpec& spec = made.inputs[i];
    if (given.shape != spec.shape || given.dtype != spec.dtype || given.device != spec.device ||
        made.wanted[i] != (recorded && autograd::on_tape(inputs[i])))
      return false;
  }
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    const auto* const object = table.parameters[i].data().object();
    if (made.parameters[2 * i] != object || made.parameters[2 * i + 1] != object->variable.get())
      return false;
  }
  return true;
}

Hybrid::Signature Hybrid::signature_of(std::span<const NDArray> inputs, const Table& table, bool recorded) {
  Signature signature{
      .recorded = recorded,
      .recording = autograd::is_recording(),
      .training = autograd::is_training(),
      .precision = sluice::detail::current_float32_precision(),
      .autocast = amp::autocast_dtype(),
      .engine = engine_of(inputs)};
  for (const NDArray& input : inputs) {
    signature.inputs.push_back(spec_of(input));
    signature.wanted.push_back(recorded && autograd::on_tape(input));
  }
  for (const Parameter& parameter : table.parameters) {
    const auto* const object = parameter.data().object();
    signature.parameters.push_back(object);
    signature.parameters.push_back(object->variable.get());
  }
  return signature;
}

// What the network was before a change no program stands for any more. `changes`: when the call began, so that networks
// that others build meanwhile do not hold it up.
Hybrid::Lookup Hybrid::look_up(const Reading& table, std::span<const NDArray> inputs, std::uint64_t changes) {
  if (!table || table->changes < changes)
    return {Found::no_table};
  for (const Parameter& parameter : table->parameters) {
    if (!parameter.is_initialized())
      return {Found::no_shapes};
  }
  const bool recorded = is_recorded(inputs, table->parameters);
  for (const auto& known : table->known) {
    if (stands_for(known->signature, inputs, *table, recorded) && !is_outdated(*known->program))
      return {Found::program, known.get()};
  }
  return {Found::none};
}

// A program that stands for batches of other sizes, if this is one.
std::shared_ptr<const TracedForward> Hybrid::find_like(const Table& table, const Signature& signature) {
  for (const auto& known : table.known) {
    const std::shared_ptr<const TracedForward>& traced = known->program->traced;
    if (traced != nullptr && known->signature.is_like(signature) &&
        is_other_batch(known->signature.inputs, signature.inputs, traced->batched) && !is_outdated(*known->program))
      return traced;
  }
  return nullptr;
}

// As long as all call one program nobody writes anything.
void Hybrid::note_use(const Known& known) {
  if (used_last_.load(std::memory_order_relaxed) == &known)
    return;
  aside_.store(nullptr, std::memory_order_relaxed);
  used_last_.store(&known, std::memory_order_relaxed);
  known.used.store(1 + uses_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
}

void Hybrid::note_aside(const char* why) noexcept {
  aside_.store(why, std::memory_order_relaxed);
  used_last_.store(nullptr, std::memory_order_relaxed);  // so that the next use is noted
}

bool Hybrid::Table::is_of(std::uint64_t called, const std::vector<Parameter>& own) const {
  return of_called == called &&
         std::equal(parameters.begin(), parameters.end(), own.begin(), own.end(), [](const auto& a, const auto& b) {
           return a.same(b);
         });
}

// Programs stay where nothing changed that can be part of them.
void Hybrid::list_parameters(const List& list) {
  std::vector<std::unique_ptr<const Table>> gone;  // dropped without the lock, as elsewhere
  const std::lock_guard hold(mutex_);
  const std::uint64_t now = network_changes(), called = changes_of_called();
  const Table* const before = table_.latest();
  if (before != nullptr && before->changes == now)
    return;
  auto made = std::make_unique<Table>();
  made->changes = now;
  made->of_called = called;
  for (const auto& [name, parameter] : list())
    made->parameters.push_back(parameter);
  if (before != nullptr && before->is_of(called, made->parameters))
    made->known = before->known;
  gone = table_.publish(std::move(made));
}

// Of several threads that made the same the first one's stays; returns what is to be run.
std::shared_ptr<const HybridProgram> Hybrid::keep(
    Signature signature,
    std::shared_ptr<const HybridProgram> program,
    std::uint64_t of_called,
    const std::vector<Parameter>& parameters) {
  std::vector<std::unique_ptr<const Table>> gone;
  const std::lock_guard hold(mutex_);
  const Table& now = *table_.latest();
  if (!now.is_of(of_called, parameters))  // nobody will ask for it
    return program;
  for (const auto& known : now.known) {
    if (known->signature == signature && !is_outdated(*known->program))
      return known->program;
  }
  auto made = std::make_unique<Table>(now);
  std::erase_if(made->known, [&](const auto& known) { return known->signature == signature; });
  while (made->known.size() >= std::max<std::size_t>(most_plans_, 1))
    made->known.erase(std::min_element(made->known.begin(), made->known.end(), used_before));
  made->known.push_back(std::make_shared<Known>(std::move(signature), program, 1 + uses_.fetch_add(1)));
  used_last_ = made->known.back().get();
  gone = table_.publish(std::move(made));
  return program;
}

Arrays Hybrid::run_new(std::span<const NDArray> inputs, const Forward& forward, SourceLocation site) {
  std::vector<Parameter> parameters;
  Signature signature;
  std::uint64_t of_called = 0;
  std::shared_ptr<const TracedForward> like;
  {
    const Reading table(table_);
    parameters = table->parameters;
    of_called = table->of_called;
    signature = signature_of(inputs, *table, is_recorded(inputs, parameters));
    like = find_like(*table, signature);
  }
  std::shared_ptr<const HybridProgram> made;
  if (like != nullptr)
    made = make_program_like(*like, parameters, options_, inputs);
  if (made == nullptr) {
    made = make_program(forward, parameters, options_, inputs, signature.wanted, signature.recorded);
    traced_.fetch_add(1, std::memory_order_relaxed);
  }
  const auto program = keep(std::move(signature), std::move(made), of_called, parameters);
  aside_.store(nullptr, std::memory_order_relaxed);
  return program->by_hand.empty() ? call(program, inputs, site) : forward(inputs);
}

Arrays Hybrid::run(std::span<const NDArray> inputs, const Forward& forward, const List& list, SourceLocation site) {
  if (!has_data(inputs)) {
    note_aside("an input is undefined, or has no values");
    return forward(inputs);
  }
  const std::uint64_t changes = network_changes();
  for (;;) {
    Found what = {};
    {
      const Reading table(table_);
      const Lookup found = look_up(table, inputs, changes);
      if (found.what == Found::program) [[likely]] {
        note_use(*found.known);
        const std::shared_ptr<const HybridProgram>& program = found.known->program;
        return program->by_hand.empty() ? call(program, inputs, site) : forward(inputs);
      }
      what = found.what;
    }
    if (what == Found::no_shapes) {
      note_aside("a parameter had no values yet, whose shape the first call says");
      return forward(inputs);
    }
    if (what == Found::none)
      return run_new(inputs, forward, site);
    list_parameters(list);
  }
}

void Hybrid::make_room(std::size_t plans) {
  const std::lock_guard hold(mutex_);
  most_plans_ = std::max(most_plans_, options_.most_plans + plans);
}

std::size_t Hybrid::traced() const {
  return traced_.load(std::memory_order_relaxed);
}

std::string Hybrid::reason() const {
  const std::string by_hand = "by hand: ";
  if (const char* const why = aside_.load(std::memory_order_relaxed); why != nullptr)
    return by_hand + why;
  const std::shared_ptr<const HybridProgram> program = last();
  if (program == nullptr)
    return "";
  if (!program->by_hand.empty())
    return by_hand + program->by_hand;
  std::string text;
  for (const graph::Plan* const plan : {program->forward.get(), program->backward.get()}) {
    const std::string cut = plan == nullptr ? "" : why_cut(*plan);
    if (cut.empty())
      continue;
    text += message(text.empty() ? "" : "\n", plan == program->backward.get() ? "gradients: " : "forward: ", cut);
  }
  return text;
}

std::shared_ptr<const HybridProgram> Hybrid::last() const {
  const Reading table(table_);
  if (!table || table->known.empty())
    return nullptr;
  return (*std::max_element(table->known.begin(), table->known.end(), used_before))->program;
}

}  // namespace sluice::gluon::detail
