#include "samples/async_server/server.h"

#include <charconv>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <sluice/engine/asio.h>

#include "samples/async_server/model.h"

namespace samples {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace sluice;

namespace {

constexpr std::size_t k_longest_request = 1 << 20;

tcp::acceptor listen(asio::io_context& io, std::uint16_t port) {
  try {
    return {io, tcp::endpoint(asio::ip::address_v4::loopback(), port)};
  } catch (const boost::system::system_error& error) {
    const bool taken = error.code() == asio::error::address_in_use;
    throw Error(message(
        "port ",
        port,
        " of 127.0.0.1 ",
        taken ? "is in use by another program" : "cannot be listened at: " + error.code().message(),
        " (--port names another; without it any free one is taken)"));
  }
}

}  // namespace

Server::Server(asio::io_context& io, Engine& engine, std::size_t features, std::uint16_t port)
    : engine_(engine), acceptor_(listen(io, port)), weights_var_(engine.new_var()), weights_(weights_of(0, features)) {}

void Server::start() {
  asio::co_spawn(acceptor_.get_executor(), accept(), asio::detached);
}

void Server::stop() {
  asio::post(acceptor_.get_executor(), [this] { acceptor_.close(); });
  const std::lock_guard hold(open_mutex_);
  stopping_ = true;
  for (const auto& socket : open_)
    asio::post(socket->get_executor(), [socket] { socket->close(); });
}

asio::awaitable<void> Server::accept() {
  try {
    for (;;) {
      // A strand for each connection: it may be closed while it is served.
      auto strand = asio::make_strand(acceptor_.get_executor());
      auto socket = std::make_shared<tcp::socket>(co_await acceptor_.async_accept(strand, asio::use_awaitable));
      socket->set_option(tcp::no_delay(true));
      {
        const std::lock_guard hold(open_mutex_);
        if (stopping_)
          co_return;
        open_.insert(socket);
      }
      asio::co_spawn(strand, serve(std::move(socket)), asio::detached);
    }
  } catch (const boost::system::system_error&) {
    // the acceptor was closed
  }
}

asio::awaitable<void> Server::serve(std::shared_ptr<tcp::socket> socket) {
  std::string received;
  try {
    for (;;) {
      const std::size_t length = co_await asio::async_read_until(
          *socket, asio::dynamic_buffer(received, k_longest_request), '\n', asio::use_awaitable);
      const std::string request = received.substr(0, length - 1);
      received.erase(0, length);
      std::string reply;
      try {
        reply = co_await answer(request);
      } catch (const Error& error) {
        reply = "error " + error.message();
      }
      reply += '\n';
      co_await asio::async_write(*socket, asio::buffer(reply), asio::use_awaitable);
    }
  } catch (const boost::system::system_error&) {
    // the client has gone
  }
  const std::lock_guard hold(open_mutex_);
  open_.erase(socket);
}

asio::awaitable<std::string> Server::answer(const std::string& request) {
  const Var result = engine_.new_var();
  std::string text;
  if (request == "update") {
    engine_.push({.name = "update", .access = {write(weights_var_), out(result)}}, [this, &text] { text = update(); });
  } else {
    engine_.push({.name = "score", .access = {read(weights_var_), out(result)}}, [this, &text, &request] {
      text = score(request);
    });
  }
  co_await engine_.async_wait(result, asio::use_awaitable);
  co_return text;
}

std::string Server::score(const std::string& request) const {
  const std::string word = "score ";
  require(request.starts_with(word), [] { return "a request is \"update\" or \"score\" with numbers"; });
  std::vector<std::int64_t> features;
  features.reserve(weights_.size());
  const char* at = request.data() + word.size();
  const char* const end = request.data() + request.size();
  while (at < end) {
    std::int64_t number = 0;
    const auto [next, status] = std::from_chars(at, end, number);
    require(status == std::errc() && (next == end || *next == ' '), [] { return "score: that is not a number"; });
    features.push_back(number);
    at = next == end ? end : next + 1;
  }
  require(features.size() == weights_.size(), [&] {
    return message("score: ", features.size(), " numbers given, ", weights_.size(), " wanted");
  });
  return std::to_string(version_) + " " + std::to_string(score_of(weights_, features));
}

std::string Server::update() {
  ++version_;
  weights_ = weights_of(version_, weights_.size());
  return std::to_string(version_);
}

}  // namespace samples
