#include "test/support/raw_http.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <utility>

namespace mgpu::test {

namespace {

struct FreeSession {
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};
std::unique_ptr<SSL_SESSION, FreeSession> last_session;

int keep_session(SSL*, SSL_SESSION* session) {
  last_session.reset(session);
  return 1;
}

int connect_to(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval wait{.tv_sec = kRawWait.count(), .tv_usec = 0};
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

// "a,b" in the format of ALPN, with the length before each name.
std::string alpn(const std::string& names) {
  std::string out;
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    out += static_cast<char>(end - at) + names.substr(at, end - at);
    at = end + 1;
  }
  return out;
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

struct RawClient::State {
  explicit State(std::uint16_t port) : fd(connect_to(port)) { std::signal(SIGPIPE, SIG_IGN); }
  ~State() {
    // Otherwise OpenSSL does not resume the session.
    if (ssl) SSL_set_shutdown(ssl, SSL_SENT_SHUTDOWN);
    SSL_free(ssl);
    SSL_CTX_free(context);
    if (fd >= 0) close(fd);
  }

  void start_tls(const RawTls& tls) {
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
    SSL_CTX_load_verify_locations(context, tls.ca_file.c_str(), nullptr);
    if (!tls.certificate_file.empty()) {
      SSL_CTX_use_certificate_chain_file(context, tls.certificate_file.c_str());
      SSL_CTX_use_PrivateKey_file(context, tls.key_file.c_str(), SSL_FILETYPE_PEM);
    }
    if (tls.version_max != 0) SSL_CTX_set_max_proto_version(context, tls.version_max);
    // The sessions in the cache of a context cannot be resumed after its end.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, keep_session);
    const std::string names = alpn(tls.protocols);
    SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(names.data()),
                            static_cast<unsigned>(names.size()));
    ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    if (tls.resume && last_session) SSL_set_session(ssl, last_session.get());
    shaken_hands = SSL_connect(ssl) == 1;
  }

  // The number of bytes, 0 at the end, negative after a reset or timeout.
  long read_some() {
    std::array<char, 16384> bytes;
    const long n =
        ssl ? SSL_read(ssl, bytes.data(), bytes.size()) : recv(fd, bytes.data(), bytes.size(), 0);
    if (n > 0) unread.append(bytes.data(), static_cast<std::size_t>(n));
    const bool waited_in_vain =
        ssl ? SSL_get_error(ssl, static_cast<int>(n)) == SSL_ERROR_WANT_READ : errno == EAGAIN;
    closed = n <= 0 && !waited_in_vain;
    return n;
  }

  // False if the connection is closed first.
  bool read_until(std::size_t bytes) {
    while (unread.size() < bytes) {
      if (read_some() <= 0) return false;
    }
    return true;
  }

  int fd;
  SSL_CTX* context = nullptr;
  SSL* ssl = nullptr;
  bool shaken_hands = true;
  bool closed = false;
  std::string unread;
};

RawClient::RawClient(std::uint16_t port) : state_(std::make_unique<State>(port)) {}

RawClient::RawClient(std::uint16_t port, const RawTls& tls) : RawClient(port) {
  if (connected()) state_->start_tls(tls);
}

RawClient::~RawClient() = default;
RawClient::RawClient(RawClient&&) noexcept = default;

bool RawClient::connected() const {
  return state_->fd >= 0 && state_->shaken_hands;
}

std::string RawClient::protocol() const {
  const unsigned char* name = nullptr;
  unsigned length = 0;
  SSL_get0_alpn_selected(state_->ssl, &name, &length);
  return {reinterpret_cast<const char*>(name), length};
}

bool RawClient::resumed() const {
  return SSL_session_reused(state_->ssl) == 1;
}

std::string RawClient::server_name() const {
  X509* certificate = SSL_get1_peer_certificate(state_->ssl);
  std::array<char, 256> name{};
  if (certificate) {
    X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name.data(),
                              name.size());
  }
  X509_free(certificate);
  return name.data();
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const long n = state_->ssl
                       ? SSL_write(state_->ssl, bytes.data(), static_cast<int>(bytes.size()))
                       : ::send(state_->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void RawClient::end_sending() {
  shutdown(state_->fd, SHUT_WR);
}

RawResponse RawClient::read_response(bool with_body) {
  std::string& unread = state_->unread;
  std::size_t end = std::string::npos;
  while ((end = unread.find("\r\n\r\n")) == std::string::npos) {
    if (state_->read_some() <= 0) return {};
  }
  RawResponse response;
  response.status = std::atoi(unread.substr(9, 3).c_str());
  for (std::size_t at = unread.find("\r\n") + 2; at < end;) {
    const std::string line = unread.substr(at, unread.find("\r\n", at) - at);
    const std::size_t colon = line.find(": ");
    response.headers[lower(line.substr(0, colon))] = line.substr(colon + 2);
    at += line.size() + 2;
  }
  unread.erase(0, end + 4);
  const std::size_t length = with_body ? std::stoul(response.headers["content-length"]) : 0;
  if (!state_->read_until(length)) return {};
  response.body = unread.substr(0, length);
  unread.erase(0, length);
  return response;
}

std::string RawClient::read_some() {
  if (state_->unread.empty()) state_->read_some();
  return std::exchange(state_->unread, "");
}

bool RawClient::is_closed() const {
  return state_->closed;
}

std::string RawClient::read_to_end() {
  while (state_->read_some() > 0) {
  }
  return std::exchange(state_->unread, "");
}

bool RawClient::ends() {
  return state_->unread.empty() && state_->read_some() == 0;
}

std::string post_text(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

std::string get_text(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

}  // namespace mgpu::test
