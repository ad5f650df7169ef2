#include <algorithm>

#include <sluice/engine/cuda/check.h>
#include <sluice/operator/conv/first_layer.h>
#include <sluice/operator/conv/first_layer_plan.h>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/workspace.h>

namespace sluice::detail {
namespace {

constexpr int k_head_stages = 3;
constexpr int k_terms = k_first_beside * 8;            // of a row of the kernel: what a product has as columns
constexpr int k_head_pieces = k_first_channels / 8;    // of an output
constexpr int k_partial = k_first_channels * k_terms;  // numbers a row of the kernel
constexpr int k_most_room = 224 * 1024;                // one block a multiprocessor then

template <class T>
struct FirstWeights {
  FirstLayer<T> layer;
  const T* heads;
  float* partials;  // of each block: rows of the kernel, channels, terms

  /// A stage has for each eight channels a piece an output, and one more, so that writers meet different banks.
  __host__ __device__ int head_column() const { return (layer.out_width + 1) * k_piece_bytes; }
  __host__ __device__ int head_bytes() const { return k_head_pieces * head_column(); }
};

#if SLUICE_WARPGROUPS
/// The ring of gradients of outputs, a stage a row.
struct HeadRing {
  unsigned char* room;
  int stage_bytes;

  __device__ unsigned char* stage(int i) const { return room + i * stage_bytes; }
  __device__ std::uint64_t* full(int i) const {
    return reinterpret_cast<std::uint64_t*>(room + k_head_stages * stage_bytes) + i;
  }
  __device__ std::uint64_t* read(int i) const { return full(i) + k_head_stages; }
  __device__ void make() const {
    if (threadIdx.x != 0)
      return;
    for (int i = 0; i < k_head_stages; ++i) {
      make_barrier(full(i), k_first_writers / 32);
      make_barrier(read(i), k_first_readers / 32);
    }
  }
};

/// One of the threads that bring rows of heads: one is on its way while the next begins.
template <class T>
struct HeadWriter {
  const FirstWeights<T>& p;
  const HeadRing& ring;
  RingPlace place = {}, on_its_way = {};
  bool any = false;  // on its way

  __device__ void begin(std::int32_t row) {
    const int thread = static_cast<int>(threadIdx.x) - k_first_readers, width = p.layer.out_width;
    const int outputs = p.layer.outputs;
    await_phase(ring.read(place.stage), place.turn ^ 1);
    const T* const from = p.heads + static_cast<std::int64_t>(row) * width * outputs;
    for (int i = thread; i < width * k_head_pieces; i += k_first_writers) {
      const int pixel = i / k_head_pieces, channel = i % k_head_pieces * 8;
      unsigned char* const to = ring.stage(place.stage) + i % k_head_pieces * p.head_column() + pixel * k_piece_bytes;
      const bool there = channel < outputs;
      fetch_piece(to, there ? from + pixel * outputs + channel : from, there ? k_piece_bytes : 0);
    }
    end_fetches();
    if (any)
      tell<1>();
    any = true;
    place.go_on(k_head_stages);
  }
  __device__ void end() {
    if (any)
      tell<0>();
    any = false;
  }

 private:
  template <int Left>
  __device__ void tell() {
    await_fetches<Left>();
    show_products();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
      arrive(ring.full(on_its_way.stage));
    on_its_way.go_on(k_head_stages);
  }
};

/// What a thread has of the gradient: every second row of the kernel, `Own` in all.
template <class T, int Own>
struct WeightSums {
  const FirstWeights<T>& p;
  const FirstRing& ring;
  int team;  // which of the two warpgroups
  float sums[Own][k_terms / 2] = {};

  __device__ void add(const unsigned char* heads, int stage) {
    constexpr int k_at_once = 16;
    begin_products();
    for (int column = 0; column < p.layer.out_width; column += k_at_once) {
      const std::uint64_t a =
          squares_at(heads + column * k_piece_bytes, 8 * k_piece_bytes, static_cast<unsigned>(p.head_column()));
#pragma unroll
      for (int i = 0; i < Own; ++i) {
        const int below = 2 * i + team;
        int at = stage + below / k_first_down;
        at -= at >= ring.stages ? ring.stages : 0;
        const unsigned char* const row =
            ring.stage(at) + (below % k_first_down * p.layer.row_pieces + column) * k_piece_bytes;
        multiply_turned<T>(sums[i], a, squares_at(row, 8 * k_piece_bytes, k_piece_bytes));
      }
    }
    end_products();
#pragma unroll
    for (auto& some : sums)
      await_products<0>(some);
  }

