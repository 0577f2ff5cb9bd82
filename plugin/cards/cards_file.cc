#include "plugin/cards/cards_file.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <type_traits>
#include <utility>

#include "common/base/limits.h"
#include "common/base/text.h"
#include "common/contract/limits.h"
#include "plugin/allocation/limits.h"
#include "plugin/cards/limits.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {
namespace {

constexpr double kSmPercentMax = 100;
// PID_MAX_LIMIT of Linux (include/linux/threads.h).
constexpr std::int64_t kPidMax = std::int64_t{1} << 22;
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kVariableNameCharacters =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";

// Ends the reading at the first error. parse_cards_file() catches it.
struct Refused {
  std::string sentence;
};

template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> sentence, Arguments&&... arguments) {
  throw Refused{fmt::format(sentence, std::forward<Arguments>(arguments)...)};
}

bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

void check_absolute_path(const std::string& path, const std::string& place) {
  const bool good = path.starts_with('/') && path.size() > 1 && path.size() <= kPathBytesMax &&
                    (path + "/").find("/../") == std::string::npos && !has_control_characters(path);
  if (!good) {
    refuse("{} must be an absolute path without \"..\", found {}", place, in_quotes(path));
  }
}

// --- fields --------------------------------------------------------------------------------------

// An entry of a list. `place` names it in sentences: "cards[1].devices[0]".
struct Entry {
  std::string place;
  YAML::Node node;
};

// The fields of one YAML map. A field that is null counts as absent.
class Fields {
 public:
  // `place` is empty for the whole file. Refuses a node that is not a map, and fields that are not
  // in `known` or occur twice.
  Fields(const YAML::Node& node, std::string place, const std::vector<std::string_view>& known)
      : node_(node), place_(std::move(place)) {
    const std::string here = place_.empty() ? "the file" : place_;
    if (!node_.IsMap()) refuse("{} must be a map with {}", here, fmt::join(known, ", "));
    std::set<std::string> seen;
    for (const auto& field : node_) {
      const std::string name = field.first.IsScalar() ? field.first.Scalar() : "";
      if (std::ranges::find(known, name) == known.end()) {
        refuse("{} has an unknown field {}, expected {}", here, in_quotes(name),
               fmt::join(known, ", "));
      }
      if (!seen.insert(name).second) refuse("{} is there twice", place_of(name));
    }
  }

  // An undefined node if the field is absent.
  YAML::Node child(std::string_view name) const {
    const YAML::Node found = std::as_const(node_)[std::string(name)];
    const bool absent = !found.IsDefined() || found.IsNull();
    return absent ? YAML::Node(YAML::NodeType::Undefined) : found;
  }

  bool has(std::string_view name) const { return child(name).IsDefined(); }

  std::string place_of(std::string_view name) const {
    return place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
  }

  // 1 to kCardTextMax bytes without control characters.
  std::string text(std::string_view name) const {
    const std::string expected = fmt::format("a text of 1 to {} bytes", kCardTextMax);
    std::string found = scalar(name, expected);
    if (found.empty() || found.size() > kCardTextMax || has_control_characters(found)) {
      refuse("{} must be {} without control characters, found {}", place_of(name), expected,
             in_quotes(found));
    }
    return found;
  }

  template <class Number>
  Number number(std::string_view name, Number least, Number most) const {
    const std::string expected = fmt::format(
        "a {}number from {} to {}", std::is_integral_v<Number> ? "whole " : "", least, most);
    const std::string found = scalar(name, expected);
    Number value{};
    const char* const end = found.data() + found.size();
    const auto [stop, code] = std::from_chars(found.data(), end, value);
    // Written so that "nan" is out of range.
    if (code == std::errc() && stop == end && value >= least && value <= most) return value;
    refuse("{} must be {}, found {}", place_of(name), expected, in_quotes(found));
  }

  bool boolean(std::string_view name) const {
    const std::string found = scalar(name, "true or false");
    if (found != "true" && found != "false") {
      refuse("{} must be true or false, found {}", place_of(name), in_quotes(found));
    }
    return found == "true";
  }

  std::string absolute_path(std::string_view name) const {
    std::string found = scalar(name, "an absolute path");
    check_absolute_path(found, place_of(name));
    return found;
  }

  std::vector<Entry> list(std::string_view name, std::size_t most) const {
    const YAML::Node found = child(name);
    if (!found.IsDefined() || !found.IsSequence()) {
      refuse("{} must be a list, found {}", place_of(name),
             found.IsDefined() ? "something else" : "nothing");
    }
    if (found.size() > most) {
      refuse("{} must have at most {} entries, found {}", place_of(name), most, found.size());
    }
    std::vector<Entry> entries;
    for (const YAML::Node& node : found) {
      entries.push_back({fmt::format("{}[{}]", place_of(name), entries.size()), node});
    }
    return entries;
  }

 private:
  std::string scalar(std::string_view name, std::string_view expected) const {
    const YAML::Node found = child(name);
    if (found.IsDefined() && found.IsScalar()) return found.Scalar();
    refuse("{} must be {}, found {}", place_of(name), expected,
           !found.IsDefined() ? "nothing"
           : found.IsMap()    ? "a map"
                              : "a list");
  }

  YAML::Node node_;
  std::string place_;
};

// --- devices and other edits ---------------------------------------------------------------------

