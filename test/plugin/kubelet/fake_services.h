// Other programs' gRPC services on a socket: kubelet's PodResources and a container runtime.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mgpu::test {

// One ContainerDevices of an answer.
struct DeviceEntry {
  std::string pod;        // "namespace/name"
  std::string container;  // consecutive entries of one container become one ContainerResources
  std::string resource;
  std::vector<std::string> ids;
};

// Any thread.
class FakePodResources {
 public:
  // The status of a call ("" for OK, else "8 the message"), by its number from 1. Called on a
  // thread of the call's own, so that it may wait.
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
  // `failure`: of Status, as in Verdict.
  FakeRuntime(const std::string& socket, std::string name, std::string version,
              std::map<std::string, std::string> verbose, std::string failure = "");
  ~FakeRuntime();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::test
