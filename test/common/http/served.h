// A server under test, which records its events.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/http/server.h"
#include "test/support/raw_http.h"

namespace mgpu::http {

// Written by the threads of the server, read by that of the test.
class Seen {
 public:
  void add(std::string text) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(text));
    more_.notify_all();
  }
  // False if it has not been added this often after test::kRawWait.
  bool wait_for(const std::string& text, int times = 1) {
    std::unique_lock lock(mutex_);
    return more_.wait_for(lock, test::kRawWait,
                          [&] { return std::ranges::count(all_, text) >= times; });
  }
  std::vector<std::string> all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::string> all_;
};

class Served {
 public:
  explicit Served(Handler handler, ServerOptions options = {}) {
    options.address = "127.0.0.1";
    ServerEvents events;
    events.on_refused = [this](const char* why) { refused.add(why); };
    events.on_problem = [this](const std::string& text) { problems.add(text); };
    events.on_connections = [this](std::size_t open) { connections.add(std::to_string(open)); };
    auto started = Server::start(std::move(options), std::move(handler), std::move(events));
    server = started ? std::move(*started) : nullptr;
    problem = started ? "" : started.error().message;
  }

  test::RawClient connect() const { return test::RawClient(server->port()); }
  test::RawClient connect(const test::RawTls& tls) const {
    return test::RawClient(server->port(), tls);
  }
  // The response to one request, on a new connection.
  test::RawResponse ask(const std::string& bytes) const {
    auto client = connect();
    client.send(bytes);
    return client.read_response();
  }

  Seen refused;
  Seen problems;
  Seen connections;
  std::unique_ptr<Server> server;
  std::string problem;  // of start(), or empty
};

// Responds with the method, the path, the query and the size of the body.
inline void describe(Request request, Respond respond) {
  respond({.content_type = "text/plain",
           .body = request.method + " " + request.path + " " + request.query + " " +
                   std::to_string(request.body.size())});
}

// Responds with the body of the request.
inline void echo(Request request, Respond respond) {
  respond({.body = std::move(request.body)});
}

}  // namespace mgpu::http
