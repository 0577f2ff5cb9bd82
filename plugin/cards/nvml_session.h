// NVML in use: from loading it to giving it back, and what is known of its cards meanwhile.
//
//   Closed --read: load, init--> Open --driver gone, cards missing for long--> Closed
//
// Any call but at_card() may block for ever, so that they are made by one thread that may be left
// behind.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "plugin/cards/limits.h"
#include "plugin/cards/nvml_card.h"
#include "plugin/cards/nvml_health.h"
#include "plugin/cards/nvml_library.h"
#include "plugin/cards/nvml_source.h"

namespace mgpu::plugin::nvml {

class Session {
 public:
  explicit Session(NvmlOptions options);
  ~Session();

  Result<FoundCards> read();
  std::vector<CardUse> use();
  // Waits for XIDs, at most `kXidWait`: whether health may have changed. None: this driver
  // has no events, or NVML is closed.
  std::optional<bool> wait_for_xids();
  void close();

  // "NVML 12.580.95.05 (driver 580.95.05)"
  const std::string& description() const { return description_; }
  // The card that is being asked, empty between cards; any thread.
  CardUuid at_card() const;

 private:
  struct Card {
    Device device = nullptr;  // null: not found by the last read
    FoundCard facts;
    CardHealth health;
    bool answers = false;
    bool has_events = false;
    std::uint64_t seen_us = 0;  // the newest sample of utilisation
  };

  Result<void> open();
  Error failed(const std::string& what, int code) const;
  std::size_t cards_in_proc() const;
  void close_if_cards_stay_away(bool all_answer);

  std::vector<Card*> read_cards(unsigned count);
  // The card behind a handle, or null where NVML does not tell which it is.
  Card* card_of(Device device);
  Card* known_card(Device device);
  void look_at(Card& card);
  void set_at_card(const Card* card);

  void open_events();
  void close_events();
  void watch(Card& card);
  bool note_event(const Event& event);

  const NvmlOptions options_;
  std::shared_ptr<const Library> library_;  // null: closed
  std::map<CardUuid, Card> cards_;
  Edits shared_;
  std::string description_ = "NVML (not loaded)";
  std::size_t cards_at_open_ = 0;
  int incomplete_reads_ = 0;
  EventSet events_ = nullptr;
  int reads_without_events_ = 0;

  mutable Mutex at_mutex_;
  CardUuid at_card_ MGPU_GUARDED_BY(at_mutex_);
};

}  // namespace mgpu::plugin::nvml
