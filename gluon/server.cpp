#include <algorithm>
#include <cstring>
#include <exception>
#include <latch>
#include <utility>

#include <boost/thread/thread.hpp>

#include <sluice/engine/blocking_scope.h>
#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/engine.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/detail/server_queue.h>
#include <sluice/gluon/server.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>

namespace sluice::gluon {

namespace {

using detail::ServerAnswer;
using Clock = detail::ServerBatch::Clock;
using sluice::detail::TraceSpan;

void check(const ServerOptions& options) {
  const auto within = [](const char* name, auto value, auto low, auto high) {
    require(value >= low && value <= high, [&] {
      return message("Server: ", name, " is ", value, ", it must be from ", low, " to ", high);
    });
  };
  within("max_batch", options.max_batch, std::int64_t{1}, std::int64_t{1} << 20);
  within("max_queue", options.max_queue, std::int64_t{1}, std::int64_t{1} << 30);
  within("threads", options.threads, 1, 1024);
  within("max_delay (us)", options.max_delay.count(), 0, std::chrono::microseconds(std::chrono::hours(24)).count());
  for (const std::int64_t extent : options.sample)
    require<ShapeError>(
        extent > 0, [&] { return message("Server: samples of shape ", options.sample, " have no elements"); });
}

std::vector<std::int64_t> sizes_up_to(std::int64_t most) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size < most; size *= 2)
    sizes.push_back(size);
  sizes.push_back(most);
  return sizes;
}

Shape rows_of(std::int64_t rows, const Shape& sample) {
  Shape shape{rows};
  for (const std::int64_t extent : sample)
    shape.push_back(extent);
  return shape;
}

/// Where requests write their samples.
struct ArrayBatch : detail::ServerBatch {
  NDArray host;
  std::byte* samples;  // of `host`

  ArrayBatch(Engine& engine, const ServerOptions& options) : ServerBatch(options.max_batch) {
    const EngineScope here(engine);
    host =
        empty(rows_of(options.max_batch, options.sample), {.dtype = options.dtype, .pinned = options.device.is_gpu()});
    fill(host, 0);  // rows that nobody has written are computed with too
    host.wait_to_write();
    samples = host.object()->data();
  }
};

/// What a thread of a server knows.
struct ServerThread {
  const void* serves = nullptr;  // the server's state
  bool ends_it = false;          // once it is over itself
};
thread_local ServerThread* this_server_thread = nullptr;  // on its own stack: what every thread has is scarce

}  // namespace

struct Server::State {
  const std::uint32_t forks = sluice::detail::fork_count();
  const Block& net;
  const ServerOptions options;
  const SourceLocation site;
  Engine& engine = Engine::current();
  const std::vector<std::int64_t> sizes = sizes_up_to(options.max_batch);
  const std::int64_t sample_size = options.sample.size();
  const std::size_t sample_bytes = static_cast<std::size_t>(sample_size) * size_of(options.dtype);
  detail::ServerQueue queue{
      {.max_batch = options.max_batch,
       .max_queue = options.max_queue,
       .max_delay = options.max_delay,
       .refuses = options.when_full == WhenFull::refuse,
       .takers = static_cast<std::size_t>(options.threads)},
      [this] { return std::make_unique<ArrayBatch>(engine, options); }};
  mutable std::mutex mutex = {};
  ServerStats counted = {};
  std::exception_ptr failure = {};  // of a thread that tried the network
  std::mutex tracing = {};
  std::latch tried{options.threads};
  std::mutex stopping = {};
  std::vector<boost::thread> threads = {};

  State(const Block& net_of, const ServerOptions& how, SourceLocation where) : net(net_of), options(how), site(where) {}

  bool is_parents() const noexcept { return forks != sluice::detail::fork_count(); }
  bool is_own_thread() const noexcept { return this_server_thread != nullptr && this_server_thread->serves == this; }
  void check_here() const;
  void start();
  void stop();
  void end_from_within() noexcept;
  void live();
  void serve_all(NDArray& device);
  NDArray place_on_device() const;
  void try_sizes(NDArray& device);
  void serve(ArrayBatch& batch, NDArray& device);
  std::vector<ServerAnswer::Output> run(ArrayBatch& batch, NDArray& device, std::int64_t rows, std::int64_t size) const;
  ServerAnswer::Output read(const NDArray& from, std::int64_t rows, std::int64_t size, std::size_t number) const;
  void count(const ArrayBatch& batch, std::int64_t size, bool failed);
  ServerReply submit(const std::function<void(std::byte*)>& write);
};

