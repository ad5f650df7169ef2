#include <algorithm>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/conv/first_layer.h>
#include <sluice/operator/conv/first_layer_plan.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/library/nvrtc.h>

namespace sluice::detail {
namespace {

constexpr int k_square_column = k_first_channels * k_piece_bytes;  // a piece of the weight of all channels
constexpr int k_most_room = 112 * 1024;
constexpr int k_sums = k_first_channels / 2;                  // of a lane
constexpr int k_line = k_first_channels * 2 + k_piece_bytes;  // of an output: eight lie in different banks
constexpr int k_warp_outputs = 16, k_readers = k_first_readers / 32;
constexpr int k_lines_room = k_readers * k_warp_outputs * k_line;
constexpr int k_behind_room = 2 * k_first_channels * static_cast<int>(sizeof(float));

template <class T>
struct FirstForward {
  FirstLayer<T> layer;
  const T *weight, *bias;
  T* y;
  const float *scale, *shift;  // each may be null, bias too
  bool relu;
};

/// Where things begin in shared memory, in bytes: the ring, then these.
struct ForwardRoom {
  int weight, behind, lines, end;  // behind: of each channel the scale, then the shift

  template <class T>
  __host__ __device__ explicit ForwardRoom(const FirstLayer<T>& p)
      : weight(first_ring_bytes(p)),
        behind(weight + p.kernel[0] * k_first_beside * k_square_column),
        lines(behind + k_behind_room),
        end(lines + k_lines_room) {}
};

#if SLUICE_WARPGROUPS
struct NothingBeside {
  __device__ void begin(std::int32_t) const {}
  __device__ void end() const {}
};

/// Pieces of the weight: for each of the kernel's rows, four of neighbouring places, one a channel.
template <class T>
__device__ void take_weight(const FirstForward<T>& p, unsigned char* to) {
  const FirstLayer<T>& l = p.layer;
  using Piece = typename FirstPieces<T>::Piece;
  for (int i = static_cast<int>(threadIdx.x); i < l.kernel[0] * k_first_beside * k_first_channels;
       i += k_first_threads) {
    const int output = i % k_first_channels, piece = i / k_first_channels;
    const int below = piece / k_first_beside, beside = piece % k_first_beside * 2;
    Piece made;
#pragma unroll
    for (int j = 0; j < 2 * k_first_inputs; ++j) {
      const int place = beside + j / k_first_inputs, channel = j % k_first_inputs;
      const bool there = output < l.outputs && place < l.kernel[1] && channel < l.channels;
      const int at = ((output * l.kernel[0] + below) * l.kernel[1] + place) * l.channels + channel;
      made.at[j] = there ? p.weight[at] : T(0.0F);
    }
    reinterpret_cast<Piece*>(to)[i] = made;
  }
}

/// A sum by itself: what is beside the kernel does not count. Tensor cores multiply that by 0, which is NaN for some.
template <class T>
__device__ __noinline__ float sum_alone(
    const FirstLayer<T>& p, const FirstRing& ring, const unsigned char* weight, int stage, int column, int output) {
  using Piece = typename FirstPieces<T>::Piece;
  float sum = 0.0F;
  for (int below = 0; below < p.kernel[0]; ++below) {
    const auto* const row = reinterpret_cast<const Piece*>(ring.stage((stage + below / k_first_down) % ring.stages)) +
                            below % k_first_down * p.row_pieces + column;
    for (int place = 0; place < p.kernel[1]; ++place) {
      const Piece& w =
          reinterpret_cast<const Piece*>(weight)[(below * k_first_beside + place / 2) * k_first_channels + output];
      for (int channel = 0; channel < p.channels; ++channel) {
        const int at = place % 2 * k_first_inputs + channel;
        sum += static_cast<float>(row[place / 2].at[at]) * static_cast<float>(w.at[at]);
      }
    }
  }
  return sum;
}

/// The sums of 64 outputs of a row from `column` on, which begins at `stage`.
template <int Down, class T>
__device__ void add_up(
    const FirstLayer<T>& p,
    const FirstRing& ring,
    const unsigned char* weight,
    int stage,
    int column,
    float (&sums)[k_sums]) {
#pragma unroll
  for (float& sum : sums)
    sum = 0.0F;
  begin_products();
  int at = stage;
#pragma unroll
  for (int below = 0; below < Down; ++below) {
    const unsigned char* const row = ring.stage(at) + (below % k_first_down * p.row_pieces + column) * k_piece_bytes;
#pragma unroll
    for (int beside = 0; beside < k_first_beside; beside += 2) {
      multiply_lines<T>(
          sums,
          squares_at(row + beside * k_piece_bytes, k_piece_bytes, 8 * k_piece_bytes),
          squares_at(weight + (below * k_first_beside + beside) * k_square_column, k_square_column, 8 * k_piece_bytes));
    }
    if (below % k_first_down == k_first_down - 1 && ++at == ring.stages)
      at = 0;
  }
  end_products();
  await_products<0>(sums);
  bool alone = false;
#pragma unroll
  for (int i = 0; i < k_sums; i += 2)
    alone = alone | isunordered(sums[i], sums[i + 1]);
  if (!alone)
    return;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
#pragma unroll
  for (int i = 0; i < k_sums; ++i) {
    const int row = column + warp * 16 + lane / 4 + i / 2 % 2 * 8, output = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (sums[i] != sums[i])
      sums[i] = sum_alone(p, ring, weight, stage, row, output);
  }
}

template <class T>
__device__ std::uint32_t pair_of(float one, float other) {
  const T both[2] = {T(one), T(other)};
  std::uint32_t word;
  memcpy(&word, both, sizeof(word));
  return word;
}

/// What comes behind a warp's sums of 16 outputs from `first` on; those from `end` on are none. By way of shared
/// memory, from where outputs go in whole lines.
template <class T>
__device__ void finish(
    const FirstForward<T>& p,
    const float* behind,
    unsigned char* all_lines,
    float (&sums)[k_sums],
    std::int32_t first,
    std::int32_t end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  unsigned char* const lines = all_lines + static_cast<int>(threadIdx.x) / 32 * (k_warp_outputs * k_line);
  const bool scaled = p.scale != nullptr || p.shift != nullptr || p.bias != nullptr;
#pragma unroll
  for (int j = 0; j < k_sums; j += 4) {
    const int channel = 2 * j + lane % 4 * 2;
    if (scaled) {
      const float2 scale = *reinterpret_cast<const float2*>(behind + channel);
      const float2 shift = *reinterpret_cast<const float2*>(behind + k_first_channels + channel);
#pragma unroll
      for (int below = 0; below < 4; below += 2) {
        sums[j + below] = sums[j + below] * scale.x + shift.x;
        sums[j + below + 1] = sums[j + below + 1] * scale.y + shift.y;
      }
    }
    if (p.relu) {
#pragma unroll
      for (int i = j; i < j + 4; ++i)
        sums[i] = sums[i] <= 0.0F ? 0.0F : sums[i];  // NaN stays
    }
  }
  __syncwarp();  // what was written last is read
#pragma unroll
  for (int below = 0; below < 2; ++below) {
#pragma unroll
    for (int j = 0; j < k_sums; j += k_sums / 2) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        words[i] = pair_of<T>(sums[j + 4 * i + 2 * below], sums[j + 4 * i + 2 * below + 1]);
      store_matrices(lines + (8 * below + lane % 8) * k_line + (j / 4 + lane / 8) * k_piece_bytes, words);
    }
  }
  __syncwarp();
  const int channel = lane % 8 * 8;
#pragma unroll
  for (int i = 0; i < k_warp_outputs; i += 4) {
    const std::int32_t output = first + i + lane / 8;
    if (output < end && channel < p.layer.outputs)
      *reinterpret_cast<int4*>(p.y + static_cast<std::int64_t>(output) * p.layer.outputs + channel) =
          *reinterpret_cast<const int4*>(lines + (i + lane / 8) * k_line + lane % 8 * k_piece_bytes);
  }
}

/// Scale and shift, or what changes nothing.
template <class T>
__device__ void take_behind(const FirstForward<T>& p, float* to) {
  const int channel = static_cast<int>(threadIdx.x);
  if (channel >= k_first_channels)
    return;
  const bool real = channel < p.layer.outputs;
  to[channel] = real && p.scale != nullptr ? p.scale[channel] : 1.0F;
  float shift = real && p.shift != nullptr ? p.shift[channel] : -0.0F;
  if (real && p.bias != nullptr)
    shift = static_cast<float>(p.bias[channel]);
  to[k_first_channels + channel] = shift;
}
#endif

template <class T, int Down>
__global__ void __launch_bounds__(k_first_threads, k_first_blocks)
    first_forward_kernel([[maybe_unused]] const __grid_constant__ FirstForward<T> p) {
#if SLUICE_WARPGROUPS
  const FirstRing ring{shared_room<k_most_room>(), p.layer.stages, p.layer.stage_bytes};
  const ForwardRoom places(p.layer);
  unsigned char* const weight = ring.room + places.weight;
  auto* const behind = reinterpret_cast<float*>(ring.room + places.behind);
  ring.make();
  show_barriers();
#endif
  start_early();
#if SLUICE_WARPGROUPS
  take_weight(p, weight);
  take_behind(p, behind);
  show_products();
  __syncthreads();
  if (threadIdx.x >= k_first_readers)
    return bring_rows(p.layer, ring, NothingBeside());
  const int warp = static_cast<int>(threadIdx.x) / 32, width = p.layer.out_width;
  read_rows(p.layer, ring, [&](std::int32_t row, int stage) {
    for (int column = warp / 4 * 64; column < width; column += 2 * 64) {
      float sums[k_sums];
      add_up<Down>(p.layer, ring, weight, stage, column, sums);
      const std::int32_t first = row * width + column + warp % 4 * k_warp_outputs;
      finish(p, behind, ring.room + places.lines, sums, first, (row + 1) * width);
    }
  });
#endif
}

template <class T, int Down>
void forward(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then) {
  const FirstForward<T> p{
      .layer = first_layer<T>(g, data.x),
      .weight = static_cast<const T*>(data.weight),
      .bias = static_cast<const T*>(then.bias),
      .y = static_cast<T*>(data.y),
      .scale = static_cast<const float*>(then.scale),
      .shift = static_cast<const float*>(then.shift),
      .relu = then.relu};
  constexpr auto kernel = first_forward_kernel<T, Down>;
  allow_shared<kernel, k_most_room>(queue.device().index);
  const auto bytes = static_cast<std::size_t>(ForwardRoom(p.layer).end);
  const cudaStream_t stream = stream_of(queue);
  kernel<<<first_blocks(p.layer), k_first_threads, bytes, stream>>>(p);
  check_early_launch("convolution", stream);
}

// The host's simulation of a GPU has no such products.
#ifdef __CUDACC__
constexpr bool k_multiplies_squares = true;
#else
constexpr bool k_multiplies_squares = false;
#endif

}  // namespace

