#pragma once

// Every rule of operator/update/rules.h, and what its operator is called: ROW(Rule, operator).
#define SLUICE_UPDATE_RULES(ROW)          \
  ROW(Sgd, sgd_update)                    \
  ROW(Nag, nag_update)                    \
  ROW(Adam, adam_update)                  \
  ROW(AdamW, adamw_update)                \
  ROW(AdaBelief, adabelief_update)        \
  ROW(Adamax, adamax_update)              \
  ROW(Nadam, nadam_update)                \
  ROW(RmsProp, rmsprop_update)            \
  ROW(AdaGrad, adagrad_update)            \
  ROW(GroupAdaGrad, group_adagrad_update) \
  ROW(AdaDelta, adadelta_update)          \
  ROW(Ftrl, ftrl_update)                  \
  ROW(Ftml, ftml_update)                  \
  ROW(Signum, signum_update)              \
  ROW(Sgld, sgld_update)                  \
  ROW(Dcasgd, dcasgd_update)              \
  ROW(Lars, lars_update)                  \
  ROW(Lamb, lamb_update)                  \
  ROW(Lans, lans_update)                  \
  ROW(Lbsgd, lbsgd_update)                \
  ROW(Adafactor, adafactor_update)
