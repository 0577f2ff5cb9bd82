// Reads all cards through NVML again and again, whatever state the driver is in.
//
// A read gets the number of cards, and then for each card its handle, UUID, facts and health. Cards
// are kept by UUID: a handle is valid until the library is closed, and an index may belong to
// another card after one was lost.
//
// The session closes the library, so that the next read opens it again, if
//   - a call returns a code that says that the library or the driver is unusable (ends_session);
//   - /proc shows another number of cards than at the start, since NVML never adds cards to its
//     first list;
//   - kNvmlReopenReads reads in a row did not see every card, since only a new start sees a card
//     that has come back; the number doubles each time, up to kNvmlReopenReadsMax;
//   - the driver is released (NvmlSource::release).
// A single such read is not enough: a card may fail one call and succeed at the next, and a new
// start invalidates all handles and registered events.
//
// XIDs arrive as events (xid_events.h) if the driver has them. They only say that a read is due,
// and which error occurred; nvml_health.h decides about health. Cards without events are probed by
// regular reads.
//
// current_card() serves the thread that waits for this one: a call to a broken card may never
// return, and then that card is reported.
#include "plugin/cards/nvml/nvml_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/contract/limits.h"

namespace mgpu::plugin::nvml {
namespace {

constexpr char kUnnamedCard[] = "NVIDIA GPU";

// Empty if it is not known.
std::string system_text(int (*function)(char*, unsigned)) {
  char text[kTextBytes] = {};
  if (function == nullptr || function(text, sizeof text - 1) != kOk) return {};
  return text;
}

std::string or_unknown(const std::string& version) {
  return version.empty() ? "of an unknown version" : version;
}

// The number of cards of the kernel module, including those that do not work.
std::size_t cards_in_proc(const std::string& node_root) {
  return names_in(joined(node_root, "/proc/driver/nvidia/gpus")).size();
}

// Whether the kernel module is that of this driver.
bool has_module_of(const std::string& driver_version, const std::string& node_root) {
  constexpr std::size_t kBytesMax = std::size_t{4} << 10;
  const auto text = read_file(joined(node_root, "/proc/driver/nvidia/version"), kBytesMax,
                              "version of the driver");
  return text && !driver_version.empty() && text->find(driver_version) != text->npos;
}

// What a driver reserves may change by some MiB; the node's capacity does not follow each time.
MiB least_memory(std::optional<MiB>& least, MiB read) {
  least = std::min(least.value_or(read), read);
  return *least;
}

// After these codes the library returns nothing useful until it is opened again.
bool ends_session(int code) {
  return code == kUninitialized || code == kDriverNotLoaded || code == kVersionMismatch;
}

}  // namespace

// --- opening and closing -------------------------------------------------------------------------

Result<void> Session::open() {
  auto library = Library::open(options_.libraries.empty()
                                   ? nvml_libraries(options_.node_root, options_.driver_root)
                                   : options_.libraries);
  if (!library) return library.error();
  library_ = *library;
  const Functions& f = library_->functions();
  const int code = f.init();
  mismatches_ = code == kVersionMismatch ? mismatches_ + 1 : 0;
  if (code != kOk) {
    const Error why = failed("nvmlInit_v2", code);
    library_.reset();
    return why;
  }
  was_open_ = true;
  driver_version_ = system_text(f.driver_version);
  description_ = fmt::format("NVML {} (driver {})", or_unknown(system_text(f.nvml_version)),
                             or_unknown(driver_version_));
  cards_at_open_ = cards_in_proc(options_.node_root);
  incomplete_reads_ = 0;
  events_.open(*library_);
  log_info("NVML opened", {{"version", description_}, {"library", library_->name()}});
  return {};
}

// The loader may keep a library that was closed, and returns it for the same path although another
// file has replaced it. A process that has never opened NVML has no such library, and where only
// the files were replaced, a new process would find the same mismatch.
std::string Session::needs_restart() const {
  if (!was_open_ || mismatches_ < kMismatchesMax ||
      has_module_of(driver_version_, options_.node_root))
    return {};
  return "the driver was replaced since NVML was opened, and this process may still have the "
         "library of the earlier one; it ends so that a new process loads the library again";
}

void Session::close() {
  if (!library_) return;
  events_.close(*library_);
  library_->functions().shutdown();
  for (auto& [uuid, card] : cards_) {
    card.device = nullptr;
    card.least_memory.reset();
  }
  library_.reset();
  linked_.clear();
  links_ = {};
}

void Session::release() {
  close();
  for (auto& [uuid, card] : cards_) card.health.note_release();
}

Error Session::failed(const char* function, int code) const {
  return error(fmt::format("NVML {}: {} failed: {}{}", library_->name(), function,
                           library_->describe(code), advice_for(code)));
}

DriverPlace Session::place() const {
  const std::string& given = options_.driver_root;
  return {.node_root = options_.node_root,
          .driver_root = given.empty() ? driver_root_of(library_->name()) : given,
          .version = driver_version_,
          .nvml = library_->file()};
}

// In the Windows Subsystem for Linux programs reach the cards through /dev/dxg, which is of all
// cards together; a card has no minor number.
bool Session::is_wsl() const {
  const bool none_has_nodes = std::ranges::all_of(
      cards_, [](const auto& entry) { return entry.second.facts.nodes.empty(); });
  return (!cards_.empty() && none_has_nodes) || path_on_node(options_.node_root, "/dev/dxg");
}

// --- cards ---------------------------------------------------------------------------------------

Result<FoundCards> Session::read() {
  if (!library_) {
    if (auto opened = open(); !opened) return opened.error();
  }
  unsigned count = 0;
  if (const int code = library_->functions().device_count(&count); code != kOk) {
    const Error why = failed("nvmlDeviceGetCount_v2", code);
    if (ends_session(code)) close();
    return why;
  }
  events_.reopen_if_due(*library_);
  std::vector<FoundCard> unreadable;
  const auto cards = read_cards(count, unreadable);
  auto found = cards;
  read_instances(found);
  for (auto& [uuid, card] : cards_) {
    if (std::ranges::find(found, &card) == found.end()) card.device = nullptr;
  }
  files_.read(place(), is_wsl());
  FoundCards result{.cards = {}, .shared = files_.shared(), .toolkit = files_.toolkit()};
  bool complete = cards.size() == count;
  for (Card* const card : cards) {
    complete = complete && card->responds;
    events_.add(*library_, card->facts.uuid, card->device);
  }
  for (const Card* const card : found) {
    result.cards.push_back(card->facts);
    std::string& health = result.cards.back().health;
    if (health == kHealthy && !files_.missing().empty()) health = files_.missing();
  }
  add_links(cards, result);
  // Cards that were read before and are lost now may be some of these.
  const auto is_lost = [](const auto& entry) {
    return entry.second.device == nullptr && entry.second.instance_of.empty();
  };
  const auto all_lost = static_cast<std::size_t>(std::ranges::count_if(cards_, is_lost));
  const std::size_t lost = std::min(all_lost, unreadable.size());
  result.cards.insert(result.cards.end(), unreadable.begin() + std::ptrdiff_t(lost),
                      unreadable.end());
  if (options_.prepare_node) files_.link_devices(place(), result);
  reopen_if_needed(complete);
  return result;
}

// REQUIRES: `cards` are `found`.
void Session::add_links(const std::vector<Card*>& found, FoundCards& cards) {
  std::vector<Device> devices;
  for (const Card* const card : found) devices.push_back(card->device);
  if (found.size() > kCardsPerNodeMax) return;
  if (devices != linked_ || ++reads_of_links_ >= kLinkReads) {
    std::vector<LinkedCard> linked;
    for (const Card* const card : found) linked.push_back({card->device, card->facts.uuid.str()});
    links_ = read_links(*library_, linked, options_.node_root,
                        [&](const LinkedCard& card) { set_current_card(find_card(card.device)); });
    set_current_card(nullptr);
    linked_ = std::move(devices);
    reads_of_links_ = 0;
  }
  cards.links = links_.links;
  cards.links_problem = links_.problem;
  for (std::size_t i = 0; i < found.size(); ++i) cards.cards[i].numa = links_.numa[i];
}

void Session::reopen_if_needed(bool complete) {
  incomplete_reads_ = complete ? 0 : incomplete_reads_ + 1;
  if (complete) reopen_after_ = kNvmlReopenReads;
  const bool changed = cards_in_proc(options_.node_root) != cards_at_open_;
  if (!changed && incomplete_reads_ < reopen_after_) return;
  if (!changed) reopen_after_ = std::min(2 * reopen_after_, kNvmlReopenReadsMax);
  log_info("NVML is reopened",
           {{"reason", changed ? "cards were added or removed" : "cards are missing"}});
  close();
}

// `unreadable` gets those that NVML counts and does not identify.
std::vector<Session::Card*> Session::read_cards(unsigned count,
                                                std::vector<FoundCard>& unreadable) {
  std::vector<Card*> found;
  const auto cannot_read = [&](unsigned index, const std::string& why) {
    unreadable.push_back({.uuid = CardUuid(fmt::format("NVML-{}", index)),
                          .model = {},
                          .memory = {},
                          .health = std::string(cut_text("cannot be read: " + why, kCardTextMax)),
                          .unreadable = true});
  };
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (const int code = library_->functions().device_by_index(i, &device); code != kOk) {
      cannot_read(i, library_->describe(code));
      continue;
    }
    Card* const card = identify_card(device);
    if (card == nullptr) cannot_read(i, "it has no UUID");
    if (card == nullptr || std::ranges::find(found, card) != found.end()) continue;
    update_card(*card);
    found.push_back(card);
  }
  return found;
}

