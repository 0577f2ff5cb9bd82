#include "plugin/cards/cards_file.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/contract/limits.h"
#include "plugin/allocation/limits.h"
#include "plugin/cards/cards_file_fields.h"
#include "plugin/cards/limits.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

constexpr double kPercentMax = 100;
// Of Linux (include/linux/threads.h, PID_MAX_LIMIT).
constexpr std::int64_t kPidMax = std::int64_t{1} << 22;

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && !is_digit(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

DeviceNode read_device(const YAML::Node& node, const std::string& place, Problem& problem) {
  if (node.IsScalar()) {
    check_absolute_path(node.Scalar(), place, problem);
    return {node.Scalar(), node.Scalar()};
  }
  const YamlFields fields(node, place, {"path", "hostPath"}, problem);
  DeviceNode device{.path = fields.absolute_path("path"), .host_path = {}};
  device.host_path = fields.has("hostPath") ? fields.absolute_path("hostPath") : device.path;
  return device;
}

std::vector<DeviceNode> read_devices(const YamlFields& from) {
  std::vector<DeviceNode> devices;
  for (const YAML::Node& node : from.list("devices", kEditsPerCardMax)) {
    devices.push_back(read_device(node, from.place("devices", devices.size()), from.problem()));
  }
  return devices;
}

// --- shared --------------------------------------------------------------------------------------

Mount read_mount(const YAML::Node& node, const std::string& place, Problem& problem) {
  const YamlFields fields(node, place, {"hostPath", "containerPath", "readOnly"}, problem);
  Mount mount{.host_path = fields.absolute_path("hostPath"),
              .container_path = fields.absolute_path("containerPath")};
  if (fields.has("readOnly")) mount.read_only = fields.truth("readOnly");
  return mount;
}

Environment read_environment(const YamlFields& from) {
  const YAML::Node map = from.child("environment");
  const std::string place = from.place("environment");
  Problem& problem = from.problem();
  Environment environment;
  if (!map.IsMap()) {
    problem.note(place + " must be a map of texts");
    return environment;
  }
  for (const auto& variable : map) {
    if (!problem.none()) break;
    const std::string name = variable.first.IsScalar() ? variable.first.Scalar() : "";
    const std::string value = variable.second.IsScalar() ? variable.second.Scalar() : "";
    if (!is_variable_name(name) || name.size() > kCardTextMax) {
      problem.note(fmt::format("{} must have names of letters, digits and _, found {}", place,
                               in_quotes(name)));
    }
    if (!variable.second.IsScalar() || value.size() > kPathBytesMax ||
        value.find('\0') != std::string::npos) {
      problem.note(
          fmt::format("{}.{} must be a text of at most {} bytes", place, name, kPathBytesMax));
    }
    if (!environment.emplace(name, value).second) {
      problem.note(fmt::format("{}.{} is there twice", place, name));
    }
  }
  if (environment.size() > kEditsPerCardMax) {
    problem.note(fmt::format("{} must have at most {} variables, found {}", place, kEditsPerCardMax,
                             environment.size()));
  }
  return environment;
}

Edits read_shared(const YamlFields& root) {
  Edits shared;
  if (!root.has("shared")) return shared;
  const YamlFields fields(root.child("shared"), "shared", {"devices", "environment", "mounts"},
                          root.problem());
  if (fields.has("devices")) shared.devices = read_devices(fields);
  if (fields.has("environment")) shared.environment = read_environment(fields);
  if (!fields.has("mounts")) return shared;
  for (const YAML::Node& node : fields.list("mounts", kEditsPerCardMax)) {
    shared.mounts.push_back(
        read_mount(node, fields.place("mounts", shared.mounts.size()), root.problem()));
  }
  return shared;
}

// --- cards ---------------------------------------------------------------------------------------

ProcessUse read_process(const YAML::Node& node, const std::string& place, Problem& problem) {
  const YamlFields fields(node, place, {"pid", "memoryMiB", "smPercent"}, problem);
  ProcessUse process{.pid = fields.whole("pid", 1, kPidMax), .memory = {}, .sm_percent = {}};
  if (fields.has("memoryMiB")) {
    process.memory = MiB(fields.whole("memoryMiB", 0, kCardMemoryMiBMax));
  }
  if (fields.has("smPercent")) process.sm_percent = fields.number("smPercent", 0, kPercentMax);
  return process;
}

// A card's use is that of its processes together.
CardUse read_use(const YamlFields& card, const CardUuid& uuid) {
  CardUse use{.uuid = uuid, .memory_used = MiB(), .sm_percent = 0, .processes = {}};
  if (!card.has("processes")) return use;
  std::set<std::int64_t> pids;
  double percent = 0;
  for (const YAML::Node& node : card.list("processes", kProcessesPerCardMax)) {
    if (!card.problem().none()) break;
    const std::string place = card.place("processes", use.processes.size());
    const ProcessUse process = read_process(node, place, card.problem());
    if (!pids.insert(process.pid).second) {
      card.problem().note(fmt::format("{}.pid {} is there twice", place, process.pid));
    }
    *use.memory_used += process.memory.value_or(MiB());
    percent += process.sm_percent.value_or(0);
    use.processes.push_back(process);
  }
  use.sm_percent = std::min(percent, kPercentMax);
  return use;
}

CardUuid read_uuid(const YamlFields& card) {
  const std::string uuid = card.text("uuid", kCardTextMax);
  if (!is_card_uuid(uuid)) {
    card.problem().note(fmt::format("{} must be letters, digits, \"-\", \"_\" and \".\", found {}",
                                    card.place("uuid"), in_quotes(uuid)));
  }
  return CardUuid(uuid);
}

void read_card(const YAML::Node& node, const std::string& place, CardsFile& file,
               Problem& problem) {
  const YamlFields fields(node, place,
                          {"index", "uuid", "model", "memoryMiB", "health", "devices", "processes"},
                          problem);
  FoundCard card{
      .uuid = read_uuid(fields),
      .model = fields.text("model", kCardTextMax),
      .memory = MiB(fields.whole("memoryMiB", 1, kCardMemoryMiBMax)),
      .index = CardIndex(static_cast<std::int32_t>(fields.whole("index", 0, kCardIndexMax))),
      .nodes = read_devices(fields)};
  if (fields.has("health")) card.health = fields.text("health", kCardTextMax);
  file.use.push_back(read_use(fields, card.uuid));
  file.inventory.cards.push_back(std::move(card));
}

// --- the whole file ------------------------------------------------------------------------------

void refuse_repeated_cards(const FoundCards& inventory, Problem& problem) {
  std::map<CardUuid, std::size_t> uuids;
  std::map<CardIndex, std::size_t> indices;
  for (std::size_t i = 0; i < inventory.cards.size(); ++i) {
    const FoundCard& card = inventory.cards[i];
    if (const auto [first, is_new] = uuids.emplace(card.uuid, i); !is_new) {
      problem.note(fmt::format("cards[{}].uuid {} is that of cards[{}] too", i,
                               in_quotes(card.uuid.str()), first->second));
    }
    if (const auto [first, is_new] = indices.emplace(*card.index, i); !is_new) {
      problem.note(fmt::format("cards[{}].index {} is that of cards[{}] too", i,
                               card.index->value(), first->second));
    }
  }
}

// A container may have all of these at once.
void refuse_ambiguous_paths(const FoundCards& inventory, Problem& problem) {
  std::map<std::string, std::string> hosts;
  const auto add = [&](const DeviceNode& device) {
    const auto [first, is_new] = hosts.emplace(device.path, device.host_path);
    if (is_new || first->second == device.host_path) return;
    problem.note(fmt::format("the path {} in containers means both {} and {} of the node",
                             in_quotes(device.path), in_quotes(first->second),
                             in_quotes(device.host_path)));
  };
  for (const DeviceNode& device : inventory.shared.devices) add(device);
  for (const FoundCard& card : inventory.cards) {
    for (const DeviceNode& device : card.nodes) add(device);
  }
}

CardsFile read_document(const YAML::Node& document, Problem& problem) {
  CardsFile file;
  const YamlFields root(document, "", {"cards", "shared"}, problem);
  const auto cards = root.list("cards", kCardsPerNodeMax);
  for (std::size_t i = 0; i < cards.size() && problem.none(); ++i) {
    read_card(cards[i], root.place("cards", i), file, problem);
  }
  file.inventory.shared = read_shared(root);
  refuse_repeated_cards(file.inventory, problem);
  refuse_ambiguous_paths(file.inventory, problem);
  return file;
}

}  // namespace

Result<CardsFile> parse_cards_file(std::string_view yaml) try {
  const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(yaml));
  if (documents.size() != 1) {
    return error(
        fmt::format("the file must have one YAML document with cards, found {}", documents.size()));
  }
  Problem problem;
  CardsFile file = read_document(documents.front(), problem);
  if (!problem.none()) return error(problem.sentence());
  return file;
} catch (const YAML::DeepRecursion& failure) {
  return error(fmt::format("line {} is nested too deeply", failure.mark.line + 1));
} catch (const YAML::Exception& failure) {
  return error(fmt::format("not YAML: line {}: {}", failure.mark.line + 1,
                           cut_text(failure.msg, kQuotedValueMax)));
} catch (const std::exception& failure) {
  return error(fmt::format("not YAML: {}", in_quotes(failure.what())));
}

}  // namespace mgpu::plugin
