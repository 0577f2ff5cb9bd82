// The use of NVML from loading the library to closing it, and the state of its cards.
//
//   Closed --read(): load, initialize--> Open --driver unusable, or cards missing--> Closed
//
// Every call but current_card() may block forever. Calls are therefore made by one thread, which
// may be abandoned.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "plugin/cards/driver/driver_files.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/nvml/cuda_files.h"
#include "plugin/cards/nvml/instance_caps.h"
#include "plugin/cards/nvml/nvml_card.h"
#include "plugin/cards/nvml/nvml_health.h"
#include "plugin/cards/nvml/nvml_library.h"
#include "plugin/cards/nvml/nvml_links.h"
#include "plugin/cards/nvml/nvml_source.h"
#include "plugin/cards/nvml/xid_events.h"

namespace mgpu::plugin::nvml {

class Session {
 public:
  explicit Session(NvmlOptions options) : options_(std::move(options)) {}
  ~Session() { close(); }

  Result<FoundCards> read();
  std::vector<CardUse> use();
  // Waits for XIDs, as XidEvents::wait(). Returns whether health may have changed; none also if
  // NVML is closed.
  std::optional<bool> wait_for_xids();
  void close();
  // Closes, for what only the administrator can do: a reset of a card ends an XID that needs one.
  void release();

  // As CardSource::needs_restart().
  std::string needs_restart() const;
  // "NVML 12.580.95.05 (driver 580.95.05)"
  const std::string& description() const { return description_; }
  // The card of the call that is running, empty if it is not about a card. Any thread.
  CardUuid current_card() const;

 private:
  struct Card {
    Device device = nullptr;  // null: not found by the last read
    FoundCard facts;
    CardHealth health;
    bool responds = false;
    std::optional<MiB> least_memory;  // since NVML was opened
    std::uint64_t seen_us = 0;        // time of the newest sample of utilization
    std::optional<unsigned> minor{};  // N of /dev/nvidiaN, as read last
    CardUuid instance_of{};           // the card of a MIG device
    bool partitioned = false;         // its MIG devices are used
  };

  Result<void> open();
  Error failed(const char* function, int code) const;
  DriverPlace place() const;
  bool is_wsl() const;
  void reopen_if_needed(bool complete);
  void add_links(const std::vector<Card*>& found, FoundCards& cards);
  std::vector<Card*> read_cards(unsigned count, std::vector<FoundCard>& unreadable);
  Card* find_card(Device device);
  Card* identify_card(Device device);
  void update_card(Card& card);
  void read_instances(std::vector<Card*>& found);
  void keep_instances(const Card& of, std::vector<Card*>& found);
  std::string update_instance(const Card& of, Card& card, const InstanceCaps& caps);
  void set_current_card(const Card* card);
  bool note_event(const Event& event);

  const NvmlOptions options_;
  std::shared_ptr<const Library> library_;  // null: closed
  std::map<CardUuid, Card> cards_;
  CudaFiles files_{options_};
  std::string driver_version_;  // "580.95.05"; empty: not known
  std::string description_ = "NVML (not loaded)";
  bool was_open_ = false;
  int mismatches_ = 0;          // of the versions of library and module, in a row
  std::vector<Device> linked_;  // the cards of `links_`
  LinkReading links_;
  int reads_of_links_ = 0;  // that used `links_`
  std::size_t cards_at_open_ = 0;
  int incomplete_reads_ = 0;
  int reopen_after_ = kNvmlReopenReads;  // incomplete reads until the next reopening
  XidEvents events_;

  mutable Mutex mutex_;
  CardUuid current_card_ MGPU_GUARDED_BY(mutex_);
};

}  // namespace mgpu::plugin::nvml