// Adds the MIG devices of the cards, which then are no cards that containers can have.
void Session::read_instances(std::vector<Card*>& found) {
  const std::vector<Card*> cards = found;
  std::optional<InstanceCaps> caps;
  for (Card* const card : cards) {
    if (!card->responds) keep_instances(*card, found);
    if (!card->partitioned || !card->responds) continue;
    set_current_card(card);
    const std::vector<Device> instances = instances_of(*library_, card->device);
    set_current_card(nullptr);
    card->facts.health = instances.empty() ? "MIG is on or pending, and the card has no MIG devices"
                                           : std::string(kPartitioned);
    if (!instances.empty() && !caps) caps = read_instance_caps(options_.node_root);
    std::map<std::string, std::vector<Card*>> by_gpu_instance;
    for (const Device instance : instances) {
      Card* const one = identify_card(instance);
      // "MIG-GPU-<UUID>/<GPU instance>/<compute instance>" is the name of another device later.
      if (one == nullptr) {
        card->facts.health =
            "has MIG devices without UUIDs of their own, as with drivers before R470";
      }
      if (one == nullptr || std::ranges::find(found, one) != found.end()) continue;
      by_gpu_instance[update_instance(*card, *one, *caps)].push_back(one);
      found.push_back(one);
    }
    // NVML reports the same memory for each of them ("Shared Memory-Usage" of nvidia-smi).
    for (const auto& [gpu_instance, devices] : by_gpu_instance) {
      if (gpu_instance.empty() || devices.size() < 2) continue;
      for (Card* const one : devices) {
        if (one->facts.health == kHealthy)
          one->facts.health = "shares the memory of its GPU instance with another MIG device";
      }
    }
  }
}