  __device__ void write() const {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    float* const to = p.partials + static_cast<std::int64_t>(blockIdx.x) * p.layer.kernel[0] * k_partial;
#pragma unroll
    for (int i = 0; i < Own; ++i) {
      const int below = 2 * i + team;
#pragma unroll
      for (int j = 0; j < k_terms / 2; j += 2) {
        const int channel = warp * 16 + lane / 4 + j / 2 % 2 * 8, term = j / 4 * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(to + below * k_partial + channel * k_terms + term) =
            make_float2(sums[i][j], sums[i][j + 1]);
      }
    }
  }
};

template <class T, int Own>
__device__ void add_weights(const FirstWeights<T>& p, const FirstRing& ring, const HeadRing& heads, int team) {
  WeightSums<T, Own> sums{p, ring, team};
  RingPlace place;
  read_rows(p.layer, ring, [&](std::int32_t, int stage) {
    await_phase(heads.full(place.stage), place.turn);
    sums.add(heads.stage(place.stage), stage);
    if (threadIdx.x % 32 == 0)
      arrive(heads.read(place.stage));
    place.go_on(k_head_stages);
  });
  sums.write();
}
#endif

template <class T, int Down>
__global__ void __launch_bounds__(k_first_threads, k_first_blocks)
    first_weights_kernel([[maybe_unused]] const __grid_constant__ FirstWeights<T> p) {
#if SLUICE_WARPGROUPS
  unsigned char* const room = shared_room<k_most_room>();
  const FirstRing ring{room, p.layer.stages, p.layer.stage_bytes};
  const HeadRing heads{room + first_ring_bytes(p.layer), p.head_bytes()};
  ring.make();
  heads.make();
  show_barriers();
#endif
  start_early();
#if SLUICE_WARPGROUPS
  show_products();
  __syncthreads();
  if (threadIdx.x >= k_first_readers) {
    bring_rows(p.layer, ring, HeadWriter<T>{p, heads});
    return;
  }
  if (threadIdx.x < 128)
    add_weights<T, (Down + 1) / 2>(p, ring, heads, 0);
  else
    add_weights<T, Down / 2>(p, ring, heads, 1);
#endif
}

constexpr int k_slices = 16;  // of the partial results, which threads of a block share out

template <class T>
__global__ void __launch_bounds__(k_terms* k_slices)
    join_first_kernel(const __grid_constant__ FirstLayer<T> p, const float* partials, int blocks, T* weight) {
  start_early();
  __shared__ float sums[k_slices][k_terms];
  const int term = static_cast<int>(threadIdx.x) % k_terms, slice = static_cast<int>(threadIdx.x) / k_terms;
  const int line = static_cast<int>(blockIdx.x), below = line / k_first_channels, channel = line % k_first_channels;
  const int all = p.kernel[0] * k_partial;
  float sum = 0.0F;
#pragma unroll 4
  for (int block = slice; block < blocks; block += k_slices)
    sum += partials[static_cast<std::int64_t>(block) * all + line * k_terms + term];
  sums[slice][term] = sum;
  __syncthreads();
  const int place = term / 4, input = term % 4;  // two pixels a piece, of four channels
  if (slice > 0 || channel >= p.outputs || place >= p.kernel[1] || input >= p.channels)
    return;
#pragma unroll
  for (int other = 1; other < k_slices; ++other)
    sum += sums[other][term];
  weight[((channel * p.kernel[0] + below) * p.kernel[1] + place) * p.channels + input] = T(sum);
}

template <class T, int Down>
void weights(const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data) {
  FirstWeights<T> p{.layer = first_layer<T>(g, data.x), .heads = static_cast<const T*>(data.y), .partials = nullptr};
  const unsigned blocks = first_blocks(p.layer), lines = static_cast<unsigned>(p.layer.kernel[0] * k_first_channels);
  const Workspace partials(queue, sizeof(float) * blocks * lines * k_terms);
  p.partials = partials.as<float>();
  constexpr auto kernel = first_weights_kernel<T, Down>;
  allow_shared<kernel, k_most_room>(queue.device().index);
  const int room = first_ring_bytes(p.layer) + k_head_stages * (p.head_bytes() + 16);
  const cudaStream_t stream = stream_of(queue);
  kernel<<<blocks, k_first_threads, static_cast<std::size_t>(room), stream>>>(p);
  check_early_launch("convolution_backward_weights", stream);
  join_first_kernel<T><<<lines, k_terms * k_slices, 0, stream>>>(
      p.layer, p.partials, static_cast<int>(blocks), static_cast<T*>(data.weight));
  check_early_launch("convolution_backward_weights", stream);
}

}  // namespace

bool first_weights_fit(const ConvolutionGeometry& g) {
  const std::int64_t heads = k_head_pieces * (g.out[1] + 1) * k_piece_bytes;
  return k_head_stages * (heads + 16) + k_first_ring_room + 1024 <= k_most_room;
}

void first_layer_weights_gpu(const Queue& queue, const ConvolutionGeometry& g, const ConvolutionData& data) {
  by_first_layer(g, [&]<class T, int Down>() { weights<T, Down>(queue, g, data); });
}

}  // namespace sluice::detail
