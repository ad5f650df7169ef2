#include "samples/async_server/load.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <sstream>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/system_error.hpp>

#include <sluice/engine/error.h>

#include "samples/async_server/model.h"

namespace samples {

namespace asio = boost::asio;
using asio::ip::tcp;
using sluice::Error;
using sluice::message;
using sluice::require;

namespace {

constexpr int k_update_every = 16;
constexpr int k_malformed_every = 50;

/// One connection's requests and what it knows of the right answers.
class Conversation {
 public:
  Conversation(const LoadOptions& options, int number) : options_(options), number_(number) {}

  std::string next_request() {
    ++sent_;
    if (sent_ % k_malformed_every == 0)
      return "score 1 2 x\n";
    if (sent_ % k_update_every == 0)
      return "update\n";
    features_.resize(options_.features);
    std::string text = "score";
    for (std::size_t i = 0; i < features_.size(); ++i) {
      features_[i] = static_cast<std::int64_t>((i * 7 + static_cast<std::size_t>(sent_ + number_)) % 13) - 6;
      text += ' ' + std::to_string(features_[i]);
    }
    return text + '\n';
  }

  void check(const std::string& reply, LoadReport& report) {
    if (sent_ % k_malformed_every == 0) {
      require<Error>(reply.starts_with("error "), [&] { return "a malformed request was answered: " + reply; });
      ++report.refusals;
      return;
    }
    std::istringstream in(reply);
    std::uint64_t version = 0;
    std::int64_t score = 0;
    const bool update = sent_ % k_update_every == 0;
    require<Error>(in >> version && (update || in >> score), [&] { return "not an answer: " + reply; });
    // An update raises the version, and nobody sees an older one afterwards.
    require<Error>(
        version >= seen_ + (update ? 1 : 0), [&] { return message("version ", version, " after version ", seen_); });
    seen_ = version;
    ++(update ? report.updates : report.scores);
    if (update)
      return;
    const std::int64_t right = score_of(weights_of(version, options_.features), features_);
    require<Error>(score == right, [&] { return message("score ", score, " at version ", version, ", not ", right); });
  }

 private:
  const LoadOptions& options_;
  const int number_;
  int sent_ = 0;
  std::uint64_t seen_ = 0;
  std::vector<std::int64_t> features_;
};

// What went wrong between the server and us, without Boost's own lines.
Error network_error(std::uint16_t port, const boost::system::error_code& code) {
  if (code == asio::error::connection_refused)
    return Error(
        message("no server listens at 127.0.0.1:", port, " (async_server --serve --port ", port, " starts one)"));
  const bool gone =
      code == asio::error::eof || code == asio::error::connection_reset || code == asio::error::broken_pipe;
  return Error(message("the server at 127.0.0.1:", port, gone ? " closed the connection" : ": " + code.message()));
}

asio::awaitable<void> converse(const LoadOptions& options, int number, LoadReport& report) {
  tcp::socket socket(co_await asio::this_coro::executor);
  const tcp::endpoint server(asio::ip::address_v4::loopback(), options.port);
  co_await socket.async_connect(server, asio::use_awaitable);
  socket.set_option(tcp::no_delay(true));
  Conversation conversation(options, number);
  std::string received;
  for (int i = 0; i < options.requests; ++i) {
    const std::string request = conversation.next_request();
    const auto start = std::chrono::steady_clock::now();
    co_await asio::async_write(socket, asio::buffer(request), asio::use_awaitable);
    const std::size_t length =
        co_await asio::async_read_until(socket, asio::dynamic_buffer(received), '\n', asio::use_awaitable);
    report.latencies.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    conversation.check(received.substr(0, length - 1), report);
    received.erase(0, length);
  }
}

}  // namespace

LoadReport run_load(const LoadOptions& options) {
  asio::io_context io;
  LoadReport report;
  std::exception_ptr failure;
  const auto start = std::chrono::steady_clock::now();
  for (int number = 0; number < options.connections; ++number) {
    asio::co_spawn(io, converse(options, number, report), [&](std::exception_ptr error) {
      if (error == nullptr || failure != nullptr)
        return;
      failure = error;
      io.stop();
    });
  }
  io.run();
  if (failure != nullptr) {
    try {
      std::rethrow_exception(failure);
    } catch (const boost::system::system_error& error) {
      throw network_error(options.port, error.code());
    }
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::sort(report.latencies.begin(), report.latencies.end());
  return report;
}

}  // namespace samples