// A card that does not respond may respond again, with the same devices.
void Session::keep_instances(const Card& of, std::vector<Card*>& found) {
  for (auto& [uuid, card] : cards_) {
    if (card.instance_of != of.facts.uuid || card.device == nullptr) continue;
    card.responds = false;
    card.facts.health = of.health.text();
    found.push_back(&card);
  }
}

// Returns the name of its GPU instance, empty if it is not known.
std::string Session::update_instance(const Card& of, Card& card, const InstanceCaps& caps) {
  set_current_card(&card);
  const InstanceReading reading = read_instance(*library_, card.device);
  set_current_card(nullptr);
  card.instance_of = of.facts.uuid;
  FoundCard& facts = card.facts;
  if (!reading.model.empty()) facts.model = reading.model;
  if (reading.memory && !reading.memory->zero()) {
    facts.memory =
        least_memory(card.least_memory, *reading.memory).minus_saturating(options_.reserve);
  }
  facts.compute_capability = of.facts.compute_capability;
  facts.compute_mode = of.facts.compute_mode;
  card.responds = reading.problem.empty();
  facts.health = reading.problem.empty() ? of.health.text() : reading.problem;
  facts.nodes = of.facts.nodes;
  const std::string gpu = fmt::format("gpu{}", of.minor.value_or(0));
  for (const std::string& part : reading.parts) {
    const auto minor = caps.find(gpu + "/" + part + "/access");
    if (minor == caps.end()) continue;
    facts.nodes.push_back(
        device_node(place(), fmt::format("/dev/nvidia-caps/nvidia-cap{}", minor->second)));
  }
  const bool are_there = std::ranges::all_of(facts.nodes, [&](const DeviceNode& node) {
    return path_on_node(options_.node_root, node.host_path).has_value();
  });
  // That of the card, of the GPU instance and of the compute instance.
  if (facts.health == kHealthy && (facts.nodes.size() != 3 || !are_there))
    facts.health = "has no device nodes in /dev/nvidia-caps";
  return reading.parts.empty() ? std::string() : reading.parts.front();
}

