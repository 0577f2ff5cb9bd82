// The pages by which libmgpu-cuda.so limits the memory of containers (plugin/share/page.h), as the
// node has them:
//
//   <folder>/<allocation>/<card>/{limits,usage}
//
// and, where the compute of cards is shared out by turns (turn_control.h), {turn,activity} beside
// them.
//
// Each container has a file system in memory of its own that is full: it may write `usage`, and a
// longer file would take the memory of the node. They stay when this process ends, since containers
// go on without it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/base/units.h"
#include "plugin/allocation/record.h"

namespace mgpu::plugin {

// Whether the pages of a card can be made: its UUID is as NVML writes it, "GPU-" and 32 digits.
bool can_have_pages(const CardUuid& card);
// The name of the folder with the pages of a card. The library finds it by the UUID that CUDA
// returns, so that also that of a MIG device begins with "GPU-". REQUIRES: can_have_pages.
inline std::string page_folder(const CardUuid& card) {
  return "GPU-" + card.str().substr(4);
}

// Whether a file system that this process mounts below `folder` is there for the container runtime:
// it is in the mount namespace of the node, of which `proc_folder` is /proc, or the folder is
// mounted with propagation in both directions. Errors: it is not; one sentence.
Result<void> check_mounts_of_node(const std::string& folder, const std::string& proc_folder);

// Any thread; one call for an allocation at a time.
class SharePages {
 public:
  // `context` is what a context of the driver takes of a card before it allocates anything.
  SharePages(std::string folder, MiB context) : folder_(std::move(folder)), context_(context) {}

  // The folder of all pages of a container.
  std::string folder_of(const AllocationId& id) const { return folder_ + "/" + id.str(); }

  // The folder of the pages of one card.
  std::string folder_of(const AllocationId& id, const CardUuid& card) const {
    return folder_of(id) + "/" + page_folder(card);
  }
  // Makes the pages of a container that is about to start. Those of its last start stay, and what
  // was found as overhead then is forgotten. `turns`: with the files of turns. Errors: one
  // sentence; it must not start.
  Result<void> prepare(const Record& record, bool turns) const;
  // Removes the pages of a container that has ended.
  void remove(const AllocationId& id) const;

  // What processes of the container have reserved, by card: at most what it holds, and nothing by a
  // page that cannot be read, because the container writes it. Empty: it has no pages.
  std::map<CardUuid, MiB> reserved(const Record& record) const;
  // Counts this memory of a card, which no process has reserved, against the limit.
  void set_overhead(const AllocationId& id, const CardUuid& card, MiB overhead) const;
  // Removes all pages but those of these containers.
  void keep_only(const std::vector<Record>& records) const;

 private:
  Result<void> make(const Record& record, bool turns) const;
  Result<void> make_of_card(const std::string& folder, const CardGrant& grant, bool turns) const;
  bool complete(const Record& record, bool turns) const;

  const std::string folder_;
  const MiB context_;
};

}  // namespace mgpu::plugin
