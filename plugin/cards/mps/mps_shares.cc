#include "plugin/cards/mps/mps_shares.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "common/base/log.h"
#include "common/base/text.h"
#include "plugin/cards/mps/mps_process.h"
#include "plugin/cards/mps/mps_v3.h"

namespace mgpu::plugin {
namespace {

namespace fs = std::filesystem;

// Where a container finds the socket of its card's daemon.
constexpr char kPipeInContainer[] = "/run/mgpu/mps";
// The bytes of the address of a socket, with its zero.
constexpr std::size_t kSocketPathMax = 108;

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

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code failed;
  fs::directory_iterator at(folder, failed);
  for (; !failed && at != fs::directory_iterator(); at.increment(failed)) {
    names.insert(at->path().filename().string());
  }
  return names;
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
  const std::string socket = mps_namespace_socket(folders, name);
  if (socket.size() >= kSocketPathMax) {
    return error(fmt::format("the MPS socket {} must have at most {} bytes", in_quotes(socket),
                             kSocketPathMax - 1));
  }
  const std::string folder = folders.shares + "/" + name;
  if (auto made = make_share_folder(folders.shares, folder); !made) return made;
  const MpsV3 daemon{options.control, folders, options.times.command};
  const Share& share = record.cards.front().share;
  if (auto made = make_mps_namespace(daemon, name, share); !made) return made;
  return link_socket(socket, folder);
}

// A namespace that its daemon does not have any more has no socket.
void make_again(const MpsOptions& options, const MpsFolders& folders, const Record& record) {
  struct stat socket {};
  if (::stat(mps_namespace_socket(folders, namespace_of(record.id)).c_str(), &socket) == 0) return;
  const auto made = make_share(options, folders, record);
  if (made) {
    log_info("the MPS namespace of a container was made again",
             {{"allocation", record.id.str()}, {"card", record.cards.front().uuid.str()}});
    return;
  }
  log_warn("a container has no MPS namespace, and its programs cannot start",
           {{"allocation", record.id.str()}, {"problem", made.error().message}});
}

}  // namespace

Edits mps_edits(const MpsOptions& options, const Record& record) {
  Edits edits;
  if (record.cards.size() != 1) return edits;
  const CardGrant& card = record.cards.front();
  const MpsFolders folders = mps_folders(options.run_dir, card.uuid);
  const std::string folder =
      runs_v3(folders) ? folders.shares + "/" + namespace_of(record.id) : folders.client;
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
                     const std::function<std::vector<Record>()>& records) {
  const MpsFolders folders = mps_folders(options.run_dir, card);
  std::set<std::string> made = names_in(folders.shares);
  if (made.empty()) return;
  const bool v3 = runs_v3(folders);
  for (const Record& record : records()) {
    const bool is_here = is_part_of_one_card(record) && record.cards.front().uuid == card &&
                         made.erase(namespace_of(record.id)) != 0;
    if (is_here && v3) make_again(options, folders, record);
  }
  for (const std::string& name : made) {
    if (v3) remove_mps_namespace({options.control, folders, options.times.command}, name);
    std::error_code failed;
    fs::remove_all(folders.shares + "/" + name, failed);
  }
}

}  // namespace mgpu::plugin
