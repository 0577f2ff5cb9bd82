// gRPC services on a socket: kubelet's PodResources and a container runtime.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mgpu::test {

// One ContainerDevices of a response.
struct DeviceEntry {
  std::string pod;        // "namespace/name"
  std::string container;  // consecutive entries of one container become one ContainerResources
  std::string resource;
  std::vector<std::string> ids;
};

// Any thread.
class FakePodResources {
 public:
  // Returns the status of call `call`, counted from 1: "" for OK, else such as "8 the message".
  // It runs on the thread of the call and may wait.
  using Verdict = std::function<std::string(int call)>;

  FakePodResources(const std::string& socket, std::vector<DeviceEntry> entries,
                   Verdict verdict = {});
  ~FakePodResources();

  int calls() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Answers Version and Status of the CRI.
class FakeRuntime {
 public:
  // `failure` is the status of Status, as in Verdict.
  FakeRuntime(const std::string& socket, std::string name, std::string version,
              std::map<std::string, std::string> verbose, std::string failure = "");
  ~FakeRuntime();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::test
