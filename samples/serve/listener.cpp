#include "samples/serve/listener.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>

namespace samples {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace sluice;

namespace {

// Where no connection can be had, as for lack of descriptors, the next try would fail as soon.
constexpr std::chrono::milliseconds k_next_try{50};

Greeting greeting_of(gluon::Server& server) {
  const std::vector<float> nothing(static_cast<std::size_t>(server.options().sample.size()));
  const gluon::ServerReply reply = server.submit(nothing);
  const NDArray answer = reply.array();
  require(answer.dtype() == float32, [&] { return message("the network gives ", answer.dtype(), ", not float32"); });
  Greeting made{{}, static_cast<std::uint32_t>(nothing.size()), static_cast<std::uint32_t>(answer.shape().size())};
  std::copy_n(k_magic, sizeof made.magic, made.magic);
  return made;
}

tcp::acceptor listen(asio::io_context& io, std::uint16_t port) {
  try {
    return {io, tcp::endpoint(asio::ip::address_v4::loopback(), port)};
  } catch (const boost::system::system_error& error) {
    throw Error(message("port ", port, " of 127.0.0.1 cannot be listened at: ", error.code().message()));
  }
}

}  // namespace

Listener::Listener(asio::io_context& io, gluon::Server& server, std::uint16_t port)
    : io_(io),
      server_(server),
      greeting_(greeting_of(server)),
      acceptor_(listen(io, port)),
      strand_(io.get_executor()),
      later_(io) {}

void Listener::start() {
  asio::post(strand_, [this] { accept(); });
}

void Listener::stop() {
  asio::post(strand_, [this] {
    error_code ignored;
    acceptor_.close(ignored);
    later_.cancel();
    for (const auto& one : connections_) {
      if (const auto connection = one.lock())
        connection->stop();
    }
  });
}

void Listener::accept() {
  const Connection::Strand strand(io_.get_executor());
  acceptor_.async_accept(strand, asio::bind_executor(strand_, [this, strand](error_code error, tcp::socket socket) {
                           if (error == asio::error::operation_aborted || !acceptor_.is_open())
                             return;
                           if (error && error != asio::error::connection_aborted)
                             return accept_later();
                           if (!error) {
                             error_code ignored;
                             socket.set_option(tcp::no_delay(true), ignored);
                             std::erase_if(connections_, [](const auto& one) { return one.expired(); });
                             const auto made =
                                 std::make_shared<Connection>(std::move(socket), strand, server_, greeting_);
                             connections_.push_back(made);
                             made->start();
                           }
                           accept();
                         }));
}

void Listener::accept_later() {
  later_.expires_after(k_next_try);
  later_.async_wait(asio::bind_executor(strand_, [this](error_code error) {
    if (!error && acceptor_.is_open())
      accept();
  }));
}

}  // namespace samples