void Server::State::start() {
  try {
    threads.reserve(static_cast<std::size_t>(options.threads));
    for (int i = 0; i < options.threads; ++i) {
      threads.emplace_back([this] {
        ServerThread mine{.serves = this};
        this_server_thread = &mine;
        live();
        if (mine.ends_it)
          delete this;
      });
    }
  } catch (const boost::thread_resource_error& error) {
    stop();
    throw ThreadError(message("Server: a thread cannot be started: ", error.code().message()));
  } catch (...) {
    stop();
    throw;
  }
  {
    const BlockingScope blocks;
    tried.wait();
  }
  if (failure != nullptr) {
    stop();
    std::rethrow_exception(failure);
  }
}

void Server::State::check_here() const {
  require<Forked>(!is_parents(), [] {
    return "this server's threads are those of the process that this one was forked from; make a server here";
  });
}

void Server::State::stop() {
  require<Deadlock>(
      !is_own_thread(), [] { return "Server::stop() on a thread of the server's own, which it would wait for"; });
  queue.stop();
  const BlockingScope blocks;
  const std::lock_guard hold(stopping);
  for (boost::thread& thread : threads) {
    if (thread.joinable())
      thread.join();
  }
}

// In a call of then(). Nobody uses the network afterwards; the state goes with this thread.
void Server::State::end_from_within() noexcept {
  queue.stop();
  NDArray device;
  serve_all(device);
  for (boost::thread& thread : threads) {
    if (thread.get_id() == boost::this_thread::get_id())
      thread.detach();
    else if (thread.joinable())
      thread.join();
  }
  this_server_thread->ends_it = true;
}

// Each thread has arenas of its own.
void Server::State::live() {
  const EngineScope here(engine);
  NDArray device;
  try {
    device = place_on_device();
    try_sizes(device);
  } catch (...) {
    const std::lock_guard hold(mutex);
    failure = std::current_exception();
  }
  tried.count_down();
  serve_all(device);
}

void Server::State::serve_all(NDArray& device) {
  while (detail::ServerBatch* const batch = queue.take())
    serve(static_cast<ArrayBatch&>(*batch), device);
}

// What the network takes on a GPU: one place a thread, as what is recorded there is for addresses. Undefined on the
// CPU.
NDArray Server::State::place_on_device() const {
  if (!options.device.is_gpu())
    return {};
  return zeros(rows_of(options.max_batch, options.sample), {.dtype = options.dtype, .device = options.device});
}

// Twice: what a GPU has recorded is for the arrays that come again, and parameters without shapes get them in the first
// call. One thread at a time: the others find what it traced.
void Server::State::try_sizes(NDArray& device) {
  ArrayBatch batch(engine, options);
  for (const std::int64_t size : sizes) {
    const std::lock_guard hold(tracing);
    for (int i = 0; i < 2; ++i)
      run(batch, device, size, size);
  }
}

ServerAnswer::Output Server::State::read(
    const NDArray& from, std::int64_t rows, std::int64_t size, std::size_t number) const {
  const Shape& shape = from.shape();
  require(shape.ndim() > 0 && shape[0] == size, [&] {
    return message("Server: for ", size, " samples output ", number, " of the network has shape ", shape);
  });
  ServerAnswer::Output output;
  std::int64_t elements = 1;
  for (int axis = 1; axis < shape.ndim(); ++axis) {
    output.row.push_back(shape[axis]);
    elements *= shape[axis];
  }
  output.dtype = from.dtype();
  output.row_bytes = static_cast<std::size_t>(elements) * size_of(output.dtype);
  const NDArray used = rows == size ? from : from.slice(0, 0, rows);
  output.values.resize(static_cast<std::size_t>(rows) * output.row_bytes);
  used.read_out(output.values.data(), output.dtype, rows * elements, site);
  return output;
}

std::vector<ServerAnswer::Output> Server::State::run(
    ArrayBatch& batch, NDArray& device, std::int64_t rows, std::int64_t size) const {
  if (device.defined())
    copy_into(batch.host.slice(0, 0, rows), device.slice(0, 0, rows), site);
  const NDArray inputs[] = {(device.defined() ? device : batch.host).slice(0, 0, size)};
  const Arrays results = net.call(inputs, site);
  std::vector<ServerAnswer::Output> outputs;
  for (std::size_t i = 0; i < results.size(); ++i)
    outputs.push_back(read(results[i], rows, size, i));
  batch.host.wait_to_write();  // requests write there, whatever else the network does with it
  return outputs;
}

