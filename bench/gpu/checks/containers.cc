// CUDA in containers with the settings of the device plugin, without MPS.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/gpu/checks/checks.h"

namespace mgpu::gpu_trial {
namespace {

Container container_of(const Trial& trial, const NodeUnderTest& node, int user) {
  return {.edits = edits_of(trial, node, share_of(30, 1'024)),
          .user = user,
          .command = {kProgramInContainer, "vector-add"}};
}

// Edits that the device plugin gives a container on this node, and what they are.
struct KindOfEdits {
  std::string name;
  const plugin::Edits* edits;
};
std::vector<KindOfEdits> kinds_of_edits(const NodeUnderTest& node, Findings& findings) {
  std::vector<KindOfEdits> kinds = {{"the files that the device plugin finds", &node.shared}};
  findings.fact("files and hooks of NVIDIA's CDI spec",
                node.toolkit ? Json{node.toolkit->mounts.size(), node.toolkit->hooks.size()}
                             : Json("(no spec that can be used)"));
  if (node.toolkit) kinds.push_back({"the files and hooks of NVIDIA's CDI spec", &*node.toolkit});
  return kinds;
}

void try_in_container(const Trial& trial, Container container, const std::string& which,
                      Findings& findings) {
  container.command = {kProgramInContainer, "vector-add"};
  expect_success(findings, "CUDA runs " + which, run_container(trial, container));
}

// nvidia-smi is one of the driver's files.
void try_nvidia_smi(const Trial& trial, Container container, const NodeUnderTest& node,
                    Findings& findings) {
  const auto binary = std::ranges::find_if(container.edits.mounts, [](const plugin::Mount& mount) {
    return mount.container_path.ends_with("/nvidia-smi");
  });
  if (binary == container.edits.mounts.end()) {
    return findings.expect("nvidia-smi lists the card in a container", false,
                           "nvidia-smi is not among the files that containers get");
  }
  container.command = {binary->container_path, "-L"};
  const auto program = run_container(trial, container);
  const std::string text = program ? program->text() : program.error().message;
  findings.fact("nvidia-smi -L in a container", text);
  findings.expect("nvidia-smi lists the card in a container",
                  text.find(node.card.uuid.str()) != std::string::npos, text);
}

}  // namespace

Result<void> check_container(const Trial& trial, Findings& findings) {
  if (!has_containers(trial, findings)) return {};
  const auto version = runc_version(trial);
  if (!version) return version.error();
  findings.fact("version of runc", version->substr(0, version->find('\n')));
  const auto node = inspect_node(trial);
  if (!node) return node.error();
  const std::pair<std::string, Share> shares[] = {{"the whole card", whole_card(*node)},
                                                  {"a share", share_of(30, 1'024)}};
  for (const KindOfEdits& kind : kinds_of_edits(*node, findings)) {
    for (const auto& [share_name, share] : shares) {
      for (const int user : {0, kOtherUser}) {
        const Container container{.edits = edits_of(trial, *node, share, *kind.edits),
                                  .user = user};
        const std::string which =
            fmt::format("as user {} with {} and {}", user, share_name, kind.name);
        try_in_container(trial, container, which, findings);
      }
    }
  }
  try_nvidia_smi(trial, container_of(trial, *node, 0), *node, findings);
  return {};
}

}  // namespace mgpu::gpu_trial
