#include "plugin/containers/limit_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/hook/limit_protocol.h"

namespace mgpu::plugin {
namespace {

// Connections that have not been accepted yet; further ones are refused at once.
constexpr int kBacklog = 64;
constexpr char kStarting[] = ".new";
// How long no connection is accepted after the process had no descriptor for one.
constexpr int kNoDescriptorMs = 100;

// Whether the client runs as the user of this process, which is root on a node.
bool of_own_user(int connection) {
  ucred client{};
  socklen_t size = sizeof client;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &client, &size) == 0 &&
         client.uid == ::geteuid();
}

// One line.
std::string reply_of(const Result<void>& outcome) {
  if (outcome) return std::string(kLimitsSet);
  std::string sentence = outcome.error().message;
  std::ranges::replace(sentence, '\n', ' ');
  std::string reply = std::string(cut_text(sentence, kLimitReplyBytesMax - 1)) + "\n";
  MGPU_DEBUG_CHECK(reply.size() <= kLimitReplyBytesMax && reply.find('\n') == reply.size() - 1,
                   "a reply is one line that the hook reads");
  return reply;
}

}  // namespace

LimitServer::LimitServer(std::string path, Handler handler,
                         std::chrono::milliseconds request_timeout)
    : path_(std::move(path)), handler_(std::move(handler)), request_timeout_(request_timeout) {}

Result<std::unique_ptr<LimitServer>> LimitServer::start(const std::string& path, Handler handler,
                                                        std::chrono::milliseconds timeout) {
  std::unique_ptr<LimitServer> server(new LimitServer(path, std::move(handler), timeout));
  if (auto listening = server->listen(); !listening) {
    return error(fmt::format("cannot listen on {}: {}", path, listening.error().message));
  }
  server->thread_ = std::thread([raw = server.get()] { raw->run(); });
  return server;
}

LimitServer::~LimitServer() {
  end_write_.close();
  if (thread_.joinable()) thread_.join();
  if (listening_.is_open()) remove_file(path_, identity_);
}

// Before listen() no client can connect, so that the mode is set in time.
Result<void> LimitServer::listen() {
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), problem);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return error(std::strerror(errno));
  end_read_ = UniqueFd(ends[0]);
  end_write_ = UniqueFd(ends[1]);
  UniqueFd listening(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Renamed once it listens, so that an earlier process answers until then.
  const std::string starting = path_ + kStarting;
  if (auto fits = check_socket_path(starting); !fits) return fits;
  std::ranges::copy(starting, address.sun_path);
  ::unlink(starting.c_str());
  const auto* const bound = reinterpret_cast<const sockaddr*>(&address);
  if (!listening.is_open() || ::bind(listening.number(), bound, sizeof address) != 0 ||
      ::chmod(starting.c_str(), S_IRUSR | S_IWUSR) != 0 ||
      ::listen(listening.number(), kBacklog) != 0 ||
      std::rename(starting.c_str(), path_.c_str()) != 0) {
    return error(std::strerror(errno));
  }
  listening_ = std::move(listening);
  if (const auto identity = file_identity(path_)) identity_ = *identity;
  return {};
}

void LimitServer::run() {
  while (wait()) {
    std::erase_if(clients_, [this](Client& client) { return serve(client); });
    accept_all();
  }
}

// The time until the first request is overdue, for poll().
int LimitServer::timeout() const {
  if (clients_.empty()) return has_no_descriptor_ ? kNoDescriptorMs : -1;
  const auto first = std::ranges::min_element(clients_, {}, &Client::deadline)->deadline;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now()).count();
  const std::int64_t most = has_no_descriptor_ ? kNoDescriptorMs : kLimitRequestTimeout.count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, most));
}

bool LimitServer::wait() {
  // While no connection can be accepted, they wait in the backlog.
  const bool accepts = clients_.size() < kLimitClientsMax && !has_no_descriptor_;
  std::vector<pollfd> waiting = {{end_read_.number(), POLLIN, 0},
                                 {accepts ? listening_.number() : -1, POLLIN, 0}};
  for (const Client& client : clients_) {
    waiting.push_back({client.connection.number(), POLLIN, 0});
  }
  ::poll(waiting.data(), waiting.size(), timeout());
  return waiting.front().revents == 0;
}

void LimitServer::accept_all() {
  while (clients_.size() < kLimitClientsMax) {
    UniqueFd connection(
        ::accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    has_no_descriptor_ = !connection.is_open() && errno != EAGAIN && errno != ECONNABORTED;
    if (!connection.is_open()) return;
    if (!of_own_user(connection.number())) continue;
    clients_.push_back({std::move(connection), "", Clock::now() + request_timeout_});
    MGPU_DEBUG_CHECK(clients_.size() <= kLimitClientsMax, "others wait in the backlog");
  }
}

bool LimitServer::serve(Client& client) {
  char part[kLimitRequestBytesMax];
  const ssize_t count = ::recv(client.connection.number(), part, sizeof part, MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Clock::now() >= client.deadline;
  if (count <= 0) return true;
  client.request.append(part, static_cast<std::size_t>(count));
  const bool complete = client.request.ends_with('\n');
  if (!complete && client.request.size() <= kLimitRequestBytesMax) return false;
  answer(client);
  return true;
}

// The reply is shorter than the buffer of a connection.
void LimitServer::answer(const Client& client) {
  // The hook may have given up, and the pid may belong to another process.
  char next = 0;
  if (::recv(client.connection.number(), &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0) return;
  const auto request = parse_limit_request(client.request);
  const AllocationId id(request ? request->allocation : "");
  Result<void> outcome = error("this is not a request of mgpu-set-limits");
  if (request && valid(id)) outcome = handler_(id, request->pid);
  if (!outcome) {
    log_warn("the GPU memory of a container is not limited, and it does not start",
             {{"allocation", id.str()}, {"problem", outcome.error().message}});
  }
  const std::string reply = reply_of(outcome);
  ::send(client.connection.number(), reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace mgpu::plugin