std::vector<DeviceNode> read_devices(const Fields& from) {
  std::vector<DeviceNode> devices;
  for (const auto& [place, node] : from.list("devices", kEditsPerCardMax)) {
    if (node.IsScalar()) {
      check_absolute_path(node.Scalar(), place);
      devices.push_back({node.Scalar(), node.Scalar()});
      continue;
    }
    const Fields fields(node, place, {"path", "hostPath"});
    const std::string path = fields.absolute_path("path");
    devices.push_back({path, fields.has("hostPath") ? fields.absolute_path("hostPath") : path});
  }
  return devices;
}

Environment read_environment(const YAML::Node& map, const std::string& place) {
  if (!map.IsMap()) refuse("{} must be a map of texts", place);
  Environment environment;
  for (const auto& variable : map) {
    const std::string name = variable.first.IsScalar() ? variable.first.Scalar() : "";
    const std::string value = variable.second.IsScalar() ? variable.second.Scalar() : "";
    if (name.empty() || name.size() > kCardTextMax || kDigits.find(name[0]) != kDigits.npos ||
        name.find_first_not_of(kVariableNameCharacters) != name.npos) {
      refuse("{} must have names of letters, digits and _, found {}", place, in_quotes(name));
    }
    if (!variable.second.IsScalar() || value.size() > kPathBytesMax ||
        value.find('\0') != value.npos) {
      refuse("{}.{} must be a text of at most {} bytes", place, name, kPathBytesMax);
    }
    if (!environment.emplace(name, value).second) refuse("{}.{} is there twice", place, name);
  }
  if (environment.size() > kEditsPerCardMax) {
    refuse("{} must have at most {} variables, found {}", place, kEditsPerCardMax,
           environment.size());
  }
  return environment;
}

Edits read_shared(const YAML::Node& node) {
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
    if (!pids.insert(process.pid).second) refuse("{}.pid {} is there twice", place, process.pid);
    *use.memory_used += process.memory.value_or(MiB());
    percent += process.sm_percent.value_or(0);
    use.processes.push_back(process);
  }
  use.sm_percent = std::min(percent, kSmPercentMax);
  return use;
}

void read_card(const Entry& entry, CardsFile& file) {
  const Fields fields(entry.node, entry.place,
                      {"index", "uuid", "model", "memoryMiB", "health", "devices", "processes"});
  const std::string uuid = fields.text("uuid");
  if (!is_card_uuid(uuid)) {
    refuse("{} must be letters, digits, \"-\", \"_\" and \".\", found {}", fields.place_of("uuid"),
           in_quotes(uuid));
  }
  FoundCard card{.uuid = CardUuid(uuid),
                 .model = fields.text("model"),
                 .memory = MiB(fields.number<std::int64_t>("memoryMiB", 1, kCardMemoryMiBMax)),
                 .index = CardIndex(fields.number("index", 0, kCardIndexMax)),
                 .nodes = read_devices(fields)};
  if (fields.has("health")) card.health = fields.text("health");
  file.use.push_back(read_use(fields, card.uuid));
  file.inventory.cards.push_back(std::move(card));
}

void refuse_repeated_cards(const FoundCards& inventory) {
  std::map<CardUuid, std::size_t> uuids;
  std::map<CardIndex, std::size_t> indices;
  for (std::size_t i = 0; i < inventory.cards.size(); ++i) {
    const FoundCard& card = inventory.cards[i];
    if (const auto [first, is_new] = uuids.emplace(card.uuid, i); !is_new) {
      refuse("cards[{}].uuid {} is that of cards[{}] too", i, in_quotes(card.uuid.str()),
             first->second);
    }
    if (const auto [first, is_new] = indices.emplace(*card.index, i); !is_new) {
      refuse("cards[{}].index {} is that of cards[{}] too", i, card.index->value(), first->second);
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
    refuse("the path {} in containers means both {} and {} of the node", in_quotes(device.path),
           in_quotes(first->second), in_quotes(device.host_path));
  }
}

// --- documents -----------------------------------------------------------------------------------

class IgnoredEvents final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// Does not use YAML::LoadAll(), which finds documents without end in a text such as ", a".
void check_one_document(const std::string& yaml) {
  std::istringstream stream(yaml);
  YAML::Parser parser(stream);
  IgnoredEvents ignored;
  const bool any = parser.HandleNextDocument(ignored);
  const bool more = any && parser.HandleNextDocument(ignored);
  if (any && !more) return;
  refuse("the file must have one YAML document with cards, found {}", any ? "more" : "none");
}

}  // namespace

Result<CardsFile> parse_cards_file(std::string_view yaml) try {
  const std::string text(yaml);
  check_one_document(text);
  CardsFile file;
  const Fields root(YAML::Load(text), "", {"cards", "shared"});
  for (const Entry& card : root.list("cards", kCardsPerNodeMax)) read_card(card, file);
  if (root.has("shared")) file.inventory.shared = read_shared(root.child("shared"));
  refuse_repeated_cards(file.inventory);
  refuse_ambiguous_paths(file.inventory);
  return file;
} catch (const Refused& refused) {
  return error(refused.sentence);
} catch (const YAML::DeepRecursion& failure) {
  return error(fmt::format("line {} is nested too deeply", failure.mark.line + 1));
} catch (const YAML::Exception& failure) {
  return error(fmt::format("not YAML: line {}: {}", failure.mark.line + 1,
                           json_escaped(cut_text(failure.msg, kQuotedValueMax))));
} catch (const std::exception& failure) {
  return error(fmt::format("not YAML: {}", in_quotes(failure.what())));
}

}  // namespace mgpu::plugin