bool is_first_layer(
    const Queue& queue, ConvolutionPass pass, const ConvolutionGeometry& g, MemoryOrder order, const void* y) {
  constexpr int k_capability = 90;  // what the kernels are written in no other has
  constexpr std::int64_t k_most = std::int64_t{1} << 30, k_most_pad = 1 << 10;
  constexpr std::int64_t k_least_terms = 16;  // that tensor cores multiply at once
  if (!k_multiplies_squares || !kernels_wait_themselves() || gpu_capability(queue.device().index) != k_capability)
    return false;
  if (size_of(g.dtype) != 2 || order != MemoryOrder::channels_last || g.groups != 1 || !is_aligned(y))
    return false;
  if (pass == ConvolutionPass::backward_data || g.inputs > k_first_inputs || g.outputs % 8 != 0 ||
      g.outputs > k_first_channels || g.depth() < k_least_terms)
    return false;
  if (g.kernel[0] != 3 && g.kernel[0] != 7)
    return false;
  for (int axis = 0; axis < 2; ++axis) {
    if (g.stride[axis] != k_first_down || g.dilation[axis] != 1 || g.kernel[axis] > 2 * k_first_beside ||
        g.pad[axis] > k_most_pad)
      return false;
  }
  // Fewer outputs would leave most of a tile empty; what products of the gradient take at once are 16.
  if (g.out[1] < 32 || (pass == ConvolutionPass::backward_weights && g.out[1] % 16 != 0))
    return false;
  if (first_stage_bytes(g) * first_least_stages(g) > k_first_ring_room ||
      (pass == ConvolutionPass::backward_weights && !first_weights_fit(g)))
    return false;
  return g.images * g.in_plane() * g.inputs < k_most && g.images * g.out_plane() * g.outputs < k_most * 4 &&
         g.images * g.out_plane() < k_most;
}

void first_layer_forward_gpu(
    const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data, const ChannelEpilogue& then) {
  by_first_layer(g, [&]<class T, int Down>() { forward<T, Down>(queue, g, data, then); });
}

}  // namespace sluice::detail
