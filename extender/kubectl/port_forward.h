// `kubectl port-forward` to a port of a pod, as a child process. So every way to log in that
// kubectl has works, and the right to create pods/portforward decides who may.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/ids.h"
#include "common/base/result.h"

namespace mgpu::kubectl {

struct PortForwardTarget {
  PodRef pod;
  std::uint16_t port = 0;            // of the pod
  std::uint16_t local = 0;           // on 127.0.0.1; 0: any free one
  std::vector<std::string> flags{};  // of kubectl, such as --context=c
};

// The port in kubectl's line "Forwarding from 127.0.0.1:40123 -> 9802"; 0 if `line` is another one.
std::uint16_t forwarded_port(std::string_view line);

class PortForward {
 public:
  // Starts the program `kubectl` in $PATH, and waits until it listens on a port of 127.0.0.1.
  // Errors: it cannot be started; it ends, with its last line; it does not listen within `timeout`.
  // The process ends with this one, also if this one is killed.
  static Result<std::unique_ptr<PortForward>> start(const PortForwardTarget& target,
                                                    std::chrono::milliseconds timeout);
  // Ends the process: SIGTERM, and SIGKILL after kPortForwardEndTimeout.
  ~PortForward();
  PortForward(const PortForward&) = delete;
  PortForward& operator=(const PortForward&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  explicit PortForward(pid_t child, UniqueFd output) : child_(child), output_(std::move(output)) {}
  Result<void> wait_for_port(std::chrono::milliseconds timeout);

  const pid_t child_;
  const UniqueFd output_;  // its standard output and error
  std::uint16_t port_ = 0;
};

}  // namespace mgpu::kubectl
