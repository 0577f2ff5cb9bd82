// Reading all cards through NVML, again and again, through every trouble that a driver may have.
//
// A read asks the number of cards, then each card for a handle, its UUID, and its facts and health.
// Cards are kept by UUID: a handle is valid for one start of the library only, and an index may
// belong to another card after one was lost.
//
// What makes the session start the library anew, with the next read:
//   - an answer that says that the library or the driver is not usable any more (ends_session);
//   - another number of cards in /proc than at the start: NVML goes on with its first list for
//   ever;
//   - kNvmlReopenReads reads in a row that did not see every card: one that has come back
//     is seen after a new start only.
// One such read alone does not: a card may fail one call and answer the next, and a new start gives
// up all handles and registered events.
//
// XIDs come as events where the driver has them. They only say that it is time for a read, and
// which error it was; health is decided in nvml_health.h. A driver or card without events is probed
// by the regular reads all the same.
//
// at_card() is for the thread that waits for this one: a call into a broken card may never return,
// and then the log says which card it was.
#include "plugin/cards/nvml_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/text.h"
#include "plugin/cards/driver_files.h"
#include "plugin/cards/limits.h"

namespace mgpu::plugin::nvml {
namespace {

std::string system_text(SystemText* function) {
  char text[kTextBytes] = {};
  if (function == nullptr || function(text, sizeof text - 1) != kOk) return "of an unknown version";
  return text;
}

constexpr std::string_view kMig = "MIG";
constexpr char kUnnamedCard[] = "NVIDIA GPU";

// After these every answer of the library is worthless until it is started anew.
bool ends_session(int code) {
  return code == kUninitialized || code == kDriverNotLoaded || code == kVersionMismatch;
}

}  // namespace

Session::Session(NvmlOptions options) : options_(std::move(options)) {}

Session::~Session() {
  close();
}

// --- open and close ------------------------------------------------------------------------------

Result<void> Session::open() {
  auto library = Library::open(options_.libraries);
  if (!library) return library.error();
  library_ = *library;
  const Functions& f = library_->functions();
  if (const int code = f.init(); code != kOk) {
    const Error why = failed("nvmlInit_v2", code);
    library_.reset();
    return why;
  }
  description_ = fmt::format("NVML {} (driver {})", system_text(f.nvml_version),
                             system_text(f.driver_version));
  shared_ = {.devices = control_nodes(options_.node_root),
             .mounts = driver_libraries(options_.node_root, options_.driver_root),
             .environment = {}};
  cards_at_open_ = cards_in_proc();
  incomplete_reads_ = 0;
  open_events();
  log_info("NVML opened", {{"version", description_}, {"library", library_->name()}});
  return {};
}

void Session::close() {
  if (!library_) return;
  close_events();
  library_->functions().shutdown();
  for (auto& [uuid, card] : cards_) card.device = nullptr;
  library_.reset();
}

Error Session::failed(const std::string& what, int code) const {
  return error(fmt::format("NVML {}: {} failed: {}{}", library_->name(), what,
                           library_->describe(code), advice_for(code)));
}

// What the kernel module knows of, whether it works or not.
std::size_t Session::cards_in_proc() const {
  const std::filesystem::path root(options_.node_root);
  std::error_code failure;
  std::filesystem::directory_iterator at(root / "proc/driver/nvidia/gpus", failure);
  std::size_t count = 0;
  while (!failure && at != std::filesystem::directory_iterator()) {
    ++count;
    at.increment(failure);
  }
  return count;
}

// NVML goes on with the cards that were there when it was started: one that was added, or has come
// back, is seen after a new start only.
void Session::close_if_cards_stay_away(bool all_answer) {
  incomplete_reads_ = all_answer ? 0 : incomplete_reads_ + 1;
  const bool changed = cards_in_proc() != cards_at_open_;
  if (!changed && incomplete_reads_ < kNvmlReopenReads) return;
  log_info("NVML is started anew", {{"cards", changed ? "come or gone" : "missing for long"}});
  close();
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
  if (events_ == nullptr && ++reads_without_events_ >= kNvmlReopenReads) open_events();
  FoundCards inventory{.cards = {}, .shared = shared_};
  bool all_answer = true;
  const auto found = read_cards(count);
  for (Card* const card : found) {
    all_answer = all_answer && card->answers;
    watch(*card);
    inventory.cards.push_back(card->facts);
  }
  close_if_cards_stay_away(all_answer && found.size() == count);
  return inventory;
}

std::vector<Session::Card*> Session::read_cards(unsigned count) {
  std::vector<Card*> found;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    if (library_->functions().device_by_index(i, &device) != kOk) continue;
    Card* const card = card_of(device);
    if (card == nullptr || std::find(found.begin(), found.end(), card) != found.end()) continue;
    look_at(*card);
    found.push_back(card);
  }
  for (auto& [uuid, card] : cards_) {
    if (std::find(found.begin(), found.end(), &card) == found.end()) card.device = nullptr;
  }
  return found;
}

