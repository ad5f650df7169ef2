#include <cstring>

#include <sluice/engine/blocking_scope.h>
#include <sluice/gluon/detail/server_answer.h>
#include <sluice/gluon/server.h>
#include <sluice/ndarray/create.h>

namespace sluice::gluon {

namespace detail {

namespace {

void call_in_vain(const std::function<void()>& call) noexcept {
  try {
    call();
  } catch (...) {  // nobody is there to be told
  }
}

}  // namespace

void ServerAnswer::note_filled() noexcept {
  filled_.fetch_add(1, std::memory_order_release);
  filled_.notify_one();
}

void ServerAnswer::wait_filled(std::int64_t samples) const noexcept {
  for (std::uint32_t now = 0; (now = filled_.load(std::memory_order_acquire)) != samples;)
    filled_.wait(now, std::memory_order_acquire);
}

// What the parent's threads work at comes there alone.
void ServerAnswer::check_here() const {
  require<Forked>(forks_ == sluice::detail::fork_count(), [] {
    return "this reply was not there when the process forked; it comes in the parent alone";
  });
}

void ServerAnswer::wait() const {
  if (!done()) {
    check_here();
    const BlockingScope blocks;
    done_.wait(0, std::memory_order_acquire);
  }
  if (error_ != nullptr)
    std::rethrow_exception(error_);
}

void ServerAnswer::finish(std::vector<Output> outputs, std::exception_ptr error) noexcept {
  outputs_ = std::move(outputs);
  error_ = std::move(error);
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard hold(mutex_);
    done_.store(1, std::memory_order_release);
    calls.swap(calls_);
  }
  done_.notify_all();
  for (const auto& call : calls)
    call_in_vain(call);
}

void ServerAnswer::then(std::function<void()> call) {
  if (!done()) {
    check_here();
    const std::lock_guard hold(mutex_);
    if (!done()) {
      calls_.push_back(std::move(call));
      return;
    }
  }
  call_in_vain(call);
}

}  // namespace detail

ServerReply::ServerReply(std::shared_ptr<detail::ServerAnswer> answer, std::int64_t row)
    : answer_(std::move(answer)), row_(row) {}

detail::ServerAnswer& ServerReply::answer() const {
  require(answer_ != nullptr, [] { return "this reply is of no request"; });
  return *answer_;
}

bool ServerReply::done() const noexcept {
  return answer_ != nullptr && answer_->done();
}

void ServerReply::wait() const {
  answer().wait();
}

std::size_t ServerReply::outputs() const {
  wait();
  return answer_->outputs().size();
}

void ServerReply::then(std::function<void()> call) const {
  answer().then(std::move(call));
}

std::span<const std::byte> ServerReply::row(std::size_t number, DType dtype) const {
  require<IndexError>(
      number < outputs(), [&] { return message("the network gives ", outputs(), " arrays, not number ", number); });
  const detail::ServerAnswer::Output& output = answer_->outputs()[number];
  require<DTypeError>(output.dtype == dtype, [&] {
    return message("output ", number, " is ", output.dtype, ", not ", dtype, "; array() gives it as it is");
  });
  return {output.values.data() + static_cast<std::size_t>(row_) * output.row_bytes, output.row_bytes};
}

NDArray ServerReply::array(std::size_t number) const {
  require<IndexError>(
      number < outputs(), [&] { return message("the network gives ", outputs(), " arrays, not number ", number); });
  const detail::ServerAnswer::Output& output = answer_->outputs()[number];
  const std::span<const std::byte> values = row(number, output.dtype);
  return from_values(values.data(), output.dtype, output.row.size(), output.row, {.dtype = output.dtype});
}

void ServerReply::check_size(std::size_t has, std::size_t wanted) {
  require<ShapeError>(
      has == wanted, [&] { return message("the answer has ", has, " elements, room was given for ", wanted); });
}

void ServerReply::copy(std::span<const std::byte> from, void* to) noexcept {
  if (!from.empty())
    std::memcpy(to, from.data(), from.size());
}

}  // namespace sluice::gluon
