// Serving: one network, many threads that ask it, and requests that come together run as one batch.
#include <iostream>
#include <thread>
#include <vector>

#include <sluice/sluice.h>

using namespace sluice;
namespace nn = gluon::nn;

int main() {
  const Device device = num_gpus() > 0 ? gpu(0) : cpu();
  nn::Sequential net;
  net.add(nn::Dense(32, {.activation = "relu"}), nn::Dense(4));
  net.initialize(gluon::init::Xavier(), device);

  // The shortest answer: each thread's request runs at once.
  const gluon::Predictor predict(net, zeros({1, 8}, {.device = device}));
  std::vector<std::vector<float>> scores(4, std::vector<float>(4));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    threads.emplace_back([&predict, &mine = scores[i]] {
      const std::vector<float> sample(8, 0.5f);
      for (int request = 0; request < 100; ++request)
        predict(sample, mine);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  std::cout << "four threads, one answer: " << (scores[0] == scores[3] ? "yes" : "no") << "\n";

  // The most answers: a server makes batches of what waits.
  gluon::Server server(net, {.sample = {8}, .device = device, .max_batch = 16});
  std::vector<gluon::ServerReply> replies;
  for (int request = 0; request < 64; ++request)
    replies.push_back(server.submit(std::vector<float>(8, 0.5f)));
  for (const gluon::ServerReply& reply : replies)
    reply.wait();
  const auto stats = server.stats();
  std::cout << stats.requests << " requests, fewer batches: " << (stats.batches < stats.requests ? "yes" : "no")
            << "\n";
}
