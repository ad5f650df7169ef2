#include <algorithm>
#include <atomic>
#include <memory>
#include <unordered_map>

#include <sluice/operator/elementwise/elements.h>
#include <sluice/operator/elementwise/row_loops.h>
#include <sluice/operator/fused/detail/schedule.h>
#include <sluice/operator/sink.h>
#include <sluice/operator/view/attributes.h>

namespace sluice::fused {

namespace {

using sluice::detail::RowInputs;
using sluice::detail::RowLoop;
using sluice::detail::RowOperator;

using LoopOf = RowLoop (*)(const RowInputs& call);

LoopOf loop_of(const Operator& op) {
  static const auto* const known = [] {
    std::vector<RowOperator> rows;
    sluice::detail::list_unary_rows(rows);
    sluice::detail::list_binary_rows(rows);
    sluice::detail::list_where_rows(rows);
    auto* made = new std::unordered_map<const Operator*, LoopOf>;
    for (const RowOperator& row : rows)
      made->emplace(row.op, row.loop_of);
    return made;
  }();
  const auto found = known->find(&op);
  return found == known->end() ? nullptr : found->second;
}

// Between types on one device. A copy of halves is one of bits, which a register does not keep.
bool is_cast(const Operator& op, std::span<const DType> operands, const Attributes& attributes) {
  using sluice::detail::CopyAttributes;
  if (operands.size() != 1)
    return false;
  if (&op == &sluice::detail::k_cast)
    return true;
  if (&op != &sluice::detail::k_copy || (!attributes.empty() && attributes.as<CopyAttributes>().device))
    return false;
  const bool is_same = attributes.empty() || attributes.as<CopyAttributes>().dtype.value_or(operands[0]) == operands[0];
  return !is_same || !sluice::detail::is_half(operands[0]);
}

RowLoop row_loop_of(const Operator& op, std::span<const TensorView> operands, const Attributes& attributes) {
  return loop_of(op)({operands, attributes});
}

std::vector<TensorView> typed_views(std::span<const DType> types) {
  std::vector<TensorView> views;
  for (const DType type : types)
    views.push_back({.dtype = type});
  return views;
}

std::size_t width_of(DType dtype) {
  return size_of(register_type(dtype));
}

class Scheduler {
 public:
  explicit Scheduler(const Program& program) : program_(program) {
    made_.types = program.inputs;
    for (const Call& call : program.calls)
      made_.types.push_back(call.dtype);
    made_.register_of.resize(made_.types.size());
    note_readers();
  }

  Schedule run() {
    for (std::size_t at = 0; at < program_.calls.size(); ++at) {
      add_step(program_.calls[at], at);
      give_register(at);
    }
    for (const std::size_t width : made_.registers)
      made_.bytes += width;
    for (const DType type : program_.inputs)
      made_.bytes += width_of(type);
    for (const Number output : program_.outputs)
      made_.bytes += size_of(made_.types[output]);
    return std::move(made_);
  }

 private:
  void note_readers() {
    made_.last_reader.assign(made_.types.size(), -1);
    for (std::size_t at = 0; at < program_.calls.size(); ++at) {
      for (const Number operand : program_.calls[at].operands)
        made_.last_reader[operand] = static_cast<int>(at);
    }
    stays_.resize(made_.types.size());
    freed_before_.resize(made_.types.size());
    for (const Number output : program_.outputs)
      stays_[output] = true;
  }

  void add_step(const Call& call, std::size_t at) {
    Step step;
    step.result = static_cast<Number>(program_.inputs.size() + at);
    std::vector<DType> types;
    for (const Number operand : call.operands)
      types.push_back(made_.types[operand]);
    if (loop_of(*call.op) == nullptr) {
      const DType from = register_type(types[0]);
      step.operands.push_back(call.operands[0]);
      if (from != call.dtype)
        step.cast = is_floating(call.dtype) ? sluice::detail::cpu_cast_to_floating(call.dtype, from)
                                            : sluice::detail::cpu_cast_to_integer(call.dtype, from);
    } else {
      const std::vector<TensorView> views = typed_views(types);
      const RowLoop row = row_loop_of(*call.op, views, call.attributes);
      step.loop = row.loop;
      for (const sluice::detail::PointwiseOperand& operand : row.operands)
        step.operands.push_back(
            operand.view != nullptr ? call.operands[static_cast<std::size_t>(operand.view - views.data())]
                                    : constant(operand.scalar, row.dtype));
    }
    made_.steps.push_back(std::move(step));
  }

