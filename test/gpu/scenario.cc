#include "test/gpu/scenario.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <set>
#include <sstream>

#include "common/base/text.h"
#include "plugin/cards/yaml_fields.h"
#include "test/gpu/machine.h"

namespace mgpu::fake_gpu {
namespace {

using plugin::yaml::Entry;
using plugin::yaml::Fields;
using plugin::yaml::refuse;
using plugin::yaml::Value;

constexpr std::int64_t kMemoryMaxMiB = kMemoryMax / kMiB;

template <std::size_t size>
void set_text(char (&to)[size], const Fields& fields, std::string_view name) {
  const std::string text = fields.text(name);
  if (text.size() >= size) {
    refuse(fmt::format("{} must be a text of 1 to {} bytes, found {} bytes", fields.place_of(name),
                       size - 1, text.size()));
  }
  std::memcpy(to, text.c_str(), text.size() + 1);
}

int number(const Fields& fields, std::string_view name, int otherwise, int least, int most) {
  return fields.has(name) ? fields.number<int>(name, least, most) : otherwise;
}

bool boolean(const Fields& fields, std::string_view name) {
  return fields.has(name) && fields.boolean(name);
}

// In whole KiB.
std::uint64_t part(const Fields& fields, std::string_view name, double otherwise,
                   std::uint64_t most) {
  const double limit = static_cast<double>(most) / static_cast<double>(kMiB);
  const double mib = fields.has(name) ? fields.number<double>(name, 0, limit) : otherwise;
  return static_cast<std::uint64_t>(std::llround(std::min(mib, limit) * 1024)) * 1024;
}

void read_capability(const Fields& fields, CardState& card) {
  card.compute_major = 9;
  if (!fields.has("computeCapability")) return;
  const double found = fields.number<double>("computeCapability", 1, 99.9);
  const int tenths = static_cast<int>(std::lround(found * 10));
  card.compute_major = tenths / 10;
  card.compute_minor = tenths % 10;
}

void read_xids(const Fields& fields, CardState& card) {
  if (!fields.has("xids")) return;
  for (const Entry& entry : fields.list("xids", kXidsMax)) {
    // A list of numbers is read as a map of one field, whose errors name the entry.
    Value one;
    one.kind = Value::Kind::kMap;
    one.set("xid", entry.node);
    const int xid = Fields(one, entry.place, {"xid"}).number<int>("xid", 1, 999);
    card.xids[card.xid_count++] = static_cast<std::uint32_t>(xid);
  }
}

void read_health(const Fields& card, HealthState& health) {
  if (!card.has("health")) return;
  const Fields fields(card.child("health"), card.place_of("health"),
                      {"lost", "recoveryAction", "remapFailed", "fabricState", "fabricStatus"});
  const auto count = [&](std::string_view name, int most) {
    return static_cast<std::uint64_t>(number(fields, name, 0, 0, most));
  };
  health.lost = boolean(fields, "lost") ? 1 : 0;
  health.recovery_action = count("recoveryAction", 99);
  health.remap_failed = boolean(fields, "remapFailed") ? 1 : 0;
  health.fabric_state = count("fabricState", 3);
  health.fabric_status = count("fabricStatus", 999);
}

bool is_link(std::string_view word) {
  if (!word.starts_with("NV")) {
    constexpr std::string_view kPaths[] = {"PIX", "PXB", "PHB", "NODE", "SYS"};
    return std::ranges::find(kPaths, word) != std::end(kPaths);
  }
  word.remove_prefix(2);
  if (word.ends_with('s') || word.ends_with('?')) word.remove_suffix(1);
  int links = 0;
  const auto [stop, code] = std::from_chars(word.data(), word.data() + word.size(), links);
  return code == std::errc() && stop == word.data() + word.size() && links >= 1 && links <= 18;
}

// A word for each card.
void read_links(const Entry& entry, CardState* cards, int own, int count) {
  const Fields fields(entry.node, entry.place, {});
  if (!fields.has("links")) return;
  const std::string text = fields.text("links");
  std::istringstream words(text);
  int found = 0;
  bool good = true;
  for (std::string word; good && words >> word; ++found) {
    good = found < count && (found == own ? word == "X" : is_link(word));
    if (good && found != own) std::strcpy(cards[own].links[found].text, word.c_str());
  }
  if (good && found == count) return;
  refuse(fmt::format(
      "{} must have {} words, of which number {} is X and each other one PIX, PXB, "
      "PHB, NODE, SYS, or NV1 to NV18 with \"s\" or \"?\" or nothing after it, found {}",
      fields.place_of("links"), count, own + 1, in_quotes(text)));
}

std::uint64_t memory(const Fields& fields) {
  return kMiB *
         static_cast<std::uint64_t>(fields.number<std::int64_t>("memoryMiB", 1, kMemoryMaxMiB));
}

// A MIG device has the rest of its card.
void read_instance(const Entry& entry, const CardState& card, CardState& instance) {
  const Fields fields(entry.node, entry.place,
                      {"uuid", "model", "memoryMiB", "multiprocessors", "gi", "ci"});
  set_text(instance.uuid, fields, "uuid");
  set_text(instance.model, fields, "model");
  instance.memory = memory(fields);
  instance.context_charged = card.context_charged;
  instance.context_hidden = card.context_hidden;
  instance.multiprocessors = number(fields, "multiprocessors", card.multiprocessors, 1, 1024);
  instance.compute_major = card.compute_major;
  instance.compute_minor = card.compute_minor;
  instance.pci_bus = card.pci_bus;
  instance.gpu_instance = number(fields, "gi", 0, 0, 99);
  instance.compute_instance = number(fields, "ci", 0, 0, 99);
}

void read_card(const Entry& entry, CardState& card) {
  const Fields fields(
      entry.node, entry.place,
      {"uuid", "model", "memoryMiB", "reservedMiB", "idleMiB", "contextMiB", "contextHiddenMiB",
       "multiprocessors", "computeCapability", "links", "mig", "instances", "xids", "health"});
  set_text(card.uuid, fields, "uuid");
  std::strcpy(card.model, "NVIDIA H200");
  if (fields.has("model")) set_text(card.model, fields, "model");
  card.memory = fields.has("memoryMiB") ? memory(fields) : 143'771 * kMiB;
  card.reserved = part(fields, "reservedMiB", 615.0625, card.memory);
  card.idle = part(fields, "idleMiB", 3.25, card.memory - card.reserved);
  card.context_charged = part(fields, "contextMiB", 518, kMemoryMax);
  card.context_hidden = part(fields, "contextHiddenMiB", 5.5625, kMemoryMax);
  card.multiprocessors = number(fields, "multiprocessors", 132, 1, 1024);
  card.is_mig = boolean(fields, "mig") ? 1 : 0;
  read_capability(fields, card);
  read_xids(fields, card);
  read_health(fields, card.health);
}

CardState& add_device(MachineState& state, int parent) {
  CardState& added = state.cards[state.device_count++];
  added.parent = parent;
  return added;
}

void read_cards(const std::vector<Entry>& cards, MachineState& state) {
  for (const Entry& entry : cards) {
    CardState& card = add_device(state, -1);
    card.pci_bus = state.device_count;
    read_card(entry, card);
  }
  const int count = state.device_count;
  for (int i = 0; i < count; ++i) {
    const Entry& entry = cards.at(static_cast<std::size_t>(i));
    read_links(entry, state.cards, i, count);
    const Fields fields(entry.node, entry.place, {});
    if (!fields.has("instances")) continue;
    if (state.cards[i].is_mig == 0) {
      refuse(
          fmt::format("{} needs {}: true", fields.place_of("instances"), fields.place_of("mig")));
    }
    constexpr std::size_t kInstancesMax = kDevicesMax / kCardsMax - 1;
    std::uint64_t memory = 0;
    for (const Entry& instance : fields.list("instances", kInstancesMax)) {
      CardState& added = add_device(state, i);
      read_instance(instance, state.cards[i], added);
      memory += added.memory;
    }
    if (memory > state.cards[i].memory) {
      refuse(fmt::format("{} must have at most the {} MiB of the card together, found {} MiB",
                         fields.place_of("instances"), state.cards[i].memory / kMiB,
                         memory / kMiB));
    }
  }
}

void read_driver(const Fields& document, MachineState& state) {
  std::strcpy(state.driver_release, "580.159.04");
  state.cuda_version = 13'000;
  if (!document.has("driver")) return;
  const Fields fields(document.child("driver"), "driver", {"release", "cuda"});
  if (fields.has("release")) set_text(state.driver_release, fields, "release");
  state.cuda_version = number(fields, "cuda", state.cuda_version, 11'000, 99'990);
}

void read_time(const Fields& document, MachineState& state) {
  const std::string time = document.has("time") ? document.text("time") : "real";
  if (time != "real" && time != "virtual") {
    refuse(fmt::format("time must be real or virtual, found {}", in_quotes(time)));
  }
  state.is_virtual = time == "virtual" ? 1 : 0;
  if (document.has("processes") && state.is_virtual == 0) refuse("processes needs time: virtual");
  state.processes_at_begin =
      static_cast<std::uint32_t>(number(document, "processes", 1, 1, kProcessesMax));
}

std::unique_ptr<MachineState> read_machine(const Value& document) {
  const Fields fields(document, "", {"driver", "time", "processes", "cards"});
  auto state = std::make_unique<MachineState>();
  std::memcpy(state->magic, kMagic, sizeof kMagic);
  state->size = sizeof(MachineState);
  read_driver(fields, *state);
  read_time(fields, *state);
  const std::vector<Entry> cards = fields.list("cards", kCardsMax);
  if (cards.empty()) refuse(fmt::format("cards must have 1 to {} entries, found none", kCardsMax));
  read_cards(cards, *state);
  std::set<std::string> uuids;
  for (int i = 0; i < state->device_count; ++i) {
    const char* const uuid = state->cards[i].uuid;
    if (!uuids.insert(uuid).second) {
      refuse(fmt::format("the uuid of each card and instance must be unique, found {} twice",
                         in_quotes(uuid)));
    }
  }
  return state;
}

struct Change {
  bool has_health = false;
  CardState card{};  // of which only health and XIDs are read
};

std::unique_ptr<Change> read_change(const Value& document) {
  const Fields fields(document, "", {"health", "xids"});
  auto change = std::make_unique<Change>();
  change->has_health = fields.has("health");
  read_health(fields, change->card.health);
  read_xids(fields, change->card);
  return change;
}

void set_health(const HealthState& from, HealthState& to) {
  for (Word HealthState::*const part :
       {&HealthState::lost, &HealthState::recovery_action, &HealthState::remap_failed,
        &HealthState::fabric_state, &HealthState::fabric_status}) {
    to.*part = (from.*part).load();
  }
}

std::string system_error(const std::string& path) {
  return fmt::format("cannot write the machine \"{}\": {}", path, std::strerror(errno));
}

}  // namespace

Result<std::unique_ptr<MachineState>> parse_scenario(std::string_view yaml) {
  return plugin::yaml::read(yaml, read_machine);
}

Result<void> create_machine(std::string_view yaml, const std::string& path) {
  const auto state = parse_scenario(yaml);
  if (!state) return error("the scenario: " + state.error().message);
  const std::string beside = path + ".new";
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return error(system_error(beside));
  const ssize_t written = ::write(file, state->get(), sizeof(MachineState));
  // Containers run as any user.
  ::fchmod(file, 0666);
  ::close(file);
  if (written != sizeof(MachineState)) return error(system_error(beside));
  if (::rename(beside.c_str(), path.c_str()) != 0) return error(system_error(path));
  return {};
}

Result<void> change_card(std::string_view yaml, const std::string& path, const std::string& uuid) {
  const auto change = plugin::yaml::read(yaml, read_change);
  if (!change) return error("the change: " + change.error().message);
  std::string why;
  const auto machine = Machine::open(path, why);
  if (machine == nullptr) return error(why);
  const int card = machine->index_of(uuid);
  if (card < 0 || machine->card(card).parent >= 0) {
    return error(fmt::format("the machine {} has no card {}", in_quotes(path), in_quotes(uuid)));
  }
  const Change& wanted = **change;
  if (wanted.has_health) set_health(wanted.card.health, machine->card(card).health);
  for (int i = 0; i < wanted.card.xid_count; ++i) machine->send_xid(card, wanted.card.xids[i]);
  return {};
}

}  // namespace mgpu::fake_gpu
