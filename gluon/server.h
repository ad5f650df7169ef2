#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sluice/engine/device.h>
#include <sluice/engine/error.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/ndarray/ndarray.h>

namespace sluice::gluon {

class Block;
namespace detail {
class ServerAnswer;
}

/// A request that a server does not take: as many wait as may.
class SLUICE_API ServerBusy : public Error {
  using Error::Error;
};
/// A request after Server::stop().
class SLUICE_API ServerStopped : public Error {
  using Error::Error;
};

/// What submit() does while ServerOptions::max_queue requests wait: rests until there is room, or throws ServerBusy.
enum class WhenFull : std::uint8_t { wait, refuse };

/// How a Server works.
struct ServerOptions {
  Shape sample = {};  // shape of one sample, without the batch's axis
  DType dtype = float32;
  Device device = cpu();        // where the network's parameters are
  std::int64_t max_batch = 64;  // samples that run together at most
  /// For how long the oldest sample waits for others. 0: what waits when a thread is free runs, so that batches grow
  /// with the load alone.
  std::chrono::microseconds max_delay{0};
  int threads = 2;  // batches that run at once
  std::int64_t max_queue = 1024;
  WhenFull when_full = WhenFull::wait;
  bool hybridize = true;  // the network, unless it is
};

/// What the network gives for one sample. A handle; any thread. What was not asked for is computed all the same.
class SLUICE_API ServerReply {
 public:
  ServerReply() = default;

  bool defined() const noexcept { return answer_ != nullptr; }
  bool done() const noexcept;
  /// Blocks until it is there; inside a task another thread takes this one's place meanwhile. Throws what the
  /// network threw for the batch, ValueError for an empty handle, Forked in a child whose parent has it still to come;
  /// so do the calls below, which wait too.
  void wait() const;
  std::size_t outputs() const;
  /// Output `output` for this sample, without the batch's axis, a new array on the CPU.
  NDArray array(std::size_t output = 0) const;
  /// Its elements in row-major order. Throws DTypeError unless they are T, IndexError.
  template <class T>
  std::vector<T> get(std::size_t output = 0) const {
    const std::span<const std::byte> bytes = row(output, dtype_of<T>);
    std::vector<T> values(bytes.size() / sizeof(T));
    copy(bytes, values.data());
    return values;
  }
  /// Copies them. Throws ShapeError too, unless `to` takes all and no more.
  template <class T>
  void read(std::span<T> to, std::size_t output = 0) const {
    const std::span<const std::byte> bytes = row(output, dtype_of<T>);
    check_size(bytes.size() / sizeof(T), to.size());
    copy(bytes, to.data());
  }
  /// Calls `call` once the answer, or the error, is there: on a thread of the server, which should have it back soon,
  /// or at once. It may hand in more: on a thread of the server's own submit() throws ServerBusy where it would rest;
  /// and let the server go, which then answers the rest there. What it throws is lost.
  void then(std::function<void()> call) const;

 private:
  friend class Server;
  ServerReply(std::shared_ptr<detail::ServerAnswer> answer, std::int64_t row);
  detail::ServerAnswer& answer() const;
  std::span<const std::byte> row(std::size_t output, DType dtype) const;
  static void check_size(std::size_t has, std::size_t wanted);
  static void copy(std::span<const std::byte> from, void* to) noexcept;

  std::shared_ptr<detail::ServerAnswer> answer_;
  std::int64_t row_ = 0;
};

/// How long requests took from submit() to their answers: counts by microseconds, eight steps to each doubling.
struct SLUICE_API ServerLatencies {
  static constexpr int k_steps = 8;
  std::array<std::uint64_t, 28 * k_steps> counts = {};
  double max_us = 0;

  void add(double us) noexcept;
  void merge(const ServerLatencies& other) noexcept;
  std::uint64_t total() const noexcept;
  /// In microseconds, at most an eighth too much: of `percent` of the requests none took longer. 0 if there are none.
  double percentile(double percent) const noexcept;
};

/// What a server did so far.
struct ServerStats {
  std::uint64_t requests = 0;  // answered, failed ones too
  std::uint64_t failed = 0;    // of those
  std::uint64_t refused = 0;   // by ServerBusy
  std::uint64_t batches = 0;
  std::uint64_t rows = 0;  // that were computed: the samples and what filled batches up
  std::int64_t waiting = 0;
  ServerLatencies latencies = {};

  double mean_batch() const noexcept {
    return batches == 0 ? 0 : static_cast<double>(requests) / static_cast<double>(batches);
  }
};

/// Runs a network for samples that many threads hand in one by one, those that wait together as one batch, padded to 1,
/// 2, 4, .. or max_batch rows so that few programs are made:
///
///     gluon::Server server(net, {.sample = {1, 28, 28}, .device = gpu(0), .max_batch = 256});
///     const auto reply = server.submit(std::span<const float>(pixels));   // any thread
///     const std::vector<float> scores = reply.get<float>();
///
/// The network takes one array, (n, sample..), and gives arrays whose first axis is the batch's too; what it gives for
/// a sample must not depend on the others. Predict mode; nothing is recorded. Batches begin in the order of their first
/// samples. Traces of the engine show each batch as two stretches beside the tasks, "server queue" while it fills and
/// waits, and "server batch of 17 (32)". In a forked child the server is the parent's: it takes nothing and may go.
class SLUICE_API Server {
 public:
  /// Runs the network for every size of a batch first, in the current engine, so that no request pays for that. The
  /// host waits. `net` must outlive the server, and nobody may change it meanwhile. Throws ValueError for options out
  /// of range or a network that gives no batches, ThreadError, and what the network throws.
  explicit Server(Block& net, const ServerOptions& options, SourceLocation site = SourceLocation::current());
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// As stop(); on a thread of the server's own that thread answers what is left.
  ~Server();

  /// Hands in one sample, which may go or be overwritten afterwards. Does not wait for the answer; for room in the
  /// queue as WhenFull says. An error of the network goes to all requests of its batch and no other. Throws ShapeError
  /// and DTypeError for what is no sample, ServerBusy, ServerStopped, Forked, OutOfMemory.
  template <class T>
  ServerReply submit(std::span<const T> values) {
    return submit_values(values.data(), dtype_of<T>, static_cast<std::int64_t>(values.size()));
  }
  template <class T>
  ServerReply submit(const std::vector<T>& values) {
    return submit(std::span<const T>(values));
  }
  /// The same for an array on the CPU of the sample's shape, which is waited for. Throws DeviceError, and what is wrong
  /// with the array.
  ServerReply submit(const NDArray& sample);

  /// Throws Forked in a forked child.
  ServerStats stats() const;
  const ServerOptions& options() const noexcept;
  /// Answers what was handed in, and takes no more. The host waits; inside a task another thread takes this one's place
  /// meanwhile. Throws Deadlock on a thread of the server's own. Does nothing in a forked child.
  void stop();

 private:
  struct State;
  ServerReply submit_values(const void* values, DType dtype, std::int64_t n);
  std::unique_ptr<State> state_;
};

}  // namespace sluice::gluon
