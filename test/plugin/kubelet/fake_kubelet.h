// kubelet's side of the device plugin API as kubernetes v1.36.3 plays it (pkg/kubelet/cm/
// devicemanager/plugin/v1beta1/{server,handler,client}.go): within Register it connects back and
// asks for the options; then it reads the list until the stream ends, and then drops the plugin it
// knows by that resource's name, whichever that is.
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

// Looks again and again until it is true; false after kKubeletWait.
bool eventually(const std::function<bool()>& condition);

// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// ContainerAllocateResponse as it came over the wire.
struct AllocateAnswer {
  std::map<std::string, std::string> environment;
  std::vector<std::string> mounts;   // "host:container:ro"
  std::vector<std::string> devices;  // "host:container:permissions"
  std::vector<std::string> cdi_devices;
};

// Any thread.
class FakeKubelet {
 public:
  // Starts as kubelet does: removes all sockets in the folder, then listens on kubelet.sock there.
  explicit FakeKubelet(std::string folder);
  ~FakeKubelet();

  // Registrations are answered with this error from now on; empty: are taken.
  void refuse(std::string reason);
  // Register is answered only after this many more looks of eventually(): never, until released.
  void hold_registrations(bool hold);
  // Ends the stream of the plugin, as kubelet does after an answer it cannot take.
  void cut_stream(const std::string& resource);

  // "resource endpoint version", of every Register so far, refused ones too.
  std::vector<std::string> registrations() const;
  // How often a list came, and the last one; none while no plugin is connected.
  int lists(const std::string& resource) const;
  std::optional<std::vector<Device>> devices(const std::string& resource) const;
  bool pre_start_required(const std::string& resource) const;

  // By the connected plugin. `requests`: the ids of each container request.
  Result<std::vector<AllocateAnswer>> allocate(
      const std::string& resource, const std::vector<std::vector<std::string>>& requests);
  Result<void> pre_start(const std::string& resource, const std::vector<std::string>& ids,
                         std::chrono::milliseconds timeout = kKubeletWait);
  Result<void> preferred_allocation(const std::string& resource);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Sends `bytes` as the request of a gRPC call, whatever they are: "v1beta1.DevicePlugin/Allocate".
// The answer's status code.
int call_with_bytes(const std::string& socket, const std::string& method, std::string_view bytes);
// A connection that sends `bytes`, reads what comes for a moment and closes.
void send_raw_bytes(const std::string& socket, std::string_view bytes);
// A socket that nobody listens to, as a killed process leaves it.
void leave_dead_socket(const std::string& path);

}  // namespace mgpu::test
