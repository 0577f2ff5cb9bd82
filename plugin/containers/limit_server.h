// The socket on which mgpu-set-limits asks for the memory limits of a container that is being
// created (plugin/hook/limit_protocol.h).
//
//   client: Accepted --request complete or too long--> Answered --> Closed
//             +--no request within the request timeout, or it disconnects--> Closed
//   A client of another user is closed at once.
//
// One thread serves all clients. It reads from up to kLimitClientsMax at a time, and handles their
// requests one after the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/files.h"
#include "common/base/result.h"
#include "plugin/allocation/record.h"
#include "plugin/containers/limits.h"
#include "plugin/kubelet/socket_file.h"

namespace mgpu::plugin {

class LimitServer {
 public:
  // Sets the limits of the container whose first process is `pid`. Runs on the server's thread, and
  // must end within a few seconds. Errors: one sentence why the container must not start.
  using Handler = std::function<Result<void>(const AllocationId& id, std::int64_t pid)>;

  // Listens on `path`, which replaces the socket of an earlier process, and which only the user of
  // this process can use. Errors: the socket cannot be made.
  static Result<std::unique_ptr<LimitServer>> start(
      const std::string& path, Handler handler,
      std::chrono::milliseconds request_timeout = kLimitRequestTimeout);
  // Ends the thread, and removes the socket unless another process has replaced it.
  ~LimitServer();
  LimitServer(const LimitServer&) = delete;
  LimitServer& operator=(const LimitServer&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  struct Client {
    UniqueFd connection;
    std::string request;
    Clock::time_point deadline;
  };

  LimitServer(std::string path, Handler handler, std::chrono::milliseconds request_timeout);
  Result<void> listen();
  void run();
  // Waits until a connection or data has arrived, or a request is overdue. False: the server ends.
  bool wait();
  int timeout() const;
  void accept_all();
  // Returns whether the client is done.
  bool serve(Client& client);
  void answer(const Client& client);

  const std::string path_;
  const Handler handler_;
  const std::chrono::milliseconds request_timeout_;
  UniqueFd listening_;
  UniqueFd end_read_;  // readable once end_write_ is closed
  UniqueFd end_write_;
  FileIdentity identity_;
  // Used by the thread.
  std::vector<Client> clients_;
  bool has_no_descriptor_ = false;  // the last connection could not be accepted
  std::thread thread_;
};

}  // namespace mgpu::plugin
