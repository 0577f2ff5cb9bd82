#include "test/support/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace mgpu::test {
namespace {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;

Context server_context(const ServerTls& tls) {
  Context context(SSL_CTX_new(TLS_server_method()));
  MGPU_CHECK(SSL_CTX_use_certificate_chain_file(context.get(), tls.certificate_file.c_str()) == 1,
             "the test's certificate can be read");
  MGPU_CHECK(
      SSL_CTX_use_PrivateKey_file(context.get(), tls.key_file.c_str(), SSL_FILETYPE_PEM) == 1,
      "the test's key can be read");
  if (tls.client_ca_file.empty()) return context;
  SSL_CTX_load_verify_locations(context.get(), tls.client_ca_file.c_str(), nullptr);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return context;
}

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

class Connection final : public Peer {
 public:
  Connection(int socket, int number) : socket_(socket), number_(number) {}
  ~Connection() override {
    SSL_free(ssl_);
    ::close(socket_);
  }

  bool accept_tls(SSL_CTX* context) {
    ssl_ = SSL_new(context);
    SSL_set_fd(ssl_, socket_);
    return SSL_accept(ssl_) == 1;
  }

  void shut_down() { ::shutdown(socket_, SHUT_RDWR); }

  std::string read_request() override {
    while (true) {
      const std::size_t head = received_.find("\r\n\r\n");
      if (head != std::string::npos) {
        const std::string length = header_of(received_.substr(0, head + 2), "content-length");
        const std::size_t size = head + 4 + (length.empty() ? 0 : std::stoul(length));
        if (received_.size() >= size) return take(size);
      }
      if (!receive()) return {};
    }
  }

  bool send(std::string_view bytes) override {
    while (!bytes.empty()) {
      const long sent = ssl_ != nullptr
                            ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                            : ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  void wait_for_end() override {
    while (receive()) received_.clear();
  }

  int number() const override { return number_; }

 private:
  std::string take(std::size_t size) {
    std::string request = received_.substr(0, size);
    received_.erase(0, size);
    return request;
  }

  bool receive() {
    pollfd wanted{socket_, POLLIN, 0};
    const auto wait = std::chrono::milliseconds(kScriptWait);
    const bool pending = ssl_ != nullptr && SSL_pending(ssl_) > 0;
    if (!pending && ::poll(&wanted, 1, static_cast<int>(wait.count())) <= 0) return false;
    char part[16384];
    const long count =
        ssl_ != nullptr ? SSL_read(ssl_, part, sizeof part) : ::recv(socket_, part, sizeof part, 0);
    if (count > 0) received_.append(part, static_cast<std::size_t>(count));
    return count > 0;
  }

  const int socket_;
  const int number_;
  SSL* ssl_ = nullptr;
  std::string received_;
};

}  // namespace

struct ScriptedServer::State {
  State(Script on_connection, Context tls_context)
      : script(std::move(on_connection)), context(std::move(tls_context)) {
    listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    MGPU_CHECK(::bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0,
               "a free port can be bound");
    MGPU_CHECK(::listen(listener, 256) == 0, "a bound socket can listen");
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    // OpenSSL writes without MSG_NOSIGNAL.
    std::signal(SIGPIPE, SIG_IGN);
    acceptor = std::thread([this] { accept_all(); });
  }

  ~State() {
    ::shutdown(listener, SHUT_RDWR);
    acceptor.join();
    ::close(listener);
    {
      const std::lock_guard lock(mutex);
      for (const auto& connection : connections) connection->shut_down();
    }
    for (std::thread& thread : threads) thread.join();
  }

  void accept_all() {
    while (true) {
      const int socket = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket < 0) return;
      const std::lock_guard lock(mutex);
      const int number = static_cast<int>(connections.size());
      connections.push_back(std::make_shared<Connection>(socket, number));
      threads.emplace_back([this, number] { serve(number); });
    }
  }

  void serve(int number) {
    std::shared_ptr<Connection> connection;
    {
      const std::lock_guard lock(mutex);
      connection = connections[static_cast<std::size_t>(number)];
    }
    if (!context || connection->accept_tls(context.get())) script(*connection);
    connection->shut_down();
  }

  const Script script;
  const Context context;
  int listener = -1;
  std::uint16_t port = 0;
  std::mutex mutex;
  std::vector<std::shared_ptr<Connection>> connections;
  std::vector<std::thread> threads;
  std::thread acceptor;
};

ScriptedServer::ScriptedServer(Script script)
    : state_(std::make_unique<State>(std::move(script), nullptr)) {}

ScriptedServer::ScriptedServer(Script script, const ServerTls& tls)
    : state_(std::make_unique<State>(std::move(script), server_context(tls))) {}

ScriptedServer::~ScriptedServer() = default;

std::uint16_t ScriptedServer::port() const {
  return state_->port;
}

std::string answer_text(int status, std::string_view body, std::string_view headers) {
  return "HTTP/1.1 " + std::to_string(status) +
         " Text\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + std::string(headers) +
         "\r\n" + std::string(body);
}

std::string chunked_head() {
  return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
}

std::string chunk(std::string_view text) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", text.size());
  return size + std::string(text) + "\r\n";
}

std::string header_of(std::string_view request, std::string_view name) {
  for (std::size_t at = request.find("\r\n"); at != std::string_view::npos;
       at = request.find("\r\n", at + 2)) {
    const std::string_view line = request.substr(at + 2, request.find("\r\n", at + 2) - at - 2);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon != name.size()) continue;
    if (!std::equal(name.begin(), name.end(), line.begin(), same_letter)) continue;
    const std::size_t value = line.find_first_not_of(' ', colon + 1);
    return value == std::string_view::npos ? "" : std::string(line.substr(value));
  }
  return {};
}

}  // namespace mgpu::test
