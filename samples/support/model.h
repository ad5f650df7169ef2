#pragma once

#include <memory>

#include <sluice/sluice.h>

namespace samples {

/// What is trained: a network, and what its predictions are judged by.
struct Model {
  sluice::gluon::nn::Sequential net;
  std::unique_ptr<sluice::gluon::loss::Loss> loss;
};

}  // namespace samples