Session::Card* Session::known_card(Device device) {
  for (auto& [uuid, card] : cards_) {
    if (card.device == device) return &card;
  }
  return nullptr;
}

Session::Card* Session::card_of(Device device) {
  Card* const known = known_card(device);
  set_at_card(known);
  const CardUuid uuid = uuid_of(*library_, device);
  set_at_card(nullptr);
  if (uuid.empty() || (known != nullptr && known->facts.uuid == uuid)) return known;
  Card& card = cards_[uuid];
  card.device = device;
  card.has_events = false;
  card.facts.uuid = uuid;
  if (card.facts.model.empty()) card.facts.model = kUnnamedCard;
  return &card;
}

void Session::look_at(Card& card) {
  set_at_card(&card);
  const CardReading reading = read_card(*library_, card.device);
  set_at_card(nullptr);
  FoundCard& facts = card.facts;
  if (!reading.model.empty()) facts.model = reading.model;
  if (reading.memory) facts.memory = *reading.memory;
  if (reading.minor) {
    const std::string node = fmt::format("/dev/nvidia{}", *reading.minor);
    facts.nodes = {{node, node}};
  }
  card.health.note_probe(reading.probe);
  card.answers = reading.probe.code == kOk || reading.probe.code == kNotSupported;
  facts.health = reading.mig ? std::string(kMig) : card.health.text();
  if (facts.health == kHealthy && facts.nodes.empty()) facts.health = "has no device node";
}

std::vector<CardUse> Session::use() {
  std::vector<CardUse> all;
  for (auto& [uuid, card] : cards_) {
    if (!library_ || card.device == nullptr || !card.answers) continue;
    set_at_card(&card);
    if (auto use = read_use(*library_, card.device, uuid, card.seen_us)) {
      all.push_back(*std::move(use));
    }
    set_at_card(nullptr);
  }
  return all;
}

void Session::set_at_card(const Card* card) {
  const MutexLock lock(at_mutex_);
  at_card_ = card != nullptr ? card->facts.uuid : CardUuid();
}

CardUuid Session::at_card() const {
  const MutexLock lock(at_mutex_);
  return at_card_;
}

// --- XIDs ----------------------------------------------------------------------------------------

void Session::open_events() {
  const Functions& f = library_->functions();
  reads_without_events_ = 0;
  if (!f.has_events() || f.event_set_create(&events_) != kOk) events_ = nullptr;
}

void Session::close_events() {
  if (events_ != nullptr) library_->functions().event_set_free(std::exchange(events_, nullptr));
  for (auto& [uuid, card] : cards_) card.has_events = false;
}

// A card that has no events is probed all the same.
void Session::watch(Card& card) {
  if (events_ == nullptr || card.has_events) return;
  const Functions& f = library_->functions();
  unsigned long long supported = 0;
  if (f.event_types(card.device, &supported) != kOk) return;
  supported &= kEventXid | kEventGpuUnavailable | kEventRecoveryAction;
  if (supported == 0) return;
  card.has_events = f.register_events(card.device, supported, events_) == kOk;
}

std::optional<bool> Session::wait_for_xids() {
  const auto watched = [](const auto& entry) { return entry.second.has_events; };
  if (events_ == nullptr || std::none_of(cards_.begin(), cards_.end(), watched)) {
    return std::nullopt;
  }
  const auto& wait = library_->functions().event_set_wait;
  auto patience = static_cast<unsigned>(kXidWait.count());
  bool changed = false;
  for (int i = 0; i < kXidsAtOnceMax; ++i) {
    Event event{};
    const int code = wait(events_, &event, std::exchange(patience, 0));
    if (code == kTimeout) return changed;
    if (code != kOk) {
      log_warn("NVML cannot wait for XIDs", {{"error", library_->describe(code)}});
      close_events();
      return true;
    }
    changed = note_event(event) || changed;
  }
  return changed;
}

// Whether the cards should be looked at now.
bool Session::note_event(const Event& event) {
  if (event.type != kEventXid) return true;
  Card* const card = known_card(event.device);
  const bool ignored = options_.xids_ignored.contains(event.value);
  log_warn(ignored ? "XID that programs cause" : "XID",
           {{"card", card != nullptr ? card->facts.uuid.str() : "unknown"},
            {"xid", std::to_string(event.value)}});
  if (card == nullptr) return true;
  card->health.note_xid(event.value, options_.xids_ignored);
  return !ignored;
}

}  // namespace mgpu::plugin::nvml