void Server::State::serve(ArrayBatch& batch, NDArray& device) {
  const std::int64_t rows = batch.taken;
  const std::int64_t size = *std::lower_bound(sizes.begin(), sizes.end(), rows);
  batch.span.reset();
  std::unique_ptr<TraceSpan> span;
  std::vector<ServerAnswer::Output> outputs;
  std::exception_ptr error;
  try {
    if (engine.tracing())
      span = TraceSpan::begin(engine, message("server batch of ", rows, " (", size, ")"), site);
    if (options.device.is_gpu() && !device.defined())
      device = place_on_device();
    outputs = run(batch, device, rows, size);
  } catch (...) {
    error = std::current_exception();
    device = {};  // lost, perhaps
  }
  span.reset();
  count(batch, size, error != nullptr);
  const std::shared_ptr<ServerAnswer> answer = batch.answer;
  // Of a batch that failed samples stay as what fills up others, and its arrays are lost.
  if (error == nullptr)
    queue.give_back(batch);
  else
    queue.drop(batch);
  answer->finish(std::move(outputs), error);
}

void Server::State::count(const ArrayBatch& batch, std::int64_t size, bool failed) {
  const Clock::time_point now = Clock::now();
  const std::lock_guard hold(mutex);
  counted.requests += static_cast<std::uint64_t>(batch.taken);
  counted.failed += failed ? static_cast<std::uint64_t>(batch.taken) : 0;
  ++counted.batches;
  counted.rows += static_cast<std::uint64_t>(size);
  for (std::int64_t i = 0; i < batch.taken; ++i)
    counted.latencies.add(
        std::chrono::duration<double, std::micro>(now - batch.begun[static_cast<std::size_t>(i)]).count());
}

ServerReply Server::State::submit(const std::function<void(std::byte*)>& write) {
  check_here();
  const detail::ServerQueue::Place place = queue.reserve(!is_own_thread());
  struct Filled {
    ServerAnswer& answer;
    ~Filled() { answer.note_filled(); }
  } const filled{*place.answer};
  if (place.row == 0)
    place.batch->span = TraceSpan::begin(engine, "server queue", site);
  write(static_cast<ArrayBatch*>(place.batch)->samples + static_cast<std::size_t>(place.row) * sample_bytes);
  return {place.answer, place.row};
}

Server::Server(Block& net, const ServerOptions& options, SourceLocation site) {
  check(options);
  const std::size_t plans = sizes_up_to(options.max_batch).size();
  net.apply([plans](Block& block) { block.make_room_for_plans(plans); });
  if (options.hybridize && !net.is_hybridized())
    net.hybridize(true, {.most_plans = plans + 4});
  state_ = std::make_unique<State>(net, options, site);
  state_->start();
}

Server::~Server() {
  if (state_->is_parents())
    static_cast<void>(state_.release());  // its locks may be held, and its threads are not here
  else if (state_->is_own_thread())
    state_.release()->end_from_within();
  else
    state_->stop();
}

void Server::stop() {
  if (!state_->is_parents())
    state_->stop();
}

ServerReply Server::submit_values(const void* values, DType dtype, std::int64_t n) {
  const State& state = *state_;
  require<DTypeError>(dtype == state.options.dtype, [&] {
    return message("Server: a sample of ", dtype, " was handed in, the network takes ", state.options.dtype);
  });
  require<ShapeError>(n == state.sample_size, [&] {
    return message("Server: ", n, " values are no sample of shape ", state.options.sample);
  });
  return state_->submit([&](std::byte* to) { std::memcpy(to, values, state.sample_bytes); });
}

ServerReply Server::submit(const NDArray& sample) {
  const State& state = *state_;
  const sluice::detail::ArrayObject& given = sluice::detail::object_of(sample, "Server");
  require<DeviceError>(given.device.is_cpu(), [&] {
    return message("Server: a sample on ", given.device, " was handed in; samples come from the CPU");
  });
  require<DTypeError>(given.dtype == state.options.dtype, [&] {
    return message("Server: a sample of ", given.dtype, " was handed in, the network takes ", state.options.dtype);
  });
  require<ShapeError>(given.shape == state.options.sample, [&] {
    return message("Server: an array of shape ", given.shape, " is no sample of shape ", state.options.sample);
  });
  sample.wait_to_read();
  return state_->submit([&](std::byte* to) { sample.read_out(to, given.dtype, given.size); });
}

ServerStats Server::stats() const {
  state_->check_here();
  ServerStats stats;
  {
    const std::lock_guard hold(state_->mutex);
    stats = state_->counted;
  }
  stats.refused = state_->queue.refused();
  stats.waiting = state_->queue.waiting();
  return stats;
}

const ServerOptions& Server::options() const noexcept {
  return state_->options;
}

}  // namespace sluice::gluon
