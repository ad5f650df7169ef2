#include "samples/serve/connection.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

namespace samples {

namespace asio = boost::asio;
using boost::system::error_code;
using sluice::Error;
using sluice::message;

namespace {

// Who does not read its answers gets no more of them made, and no more requests taken.
constexpr std::size_t k_most_unsent = 1 << 18;

void append(std::vector<std::byte>& to, const void* from, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}

}  // namespace

Connection::Connection(
    asio::ip::tcp::socket socket, Strand strand, sluice::gluon::Server& server, const Greeting& greeting)
    : socket_(std::move(socket)),
      strand_(std::move(strand)),
      server_(server),
      greeting_(greeting),
      received_(std::max<std::size_t>(16 * 1024, 2 * (greeting.sample_values + 1))) {}

void Connection::start() {
  asio::post(strand_, [self = shared_from_this()] {
    append(self->next_, &self->greeting_, sizeof self->greeting_);
    self->write();
    self->read();
  });
}

void Connection::stop() {
  asio::post(strand_, [self = shared_from_this()] { self->close(); });
}

void Connection::close() {
  error_code ignored;
  last_ = true;
  socket_.close(ignored);
}

void Connection::read() {
  if (reading_ || last_ || ended_ || open_.size() >= k_most_open)
    return;
  reading_ = true;
  auto* const bytes = reinterpret_cast<std::byte*>(received_.data());
  socket_.async_read_some(
      asio::buffer(bytes + filled_, received_.size() * sizeof(float) - filled_),
      asio::bind_executor(strand_, [self = shared_from_this()](error_code error, std::size_t count) {
        self->reading_ = false;
        self->ended_ = error == asio::error::eof;  // it may still read
        if (error && !self->ended_)
          return self->close();
        self->filled_ += count;
        self->flush();
      }));
}

bool Connection::may_answer() const {
  return !open_.empty() && next_.size() < k_most_unsent &&
         (open_.front().status != Status::ok || open_.front().reply.done());
}

// What is left comes to the front, so that there is room for a whole request. False: there was none.
bool Connection::take_requests() {
  const std::size_t before = open_.size();
  while (!last_ && open_.size() < k_most_open && take_request()) {
  }
  auto* const bytes = reinterpret_cast<std::byte*>(received_.data());
  std::memmove(bytes, bytes + taken_, filled_ - taken_);
  filled_ -= std::exchange(taken_, 0);
  return open_.size() > before;
}

// False: what is there is no whole one.
bool Connection::take_request() {
  const std::size_t useless = std::min(skipped_, filled_ - taken_) / sizeof(float) * sizeof(float);
  skipped_ -= useless;
  taken_ += useless;
  std::uint32_t count = 0;
  if (skipped_ > 0 || filled_ - taken_ < sizeof count)
    return false;
  const float* const at = received_.data() + taken_ / sizeof(float);
  std::memcpy(&count, at, sizeof count);
  if (count != greeting_.sample_values) {
    refuse(Status::bad_request, message(count, " values were sent, a sample has ", greeting_.sample_values));
    last_ = count > k_most_values;
    taken_ += sizeof count;
    skipped_ = count * sizeof(float);
    return true;
  }
  const std::size_t bytes = (1 + static_cast<std::size_t>(count)) * sizeof(float);
  if (filled_ - taken_ < bytes)
    return false;
  submit({at + 1, count});
  taken_ += bytes;
  return true;
}

void Connection::submit(std::span<const float> sample) {
  try {
    open_.push_back({.reply = server_.submit(sample)});
    open_.back().reply.then([self = shared_from_this()] { asio::post(self->strand_, [self] { self->flush(); }); });
  } catch (const sluice::gluon::ServerBusy& error) {
    refuse(Status::busy, error.message());
  } catch (const Error& error) {
    refuse(Status::failed, error.message());
  }
}

void Connection::refuse(Status status, std::string text) {
  open_.push_back({.status = status, .text = std::move(text)});
}

// Takes what has come, sends what is known, and goes on to read where there is room.
void Connection::flush() {
  while (take_requests() || may_answer()) {
    for (; may_answer(); open_.pop_front())
      answer(open_.front());
  }
  write();
  read();
}

void Connection::answer(const Open& open) {
  Status status = open.status;
  std::string text = open.text;
  std::vector<float> values;
  try {
    if (status == Status::ok)
      values = open.reply.get<float>();
  } catch (const Error& error) {
    status = Status::failed;
    text = error.message();
  }
  const std::size_t bytes = status == Status::ok ? values.size() * sizeof(float) : text.size();
  const AnswerHead head{status, static_cast<std::uint32_t>(bytes)};
  append(next_, &head, sizeof head);
  append(next_, status == Status::ok ? static_cast<const void*>(values.data()) : text.data(), bytes);
}

void Connection::write() {
  if (writing_ || next_.empty()) {
    if ((last_ || ended_) && !writing_ && open_.empty())
      close();
    return;
  }
  writing_ = true;
  sent_.clear();
  sent_.swap(next_);
  asio::async_write(
      socket_,
      asio::buffer(sent_),
      asio::bind_executor(strand_, [self = shared_from_this()](error_code error, std::size_t) {
        self->writing_ = false;
        if (error)
          return self->close();
        self->flush();
      }));
}

}  // namespace samples
