#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <sluice/engine/queue.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/operator/update/factored.h>
#include <sluice/operator/update/grouped.h>
#include <sluice/operator/update/trusted.h>

// One optimizer step as the kernels see it: a table of parameters, and the rule that all of them follow.
namespace sluice::detail {

/// Every rule there is.
template <class C>
using AnyRule = std::variant<
    SgdRule<C>,
    MomentumRule<C>,
    NagRule<C>,
    AdamRule<C>,
    AdamWRule<C>,
    AdaBeliefRule<C>,
    AdamaxRule<C>,
    NadamRule<C>,
    RmsPropRule<C, false, false>,
    RmsPropRule<C, true, false>,
    RmsPropRule<C, true, true>,
    AdaGradRule<C>,
    AdaDeltaRule<C>,
    FtrlRule<C>,
    FtmlRule<C>,
    SgldRule<C>,
    DcasgdRule<C, false>,
    DcasgdRule<C, true>,
    SignumRule<C, false>,
    SignumRule<C, true>,
    LarsRule<C>,
    LambRule<C>,
    LansRule<C>,
    LbsgdRule<C, false>,
    LbsgdRule<C, true>>;

/// One parameter. States that the rule does not use are null, and the master of what has none.
struct UpdatePiece {
  void* weight = nullptr;
  const void* grad = nullptr;
  void* state[k_most_states] = {};
  float* master = nullptr;
  std::int64_t size = 0;
  Rates<double> rates = {};
  DType dtype = DType::float32;
  bool plain = false;        // its trust ratio is 1
  std::int64_t number = 0;   // which parameter it is
  Strips strips = {};        // of a factored rule
  std::int64_t columns = 1;  // of a grouped rule: elements of a row
};

/// What one task does.
struct UpdateWork {
  std::vector<UpdatePiece> pieces;
  AnyRule<float> rule;
  AnyRule<double> rule64;
  double rescale = 1;
  double clip = -1;
  const double* numbers = nullptr;            // set: where rates, by parameter, and then rescale are read
  const double* guard = nullptr;              // set: norm, factor, and whether the step is taken
  std::int64_t count = 0;                     // of parameters
  std::optional<FactoredRule> factored = {};  // set: the rule, in the place of the two above
  std::optional<GroupedRule> grouped = {};    // and so this one
};

/// Numbers of each parameter's step.
inline int rates_a_parameter(const UpdateWork& work) {
  if (work.factored)
    return FactoredRule::k_rates;
  return std::visit([]<class R>(const R&) { return R::k_rates; }, work.rule);
}

/// The gradients' factor, and the numbers of a parameter's step, wherever they stand: for the CPU.
double rescale_of(const UpdateWork& work);
Rates<double> rates_of(const UpdateWork& work, const UpdatePiece& piece);

void update_cpu(const UpdateWork& work);
void update_gpu(const UpdateWork& work, const Queue& queue);
void factored_update_cpu(const UpdateWork& work);
void factored_update_gpu(const UpdateWork& work, const Queue& queue);
void grouped_update_cpu(const UpdateWork& work);

}  // namespace sluice::detail
