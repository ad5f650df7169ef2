#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <sluice/gluon/server.h>

#include "samples/serve/connection.h"
#include "samples/serve/protocol.h"

namespace samples {

/// Accepts clients on the loopback address, whose samples go to `server`.
class Listener {
 public:
  /// Port 0 = any free one. Asks the network once, for how much it answers. `io` must outlive both; the server may
  /// stop before.
  Listener(boost::asio::io_context& io, sluice::gluon::Server& server, std::uint16_t port);

  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  /// Until stop(), which closes all connections. Any thread.
  void start();
  void stop();

 private:
  void accept();
  void accept_later();

  boost::asio::io_context& io_;
  sluice::gluon::Server& server_;
  const Greeting greeting_;
  boost::asio::ip::tcp::acceptor acceptor_;
  Connection::Strand strand_;
  boost::asio::steady_timer later_;
  std::vector<std::weak_ptr<Connection>> connections_;  // on the strand
};

}  // namespace samples