  std::uint16_t constant(Scalar number, DType dtype) {
    made_.constants.push_back({dtype, sluice::detail::constant_bits(number, dtype)});
    return static_cast<std::uint16_t>(made_.types.size() + made_.constants.size() - 1);
  }

  // Of what is read here for the last time the result may have the register, if its elements are as wide: the loop of
  // a row may write over what it reads, a cast may not.
  void give_register(std::size_t at) {
    const bool may_write_over = made_.steps[at].loop != nullptr;
    if (may_write_over)
      free_operands(at);
    take_register(program_.inputs.size() + at);
    if (!may_write_over)
      free_operands(at);
  }

  void free_operands(std::size_t at) {
    for (const Number operand : program_.calls[at].operands) {
      const bool ends = made_.last_reader[operand] == static_cast<int>(at) && !stays_[operand];
      if (!ends || operand < program_.inputs.size() || freed_before_[operand])
        continue;
      freed_before_[operand] = true;
      freed_.push_back(made_.register_of[operand]);
    }
  }

  void take_register(std::size_t value) {
    const std::size_t width = width_of(made_.types[value]);
    const auto fits = [&](std::uint16_t freed) { return made_.registers[freed] == width; };
    const auto found = std::find_if(freed_.begin(), freed_.end(), fits);
    if (found != freed_.end()) {
      made_.register_of[value] = *found;
      freed_.erase(found);
      return;
    }
    made_.register_of[value] = static_cast<std::uint16_t>(made_.registers.size());
    made_.registers.push_back(width);
  }

  const Program& program_;
  Schedule made_;
  std::vector<bool> stays_, freed_before_;  // by value: outputs; those whose register others may have
  std::vector<std::uint16_t> freed_;
};

}  // namespace

std::optional<DType> type_of_call(const Operator& op, std::span<const DType> operands, const Attributes& attributes) {
  if (loop_of(op) == nullptr && !is_cast(op, operands, attributes))
    return std::nullopt;
  Specs specs;
  for (const DType type : operands)
    specs.push_back({{1}, type, cpu()});
  const DType type = infer(op, specs, attributes).at(0).dtype;
  if (loop_of(op) != nullptr && row_loop_of(op, typed_views(operands), attributes).loop == nullptr)
    return std::nullopt;
  return type;
}

Schedule schedule_of(const Program& program) {
  return Scheduler(program).run();
}

const Interned& interned(std::string_view text) {
  static auto* const buckets = new std::atomic<const Interned*>[256]();
  std::atomic<const Interned*>& bucket = buckets[std::hash<std::string_view>()(text) % 256];
  const auto search = [&](const Interned* from) {
    while (from != nullptr && from->text != text)
      from = from->next;
    return from;
  };
  const Interned* head = bucket.load(std::memory_order_acquire);
  if (const Interned* const found = search(head); found != nullptr)
    return *found;
  auto made = std::make_unique<Interned>();
  made->text = text;
  made->program = parse(text);
  made->schedule = schedule_of(made->program);
  do {
    if (const Interned* const found = search(head); found != nullptr)
      return *found;
    made->next = head;
  } while (!bucket.compare_exchange_weak(head, made.get(), std::memory_order_acq_rel, std::memory_order_acquire));
  return *made.release();
}

const Interned& interned(const Attributes& attributes) {
  const auto& fused = attributes.as<FusedAttributes>();
  return fused.known != nullptr ? *fused.known : interned(fused.program);
}

}  // namespace sluice::fused
