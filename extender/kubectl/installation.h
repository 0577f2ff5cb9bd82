// Where mgpu is installed.
#pragma once

#include <string>
#include <vector>

#include "extender/kubectl/cluster.h"
#include "extender/kubectl/doctor/facts.h"

namespace mgpu::kubectl {

inline constexpr const char* kExtenderAccount = "mgpu-extender";
// Labels of the pods of mgpu; the chart has one name for all.
inline constexpr const char* kProgramLabels =
    "app.kubernetes.io/name in (mgpu,mgpu-extender,mgpu-device-plugin)";

// The pods of mgpu that run in the namespace. `what` begins the sentence of a problem: "list the
// device plugins".
Fact<std::vector<ProgramPod>> running_programs(Api& api, const std::string& name_space,
                                               const std::string& what);

// The user that a service account is for the API server.
kube::UserInfo service_account_user(const std::string& name_space, const std::string& account);

struct Installation {
  std::string name_space;
  std::string account = kExtenderAccount;  // the service account of the extender
  bool found = false;                      // it has pods or the Lease of mgpu
  std::vector<std::string> elsewhere{};    // other namespaces with an installation
  // Whether pods with a service account of this namespace are trusted with the user's token.
  bool takes_tokens = false;
};

// `given` is the namespace, if the user named one; else it is that of the pods and the Lease of
// mgpu, or mgpu-system without any. Everybody may make such objects in a namespace of their own,
// and nobody but an administrator can let a service account bind pods: a namespace with such an
// account comes before others.
Installation find_installation(Api& api, const std::string& given, const std::string& lease_name);
// The same without a look at other namespaces if one is given.
Installation installation_at(Api& api, const std::string& given, const std::string& lease_name);

}  // namespace mgpu::kubectl
