#include "test/gpu/scenario.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <set>

#include "plugin/cards/yaml_fields.h"

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

void read_card(const Entry& entry, CardState& card) {
  const Fields fields(entry.node, entry.place,
                      {"uuid", "model", "memoryMiB", "reservedMiB", "idleMiB", "contextMiB",
                       "contextHiddenMiB", "multiprocessors", "computeCapability", "mig", "xids"});
  set_text(card.uuid, fields, "uuid");
  std::strcpy(card.model, "NVIDIA H200");
  if (fields.has("model")) set_text(card.model, fields, "model");
  const std::int64_t mib = fields.has("memoryMiB")
                               ? fields.number<std::int64_t>("memoryMiB", 1, kMemoryMaxMiB)
                               : 143'771;
  card.memory = static_cast<std::uint64_t>(mib) * kMiB;
  card.reserved = part(fields, "reservedMiB", 615.0625, card.memory);
  card.idle = part(fields, "idleMiB", 3.25, card.memory - card.reserved);
  card.context_charged = part(fields, "contextMiB", 518, kMemoryMax);
  card.context_hidden = part(fields, "contextHiddenMiB", 5.5625, kMemoryMax);
  card.multiprocessors = number(fields, "multiprocessors", 132, 1, 1024);
  card.is_mig = boolean(fields, "mig") ? 1 : 0;
  read_capability(fields, card);
  read_xids(fields, card);
}

void read_driver(const Fields& document, MachineState& state) {
  std::strcpy(state.driver_release, "580.159.04");
  state.cuda_version = 13'000;
  if (!document.has("driver")) return;
  const Fields fields(document.child("driver"), "driver", {"release", "cuda"});
  if (fields.has("release")) set_text(state.driver_release, fields, "release");
  state.cuda_version = number(fields, "cuda", state.cuda_version, 11'000, 99'990);
}

std::unique_ptr<MachineState> read_machine(const Value& document) {
  const Fields fields(document, "", {"driver", "cards"});
  auto state = std::make_unique<MachineState>();
  std::memcpy(state->magic, kMagic, sizeof kMagic);
  state->size = sizeof(MachineState);
  read_driver(fields, *state);
  const std::vector<Entry> cards = fields.list("cards", kCardsMax);
  if (cards.empty()) refuse(fmt::format("cards must have 1 to {} entries, found none", kCardsMax));
  std::set<std::string> uuids;
  for (const Entry& entry : cards) {
    CardState& card = state->cards[state->card_count];
    card.pci_bus = state->card_count + 1;
    read_card(entry, card);
    if (!uuids.insert(card.uuid).second) {
      refuse(fmt::format("{}.uuid must be unique, found \"{}\" twice", entry.place, card.uuid));
    }
    ++state->card_count;
  }
  return state;
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

}  // namespace mgpu::fake_gpu
