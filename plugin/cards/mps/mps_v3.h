// MPS v3, the protocol of control daemons that drivers have from R615 on
// (docs.nvidia.com/deploy/mps, "MPS v3 Interface" and "MPS v3 Namespaces"). The program gets a
// command as arguments, and a daemon has servers with names and, in each, namespaces with limits. A
// program gets the limits of the namespace whose socket it connects to. It can lower its percentage
// by its environment and not raise it. As NVIDIA's engineers report, it can evade the limit of
// memory, and root, in a container as well, owns the servers and may command them.
//
// Here a daemon has one server, "mgpu", and in it one namespace for each container. This has run
// with a fake of NVIDIA's program only. Any thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/units.h"
#include "plugin/cards/mps/mps_process.h"

namespace mgpu::plugin {

// The arguments of a daemon of v3 that serves the programs of all users. Without "-m" it serves
// those of one user, who may then change the limits, too.
inline const std::vector<std::string> kMpsV3Arguments = {"-f", "-m", "-p", "3"};

// A daemon, and the time limit of all that one call below does.
struct MpsV3 {
  const std::string& control;
  const MpsFolders& folders;
  std::chrono::milliseconds timeout;
};

// Whether NVIDIA's program knows v3. Errors: it cannot be started, or does not end in time.
Result<bool> knows_mps_v3(const MpsV3& daemon);

// Returns what a daemon of v2 responds to `commands`, a line each, from what the daemon of v3 says
// of its server. Errors: no response, or a command of v2 that mgpu does not use.
Result<std::string> mps_v2_response(const MpsV3& daemon, const std::string& commands);

// Makes a namespace with the limits of a share, in the place of an earlier one of its name, and
// reads its percentage back. REQUIRES: `name` consists of lowercase letters, digits and
// underscores. Errors: one sentence.
Result<void> make_mps_namespace(const MpsV3& daemon, const std::string& name, const Share& share);
// Ends its clients, too. An error is not reported: it may not exist.
void remove_mps_namespace(const MpsV3& daemon, const std::string& name);
// The socket of a namespace. Each server has one without limits, "default".
std::string mps_namespace_socket(const MpsFolders& folders, const std::string& name);

}  // namespace mgpu::plugin
