#include "plugin/cards/mps/mps_shares.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/cards/mps/mps_process.h"
#include "plugin/cards/mps/mps_v3.h"

namespace mgpu::plugin {
namespace {

namespace fs = std::filesystem;
using std::chrono::steady_clock;

// Where a container finds the socket of its card's daemon.
constexpr char kPipeInContainer[] = "/run/mgpu/mps";

// "7d2b0f1c9e3a4455-k2bq7zfa" is "7d2b0f1c9e3a4455_k2bq7zfa": a name has no hyphen.
std::string namespace_of(const AllocationId& id) {
  std::string name = id.str();
  std::ranges::replace(name, '-', '_');
  return name;
}

bool runs_v3(const MpsFolders& folders) {
  const auto daemon = known_mps_daemon(folders);
  return daemon && daemon->v3;
}

Result<void> make_share_folder(const std::string& shares, const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return error(fmt::format("cannot make {}: {}", in_quotes(folder), failed.message()));
  // As in make_mps_folders().
  ::chmod(shares.c_str(), 0711);
  ::chmod(folder.c_str(), 0755);
  return {};
}

Result<void> make_share(const MpsOptions& options, const MpsFolders& folders,
                        const Record& record) {
  const std::string name = namespace_of(record.id);
  const std::string folder = folders.shares + "/" + name;
  if (auto made = make_share_folder(folders.shares, folder); !made) return made;
  const MpsV3 daemon{options.control, folders, options.times.command};
  const Share& share = record.cards.front().share;
  auto made = make_mps_namespace(daemon, name, share);
  if (made) made = link_socket(mps_namespace_socket(folders, name), folder);
  // It may be without its limits.
  if (!made) remove_mps_namespace(daemon, name);
  return made;
}

// The socket of a container is that of its namespace, unless the daemon has lost the namespace.
void make_again(const MpsOptions& options, const MpsFolders& folders, const Record& record) {
  const std::string name = namespace_of(record.id);
  if (is_linked(mps_namespace_socket(folders, name), folders.shares + "/" + name)) return;
  const auto made = make_share(options, folders, record);
  if (made) {
    log_info("the MPS namespace of a container was made again",
             {{"allocation", record.id.str()}, {"card", record.cards.front().uuid.str()}});
    return;
  }
  log_warn("a container has lost its MPS namespace, and its new programs run without MPS",
           {{"allocation", record.id.str()}, {"problem", made.error().message}});
}

}  // namespace

Edits mps_edits(const MpsOptions& options, const Record& record) {
  Edits edits;
  if (record.cards.size() != 1) return edits;
  const CardGrant& card = record.cards.front();
  const MpsFolders folders = mps_folders(options.run_dir, card.uuid);
  const std::string share = folders.shares + "/" + namespace_of(record.id);
  std::error_code absent;
  // While its daemon does not run, a container that has a share keeps it.
  const bool has_share = runs_v3(folders) || fs::exists(share, absent);
  const std::string folder = has_share ? share : folders.client;
  // Writable, root in a container could replace the socket for the others, or fill `run_dir`.
  edits.mounts = {{folder, kPipeInContainer, true}};
  edits.environment = {
      {"CUDA_MPS_PIPE_DIRECTORY", kPipeInContainer},
      {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", fmt::format("0={}M", card.share.memory.value())}};
  if (card.share.core < kWholeCard) {
    edits.environment.emplace("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                              std::to_string(card.share.core.value()));
  }
  return edits;
}

Result<void> make_mps_share(const MpsOptions& options, const Record& record) {
  const MpsFolders folders = mps_folders(options.run_dir, record.cards.front().uuid);
  if (!runs_v3(folders)) return {};
  const auto made = make_share(options, folders, record);
  if (made) return made;
  return error(fmt::format("MPS of card {} cannot limit the container: {}",
                           in_quotes(record.cards.front().uuid.str()), made.error().message));
}

void keep_mps_shares(const MpsOptions& options, const CardUuid& card,
                     const std::function<std::vector<Record>()>& records,
                     steady_clock::time_point end) {
  const MpsFolders folders = mps_folders(options.run_dir, card);
  std::set<std::string> made = names_in(folders.shares);
  if (made.empty()) return;
  const bool v3 = runs_v3(folders);
  for (const Record& record : records()) {
    const bool is_here = is_part_of_one_card(record) && record.cards.front().uuid == card &&
                         made.erase(namespace_of(record.id)) != 0;
    if (is_here && v3 && steady_clock::now() < end) make_again(options, folders, record);
  }
  for (const std::string& name : made) {
    if (steady_clock::now() >= end) return;
    if (v3) remove_mps_namespace({options.control, folders, options.times.command}, name);
    std::error_code failed;
    if (v3 && fs::exists(mps_namespace_socket(folders, name), failed)) continue;
    fs::remove_all(folders.shares + "/" + name, failed);
  }
}

}  // namespace mgpu::plugin
