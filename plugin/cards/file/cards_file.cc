#include "plugin/cards/file/cards_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/contract/limits.h"
#include "plugin/allocation/limits.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/yaml_fields.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

using yaml::check_absolute_path;
using yaml::Entry;
using yaml::Fields;
using yaml::refuse;
using yaml::Value;

constexpr double kSmPercentMax = 100;
// PID_MAX_LIMIT of Linux (include/linux/threads.h).
constexpr std::int64_t kPidMax = std::int64_t{1} << 22;
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kVariableNameCharacters =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

// --- devices and other edits ---------------------------------------------------------------------

std::vector<DeviceNode> read_devices(const Fields& from) {
  std::vector<DeviceNode> devices;
  for (const auto& [place, node] : from.list("devices", kEditsPerCardMax)) {
    if (node.is_text()) {
      check_absolute_path(node.text, place);
      devices.push_back({node.text, node.text});
      continue;
    }
    const Fields fields(node, place, {"path", "hostPath"});
    const std::string path = fields.absolute_path("path");
    devices.push_back({path, fields.has("hostPath") ? fields.absolute_path("hostPath") : path});
  }
  return devices;
}

Environment read_environment(const Value& map, const std::string& place) {
  if (!map.is_map()) refuse(fmt::format("{} must be a map of texts", place));
  Environment environment;
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const std::string& name = map.keys[i].text;
    const std::string& value = map.items[i].text;
    if (name.empty() || name.size() > kCardTextMax || kDigits.find(name[0]) != kDigits.npos ||
        name.find_first_not_of(kVariableNameCharacters) != name.npos) {
      refuse(fmt::format("{} must have names of letters, digits and _, found {}", place,
                         in_quotes(name)));
    }
    if (!map.items[i].is_text() || value.size() > kPathBytesMax || value.find('\0') != value.npos) {
      refuse(fmt::format("{}.{} must be a text of at most {} bytes", place, name, kPathBytesMax));
    }
    environment.emplace(name, value);
  }
  if (environment.size() > kEditsPerCardMax) {
    refuse(fmt::format("{} must have at most {} variables, found {}", place, kEditsPerCardMax,
                       environment.size()));
  }
  return environment;
}

Edits read_shared(const Value& node) {
  const Fields fields(node, "shared", {"devices", "environment", "mounts"});
  Edits shared;
  if (fields.has("devices")) shared.devices = read_devices(fields);
  if (fields.has("environment")) {
    shared.environment =
        read_environment(fields.child("environment"), fields.place_of("environment"));
  }
  if (!fields.has("mounts")) return shared;
  for (const auto& [place, mount] : fields.list("mounts", kEditsPerCardMax)) {
    const Fields from(mount, place, {"hostPath", "containerPath", "readOnly"});
    shared.mounts.push_back({.host_path = from.absolute_path("hostPath"),
                             .container_path = from.absolute_path("containerPath"),
                             .read_only = !from.has("readOnly") || from.boolean("readOnly")});
  }
  return shared;
}

// --- cards ---------------------------------------------------------------------------------------

// The use of a card is the sum of its processes.
CardUse read_use(const Fields& card, const CardUuid& uuid) {
  CardUse use{.uuid = uuid, .memory_used = MiB(), .sm_percent = 0, .processes = {}};
  use.measured = true;
  if (!card.has("processes")) return use;
  std::set<std::int64_t> pids;
  double percent = 0;
  for (const auto& [place, node] : card.list("processes", kProcessesPerCardMax)) {
    const Fields fields(node, place, {"pid", "memoryMiB", "smPercent"});
    ProcessUse process{
        .pid = fields.number<std::int64_t>("pid", 1, kPidMax), .memory = {}, .sm_percent = {}};
    if (fields.has("memoryMiB")) {
      process.memory = MiB(fields.number<std::int64_t>("memoryMiB", 0, kCardMemoryMiBMax));
    }
    if (fields.has("smPercent"))
      process.sm_percent = fields.number("smPercent", 0.0, kSmPercentMax);
    if (!pids.insert(process.pid).second)
      refuse(fmt::format("{}.pid {} is there twice", place, process.pid));
    *use.memory_used += process.memory.value_or(MiB());
    percent += process.sm_percent.value_or(0);
    use.measured = use.measured && process.sm_percent.has_value();
    use.processes.push_back(process);
  }
  use.sm_percent = std::min(percent, kSmPercentMax);
  return use;
}

