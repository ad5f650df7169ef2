#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <cudnn_adv.h>

#include <sluice/operator/library/cudnn_cuda.h>
#include <sluice/operator/rnn/problem.h>

namespace sluice::detail {

/// What is called of cuDNN for recurrent layers; cudnn_rnn_calls() finds it once cudnn_library() is loaded.
#define SLUICE_CUDNN_RNN_CALLS(X)  \
  X(cudnnCreateDropoutDescriptor)  \
  X(cudnnCreateRNNDataDescriptor)  \
  X(cudnnCreateRNNDescriptor)      \
  X(cudnnCreateTensorDescriptor)   \
  X(cudnnDestroyDropoutDescriptor) \
  X(cudnnDestroyRNNDataDescriptor) \
  X(cudnnDestroyRNNDescriptor)     \
  X(cudnnDestroyTensorDescriptor)  \
  X(cudnnGetRNNTempSpaceSizes)     \
  X(cudnnGetRNNWeightParams)       \
  X(cudnnGetRNNWeightSpaceSize)    \
  X(cudnnRNNBackwardData_v8)       \
  X(cudnnRNNBackwardWeights_v8)    \
  X(cudnnRNNForward)               \
  X(cudnnSetDropoutDescriptor)     \
  X(cudnnSetRNNDataDescriptor)     \
  X(cudnnSetRNNDescriptor_v8)      \
  X(cudnnSetTensorNdDescriptor)
struct CudnnRnnCalls {
#define SLUICE_MEMBER(name) decltype(&::name) name = nullptr;
  SLUICE_CUDNN_RNN_CALLS(SLUICE_MEMBER)
#undef SLUICE_MEMBER
};
/// Throws LibraryError where this cuDNN lacks one.
const CudnnRnnCalls& cudnn_rnn_calls();

/// Owns a descriptor of one of those kinds; `create` and `destroy` are members of CudnnRnnCalls.
template <class Raw, auto create, auto destroy>
class CudnnOwned {
 public:
  explicit CudnnOwned(const char* call) { cudnn_check((cudnn_rnn_calls().*create)(&raw_), call); }
  CudnnOwned(const CudnnOwned&) = delete;
  ~CudnnOwned() { (cudnn_rnn_calls().*destroy)(raw_); }
  Raw get() const noexcept { return raw_; }

 private:
  Raw raw_ = nullptr;
};

using CudnnTensor = CudnnOwned<
    cudnnTensorDescriptor_t,
    &CudnnRnnCalls::cudnnCreateTensorDescriptor,
    &CudnnRnnCalls::cudnnDestroyTensorDescriptor>;
using CudnnRnnSequences = CudnnOwned<
    cudnnRNNDataDescriptor_t,
    &CudnnRnnCalls::cudnnCreateRNNDataDescriptor,
    &CudnnRnnCalls::cudnnDestroyRNNDataDescriptor>;

/// One problem as cuDNN knows it: kept, and run on whichever stream a task is on. It does not change.
class CudnnRnn {
 public:
  /// Throws CudaError where cuDNN does not take the problem, or not by that algorithm.
  CudnnRnn(cudnnHandle_t handle, const RnnProblem& problem, cudnnMathType_t math, cudnnRNNAlgo_t algorithm);

  /// Numbers of one weight or bias, in our parameters and in cuDNN's.
  struct Piece {
    std::int64_t ours, theirs, count;
  };

  bool is_persistent() const noexcept { return algorithm_ == CUDNN_RNN_ALGO_PERSIST_STATIC; }
  std::size_t reserve() const noexcept { return reserve_; }
  void forward(const Queue& queue, const RnnData& data) const;
  void backward(const Queue& queue, const RnnData& data) const;

 private:
  class Weights;
  void describe(cudnnHandle_t handle, cudnnMathType_t math);
  void find_pieces(cudnnHandle_t handle);
  void add_piece(Piece piece);
  /// Whether cuDNN's weights lie as ours do.
  bool are_alike() const noexcept;

  const RnnProblem problem_;
  const cudnnRNNAlgo_t algorithm_;
  CudnnOwned<
      cudnnDropoutDescriptor_t,
      &CudnnRnnCalls::cudnnCreateDropoutDescriptor,
      &CudnnRnnCalls::cudnnDestroyDropoutDescriptor>
      dropout_{"cudnnCreateDropoutDescriptor"};
  CudnnOwned<cudnnRNNDescriptor_t, &CudnnRnnCalls::cudnnCreateRNNDescriptor, &CudnnRnnCalls::cudnnDestroyRNNDescriptor>
      network_{"cudnnCreateRNNDescriptor"};
  CudnnRnnSequences x_{"cudnnCreateRNNDataDescriptor"}, y_{"cudnnCreateRNNDataDescriptor"};
  CudnnTensor state_{"cudnnCreateTensorDescriptor"};
  std::size_t inference_scratch_ = 0, training_scratch_ = 0, reserve_ = 0, weights_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace sluice::detail
