#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/gluon/support.h"

namespace sluice::test {

using Made = std::unique_ptr<Optimizer>;

struct Kind {
  const char* name;
  std::function<Made()> make;
};

template <class O, class Options>
Kind kind(const char* name, const Options& options) {
  return {name, [options] { return std::make_unique<O>(options); }};
}

/// Each with states that it may keep and with masters.
inline std::vector<Kind> all_kinds() {
  using namespace gluon::optimizer;
  return {
      kind<SGD>("SGD", SGDOptions{.momentum = 0.9, .wd = 0.01, .multi_precision = true}),
      kind<NAG>("NAG", NAGOptions{.wd = 0.01, .clip_gradient = 0.5, .multi_precision = true}),
      kind<Adam>("Adam", AdamOptions{.wd = 0.01, .multi_precision = true}),
      kind<AdamW>("AdamW", AdamWOptions{.multi_precision = true}),
      kind<AdaBelief>("AdaBelief", AdaBeliefOptions{.wd = 0.01, .multi_precision = true}),
      kind<Adamax>("Adamax", AdamaxOptions{.wd = 0.01, .multi_precision = true}),
      kind<Nadam>("Nadam", NadamOptions{.wd = 0.01, .multi_precision = true}),
      kind<RMSProp>("RMSProp", RMSPropOptions{.momentum = 0.5, .centered = true, .multi_precision = true}),
      kind<AdaGrad>("AdaGrad", AdaGradOptions{.multi_precision = true}),
      kind<GroupAdaGrad>("GroupAdaGrad", GroupAdaGradOptions{.wd = 0.01, .multi_precision = true}),
      kind<AdaDelta>("AdaDelta", AdaDeltaOptions{.wd = 0.01, .multi_precision = true}),
      kind<Ftrl>("Ftrl", FtrlOptions{.lamda1 = 0.001, .wd = 0.01, .multi_precision = true}),
      kind<FTML>("FTML", FTMLOptions{.wd = 0.01, .multi_precision = true}),
      kind<SGLD>("SGLD", SGLDOptions{.wd = 0.01, .multi_precision = true}),
      kind<DCASGD>("DCASGD", DCASGDOptions{.momentum = 0.5, .lamda = 0.5, .multi_precision = true}),
      kind<Signum>("Signum", SignumOptions{.wd_lh = 0.01, .multi_precision = true}),
      kind<LARS>("LARS", LARSOptions{.momentum = 0.9, .eta = 0.1, .wd = 0.01, .multi_precision = true}),
      kind<LAMB>("LAMB", LAMBOptions{.wd = 0.01, .multi_precision = true}),
      kind<LANS>("LANS", LANSOptions{.wd = 0.01, .clip_gradient = 0.5, .multi_precision = true}),
      kind<LBSGD>("LBSGD", LBSGDOptions{.momentum = 0.9, .batch_scale = 2, .wd = 0.01, .multi_precision = true}),
      kind<Adafactor>("Adafactor", AdafactorOptions{.momentum = 0.5, .wd = 0.01, .multi_precision = true})};
}

}  // namespace sluice::test