void read_card(const Entry& entry, CardsFile& file) {
  const Fields fields(
      entry.node, entry.place,
      {"index", "uuid", "model", "memoryMiB", "health", "devices", "numa", "processes"});
  const std::string uuid = fields.text("uuid");
  if (!is_card_uuid(uuid)) {
    refuse(fmt::format("{} must be letters, digits, \"-\", \"_\" and \".\", found {}",
                       fields.place_of("uuid"), in_quotes(uuid)));
  }
  FoundCard card{.uuid = CardUuid(uuid),
                 .model = fields.text("model"),
                 .memory = MiB(fields.number<std::int64_t>("memoryMiB", 1, kCardMemoryMiBMax)),
                 .index = CardIndex(fields.number("index", 0, kCardIndexMax)),
                 .nodes = read_devices(fields)};
  if (fields.has("health")) card.health = fields.text("health");
  if (fields.has("numa")) card.numa = fields.number("numa", 0, kNumaNodeMax);
  file.use.push_back(read_use(fields, card.uuid));
  file.inventory.cards.push_back(std::move(card));
}

// The words of a line are links as nvidia-smi names them; X is the card itself.
CardLinks read_links(const Fields& root, std::size_t cards) {
  const auto lines = root.list("links", kCardsPerNodeMax);
  if (lines.size() != cards) {
    refuse(
        fmt::format("links must have a line for each of {} cards, found {}", cards, lines.size()));
  }
  std::vector<std::vector<std::string>> words;
  for (const auto& [place, line] : lines) {
    std::istringstream text(line.text);
    std::vector<std::string>& row = words.emplace_back();
    for (std::string word; text >> word;) row.push_back(word);
    if (row.size() == cards) continue;
    refuse(fmt::format("{} must have {} words, found {}", place, cards, row.size()));
  }
  CardLinks links(cards);
  for (std::size_t a = 0; a < cards; ++a) {
    if (words[a][a] != "X")
      refuse(fmt::format("links[{0}] must have X at {0}, found {1}", a, in_quotes(words[a][a])));
    for (std::size_t b = 0; b < a; ++b) {
      const auto link = link_of_name(words[a][b]);
      if (!link) refuse(fmt::format("links[{}]: {}", a, link.error().message));
      if (words[a][b] != words[b][a]) {
        refuse(
            fmt::format("links must be equal in both directions, found {} from cards[{}] to "
                        "cards[{}], and {} back",
                        in_quotes(words[a][b]), a, b, in_quotes(words[b][a])));
      }
      links.set(a, b, *link);
    }
  }
  return links;
}

void refuse_repeated_cards(const FoundCards& inventory) {
  std::map<CardUuid, std::size_t> uuids;
  std::map<CardIndex, std::size_t> indices;
  for (std::size_t i = 0; i < inventory.cards.size(); ++i) {
    const FoundCard& card = inventory.cards[i];
    if (const auto [first, is_new] = uuids.emplace(card.uuid, i); !is_new) {
      refuse(fmt::format("cards[{}].uuid {} is that of cards[{}] too", i,
                         in_quotes(card.uuid.str()), first->second));
    }
    if (const auto [first, is_new] = indices.emplace(*card.index, i); !is_new) {
      refuse(fmt::format("cards[{}].index {} is that of cards[{}] too", i, card.index->value(),
                         first->second));
    }
  }
}

// One container may get all of these devices.
void refuse_ambiguous_paths(const FoundCards& inventory) {
  std::vector<DeviceNode> devices = inventory.shared.devices;
  for (const FoundCard& card : inventory.cards) {
    devices.insert(devices.end(), card.nodes.begin(), card.nodes.end());
  }
  std::map<std::string, std::string> hosts;
  for (const DeviceNode& device : devices) {
    const auto [first, is_new] = hosts.emplace(device.path, device.host_path);
    if (is_new || first->second == device.host_path) continue;
    refuse(fmt::format("the path {} in containers means both {} and {} of the node",
                       in_quotes(device.path), in_quotes(first->second),
                       in_quotes(device.host_path)));
  }
}

}  // namespace

Result<CardsFile> parse_cards_file(std::string_view yaml) {
  return yaml::read<CardsFile>(yaml, [](const Value& document) {
    CardsFile file;
    const Fields root(document, "", {"cards", "links", "shared"});
    for (const Entry& card : root.list("cards", kCardsPerNodeMax)) read_card(card, file);
    if (root.has("links")) {
      file.inventory.links = read_links(root, file.inventory.cards.size());
    }
    if (root.has("shared")) file.inventory.shared = read_shared(root.child("shared"));
    refuse_repeated_cards(file.inventory);
    refuse_ambiguous_paths(file.inventory);
    return file;
  });
}

}  // namespace mgpu::plugin