Session::Card* Session::find_card(Device device) {
  for (auto& [uuid, card] : cards_) {
    if (card.device == device) return &card;
  }
  return nullptr;
}

// Returns the card of a handle; null if NVML does not return its UUID.
Session::Card* Session::identify_card(Device device) {
  Card* const known = find_card(device);
  set_current_card(known);
  const CardUuid uuid = uuid_of(*library_, device);
  set_current_card(nullptr);
  if (uuid.empty() || (known != nullptr && known->facts.uuid == uuid)) return known;
  Card& card = cards_[uuid];
  card.device = device;
  card.facts.uuid = uuid;
  events_.forget(uuid);
  if (card.facts.model.empty()) card.facts.model = kUnnamedCard;
  return &card;
}

void Session::update_card(Card& card) {
  set_current_card(&card);
  const CardReading reading = read_card(*library_, card.device);
  set_current_card(nullptr);
  FoundCard& facts = card.facts;
  if (!reading.model.empty()) facts.model = reading.model;
  if (reading.memory && !reading.memory->zero()) {
    facts.memory =
        least_memory(card.least_memory, *reading.memory).minus_saturating(options_.reserve);
  }
  if (reading.unified) facts.memory = options_.unified_memory.value_or(kNoMemoryOfItsOwn);
  if (reading.compute_capability) facts.compute_capability = reading.compute_capability;
  facts.compute_mode = reading.compute_mode;
  card.minor = reading.minor ? reading.minor : card.minor;
  if (reading.minor) {
    facts.nodes = {device_node(place(), fmt::format("/dev/nvidia{}", *reading.minor))};
  }
  card.health.note_probe(reading.probe);
  card.responds = reading.probe.code == kOk || reading.probe.code == kNotSupported;
  card.partitioned = reading.mig;
  facts.health = reading.mig ? std::string(kPartitioned) : card.health.text();
  if (facts.health == kHealthy && facts.nodes.empty()) facts.health = "has no device node";
}

std::vector<CardUse> Session::use() {
  std::vector<CardUse> all;
  for (auto& [uuid, card] : cards_) {
    // The processes on a card with MIG are those of its devices.
    if (!library_ || card.device == nullptr || !card.responds || card.partitioned) continue;
    set_current_card(&card);
    if (auto use = read_use(*library_, card.device, uuid, card.seen_us)) {
      all.push_back(*std::move(use));
    }
    set_current_card(nullptr);
  }
  return all;
}

void Session::set_current_card(const Card* card) {
  const MutexLock lock(mutex_);
  current_card_ = card != nullptr ? card->facts.uuid : CardUuid();
}

CardUuid Session::current_card() const {
  const MutexLock lock(mutex_);
  return current_card_;
}

// --- XIDs ----------------------------------------------------------------------------------------

std::optional<bool> Session::wait_for_xids() {
  if (!library_) return std::nullopt;
  return events_.wait(*library_, [this](const Event& event) { return note_event(event); });
}

// Returns whether the cards should be read now.
bool Session::note_event(const Event& event) {
  if (event.type != kEventXid) return true;
  Card* const card = find_card(event.device);
  const bool ignored = options_.xids_ignored.contains(event.value);
  log_warn(ignored ? "XID caused by a program" : "XID",
           {{"card", card != nullptr ? card->facts.uuid.str() : "unknown"},
            {"xid", std::to_string(event.value)}});
  if (card == nullptr) return true;
  card->health.note_xid(event.value, options_.xids_ignored);
  return !ignored;
}

}  // namespace mgpu::plugin::nvml
