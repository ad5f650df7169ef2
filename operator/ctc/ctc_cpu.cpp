#include <algorithm>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/ctc/alignment.h>

namespace sluice::detail {

namespace {

template <class C>
CtcSequence sequence_of(const Operator& op, const CtcBatch<C>& batch, std::int64_t n) {
  CtcFault fault;
  const CtcSequence is = batch.sequence(n, fault);
  require<IndexError>(fault.what == nullptr, [&] {
    return message(
        op.name,
        ": ",
        fault.what,
        " of sequence ",
        n,
        " is ",
        fault.value,
        ", not from 0 to ",
        fault.bound - 1,
        batch.blank_first ? ", class 0 being the blank" : ", the last class being the blank");
  });
  return is;
}

template <class C>
void add_gradient(const CtcBatch<C>& batch, const CtcSequence& of, C dy, C* dx) {
  const C likelihood = batch.likelihood(of);
  const auto states = static_cast<std::size_t>(of.states());
  std::vector<C> behind(states), here(states);
  for (std::int64_t step = of.steps - 1; step >= 0; --step) {
    C* const to = dx + (step * batch.batch + of.n) * batch.classes;
    for (std::int64_t s = 0; s < of.states(); ++s) {
      here[static_cast<std::size_t>(s)] = batch.beta(of, step, s, behind.data());
      to[batch.class_of(of, s)] -= dy * batch.share(of, step, s, here[static_cast<std::size_t>(s)], likelihood);
    }
    std::swap(here, behind);
  }
}

}  // namespace

void ctc_alignment_cpu(const KernelCall& call) {
  by_ctc_type(call.inputs[0].dtype, [&]<class C>() {
    const auto batch = ctc_batch<C>(call, call.outputs[1].data, 2);
    parallel_for(batch.batch, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const CtcSequence of = sequence_of(call.op, batch, n);
        for (std::int64_t step = 0; step < batch.steps; ++step) {
          C* const row = batch.row(of, step);
          const std::int64_t states = step < of.steps ? of.states() : 0;
          for (std::int64_t s = 0; s < states; ++s)
            row[s] = batch.alpha(of, step, s);
          std::fill(row + states, row + batch.width(), ctc_nothing<C>());
        }
        call.outputs[0].as<C>()[n] = batch.loss(of);
      }
    });
  });
}

void ctc_alignment_backward_cpu(const KernelCall& call) {
  by_ctc_type(call.inputs[0].dtype, [&]<class C>() {
    const auto batch = ctc_batch<C>(call, call.inputs[2].data, 4);
    const C* const dy = call.inputs[3].as<const C>();
    C* const dx = call.outputs[0].as<C>();
    parallel_for(batch.batch, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        for (std::int64_t step = 0; step < batch.steps; ++step)
          std::fill_n(dx + (step * batch.batch + n) * batch.classes, batch.classes, C(0));
        add_gradient(batch, sequence_of(call.op, batch, n), dy[n], dx);
      }
    });
  });
}

}  // namespace sluice::detail
