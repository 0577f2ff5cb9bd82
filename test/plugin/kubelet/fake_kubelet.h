// kubelet's side of the device plugin API as in kubernetes v1.36.3 (pkg/kubelet/cm/devicemanager/
// plugin/v1beta1/{server,handler,client}.go): during Register it connects to the plugin and asks
// for the options. Then it reads the list until the stream ends, and removes the plugin that is
// registered for the resource at that time.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "plugin/kubelet/device_plugin.h"

namespace mgpu::test {

using namespace plugin;

inline constexpr std::chrono::seconds kKubeletWait{20};

// Polls the condition. Returns false if it is still false after kKubeletWait.
bool eventually(const std::function<bool()>& condition);

// A new folder, which the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A received ContainerAllocateResponse.
struct AllocateAnswer {
  std::map<std::string, std::string> environment;
  std::vector<std::string> cdi_devices;
  std::map<std::string, std::string> annotations;
};

// Any thread.
class FakeKubelet {
 public:
  // Removes all sockets in the folder and listens on kubelet.sock, as kubelet does.
  explicit FakeKubelet(std::string folder);
  ~FakeKubelet();

  // From now on, registrations fail with this error; with an empty one they succeed.
  void refuse(std::string reason);
  // While `hold` is true, calls of Register do not return.
  void hold_registrations(bool hold);
  // Ends the stream of the plugin, as kubelet does after an invalid response.
  void cut_stream(const std::string& resource);

  // "resource endpoint version" of each Register so far, including refused ones.
  std::vector<std::string> registrations() const;
  // The number of received lists, and the ids of the last list. Nothing while no plugin is
  // connected.
  int lists(const std::string& resource) const;
  std::optional<std::vector<std::string>> devices(const std::string& resource) const;
  bool pre_start_required(const std::string& resource) const;

  // Calls the connected plugin. `requests` has the ids of each container request.
  Result<std::vector<AllocateAnswer>> allocate(
      const std::string& resource, const std::vector<std::vector<std::string>>& requests);
  Result<void> pre_start(const std::string& resource, const std::vector<std::string>& ids,
                         std::chrono::milliseconds timeout = kKubeletWait);
  Result<void> preferred_allocation(const std::string& resource);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Sends `bytes` as the request of a gRPC call such as "v1beta1.DevicePlugin/Allocate". Returns the
// status code.
int call_with_bytes(const std::string& socket, const std::string& method, std::string_view bytes);
// Opens a connection, sends `bytes`, reads for a short time and closes.
void send_raw_bytes(const std::string& socket, std::string_view bytes);
// Creates a socket on which no process listens, as a killed process leaves it.
void leave_dead_socket(const std::string& path);

}  // namespace mgpu::test
