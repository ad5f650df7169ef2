#include <array>
#include <limits>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/library/shared_library.h>
#include <sluice/operator/rnn/network_cuda.h>

namespace sluice::detail {
namespace {

cudnnRNNMode_t cell_of(RnnMode mode) {
  switch (mode) {
    case RnnMode::rnn_relu:
      return CUDNN_RNN_RELU;
    case RnnMode::rnn_tanh:
      return CUDNN_RNN_TANH;
    case RnnMode::lstm:
      return CUDNN_LSTM;
    case RnnMode::gru:
      break;
  }
  return CUDNN_GRU;
}

// cuDNN counts in 32 bits.
int narrow(std::int64_t extent) {
  require<UnsupportedError>(extent <= std::numeric_limits<std::int32_t>::max(), [&] {
    return message("rnn: cuDNN takes extents below 2^31, not ", extent);
  });
  return static_cast<int>(extent);
}

}  // namespace

const CudnnRnnCalls& cudnn_rnn_calls() {
  static const CudnnRnnCalls* const calls = [] {
    cudnn_library().require("rnn");
    auto* const found = new CudnnRnnCalls;
#define SLUICE_FIND(name) cudnn_library().find(#name, found->name);
    SLUICE_CUDNN_RNN_CALLS(SLUICE_FIND)
#undef SLUICE_FIND
    return found;
  }();
  return *calls;
}

CudnnRnn::CudnnRnn(cudnnHandle_t handle, const RnnProblem& problem, cudnnMathType_t math, cudnnRNNAlgo_t algorithm)
    : problem_(problem), algorithm_(algorithm) {
  describe(handle, math);
  find_pieces(handle);
}

// Sequences all have the same length, and so lie packed as they lie.
void CudnnRnn::describe(cudnnHandle_t handle, cudnnMathType_t math) {
  const CudnnRnnCalls& calls = cudnn_rnn_calls();
  const RnnProblem& p = problem_;
  const int steps = narrow(p.steps), batch = narrow(p.batch), input = narrow(p.input), hidden = narrow(p.hidden);
  const int layers = narrow(p.layers), states = narrow(p.layers * p.directions), width = narrow(p.width());
  const cudnnDataType_t type = cudnn_type(p.dtype);
  cudnn_check(calls.cudnnSetDropoutDescriptor(dropout_.get(), handle, 0, nullptr, 0, 0), "cudnnSetDropoutDescriptor");
  cudnn_check(
      calls.cudnnSetRNNDescriptor_v8(
          network_.get(),
          algorithm_,
          cell_of(p.mode),
          CUDNN_RNN_DOUBLE_BIAS,
          p.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
          CUDNN_LINEAR_INPUT,
          type,
          cudnn_type(wide_type(p.dtype)),
          math,
          input,
          hidden,
          hidden,
          layers,
          dropout_.get(),
          CUDNN_RNN_PADDED_IO_DISABLED),
      "cudnnSetRNNDescriptor_v8");
  const std::vector<int> lengths(static_cast<std::size_t>(batch), steps);
  const auto set = [&](const CudnnRnnSequences& sequences, int each) {
    cudnn_check(
        calls.cudnnSetRNNDataDescriptor(
            sequences.get(), type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, steps, batch, each, lengths.data(), nullptr),
        "cudnnSetRNNDataDescriptor");
  };
  set(x_, input);
  set(y_, width);
  const std::array<int, 3> extents{states, batch, hidden}, strides{narrow(p.batch * p.hidden), hidden, 1};
  cudnn_check(
      calls.cudnnSetTensorNdDescriptor(state_.get(), type, 3, extents.data(), strides.data()),
      "cudnnSetTensorNdDescriptor");
  const auto ask = [&](cudnnForwardMode_t mode, std::size_t& scratch, std::size_t& reserve) {
    cudnn_check(
        calls.cudnnGetRNNTempSpaceSizes(handle, network_.get(), mode, x_.get(), &scratch, &reserve),
        "cudnnGetRNNTempSpaceSizes");
  };
  std::size_t nothing = 0;
  ask(CUDNN_FWD_MODE_INFERENCE, inference_scratch_, nothing);
  ask(CUDNN_FWD_MODE_TRAINING, training_scratch_, reserve_);
  cudnn_check(calls.cudnnGetRNNWeightSpaceSize(handle, network_.get(), &weights_), "cudnnGetRNNWeightSpaceSize");
}

void CudnnRnn::add_piece(Piece piece) {
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    if (last.ours + last.count == piece.ours && last.theirs + last.count == piece.theirs) {
      last.count += piece.count;
      return;
    }
  }
  pieces_.push_back(piece);
}

// cuDNN says where each matrix and bias would be in weights that begin somewhere; nothing there is looked at.
void CudnnRnn::find_pieces(cudnnHandle_t handle) {
  constexpr std::uintptr_t k_somewhere = std::uintptr_t{1} << 20;
  const RnnProblem& p = problem_;
  const CudnnTensor matrix("cudnnCreateTensorDescriptor"), bias("cudnnCreateTensorDescriptor");
  const auto size = static_cast<std::int64_t>(size_of(p.dtype)), gates = p.gates();
  std::vector<Piece> biases;
  for (std::int64_t i = 0; i < p.layers * p.directions; ++i) {
    const std::int64_t layer = i / p.directions, direction = i % p.directions;
    for (std::int64_t id = 0; id < 2 * gates; ++id) {
      void *matrix_at = nullptr, *bias_at = nullptr;
      cudnn_check(
          cudnn_rnn_calls().cudnnGetRNNWeightParams(
              handle,
              network_.get(),
              static_cast<std::int32_t>(i),
              weights_,
              reinterpret_cast<const void*>(k_somewhere),
              static_cast<std::int32_t>(id),
              matrix.get(),
              &matrix_at,
              bias.get(),
              &bias_at),
          "cudnnGetRNNWeightParams");
      const auto place = [&](const void* at) {
        return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(at) - k_somewhere) / size;
      };
      const bool is_input = id < gates;
      const std::int64_t gate = id % gates, across = is_input ? p.input_of(layer) : p.hidden;
      const std::int64_t weights = is_input ? p.input_weights(layer, direction) : p.state_weights(layer, direction);
      const std::int64_t offsets = is_input ? p.input_bias(layer, direction) : p.state_bias(layer, direction);
      add_piece({weights + gate * p.hidden * across, place(matrix_at), p.hidden * across});
      biases.push_back({offsets + gate * p.hidden, place(bias_at), p.hidden});
    }
  }
  for (const Piece& piece : biases)
    add_piece(piece);
}

bool CudnnRnn::are_alike() const noexcept {
  return pieces_.size() == 1 && pieces_[0].ours == 0 && pieces_[0].theirs == 0 &&
         static_cast<std::size_t>(pieces_[0].count) * size_of(problem_.dtype) == weights_;
}

}  // namespace sluice::detail
