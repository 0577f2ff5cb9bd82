// One call of kubelet's Registration.Register.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"
#include "plugin/kubelet/limits.h"

namespace mgpu::plugin {

struct RegistrationRequest {
  std::string kubelet_socket;
  std::string endpoint;  // name of our socket in the same folder
  std::string resource;
  bool pre_start_required = false;
};

// One thread. Within the call kubelet connects to our socket and asks for our options.
class Registration {
 public:
  // Sends the request; kRegisterTimeout begins.
  explicit Registration(const RegistrationRequest& request);
  // Ends the call where it is still in flight.
  ~Registration();

  // kubelet's answer, or none within `patience`. Not again after an answer.
  std::optional<Result<void>> answer(std::chrono::milliseconds patience);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mgpu::plugin
