// Two more files of a container and a card, where the compute of cards is shared out by turns:
// `turn`, in which the plugin says whether the container may have work on the card, and which the
// container can only read, and `activity`, in which each of its processes says whether it has.
// This code is part of the library in containers: it needs only a C library.
#pragma once

#include <atomic>
#include <cstdint>

#include "plugin/share/page.h"

namespace mgpu::share {

// The values of TurnPage::turn, which is a futex.
constexpr std::uint32_t kTurnAlone = 0;  // work is neither held back nor watched
constexpr std::uint32_t kTurnRun = 1;    // work is watched, and little of it queued
constexpr std::uint32_t kTurnWait = 2;   // no more work

struct TurnPage {
  PageHeader header;
  std::atomic<std::uint32_t> turn;
  // Changes at each look of the plugin, which has many in a second while somebody waits.
  std::atomic<std::uint32_t> heartbeat;
};

// The bits of an ActivityPage::slots. The others count launches. kWorks: the process has work on
// the card; it stays while nobody watches. kWaits: it has work that it may not give to the card.
constexpr std::uint32_t kWorks = 1;
constexpr std::uint32_t kWaits = 2;
constexpr std::uint32_t kLaunch = 4;

struct ActivityPage {
  PageHeader header;
  std::atomic<std::uint32_t> slots[kSlots];  // the same as UsagePage::slots
};

struct TurnPaths {
  explicit TurnPaths(const char* folder);
  char turn[kPathMax];
  char activity[kPathMax];
};

// Makes both files in `folder`, after make_pages().
Failure make_turn_pages(const char* folder, const std::uint8_t (&uuid)[16]);

// Whether both files are there, whole and of this version.
bool have_turns(const char* folder, const std::uint8_t (&uuid)[16]);

// Maps the files of the folder. Null without a failure: the container has no turns. The mappings
// stay until the process ends.
Failure map_turn_pages(const char* folder, const std::uint8_t (&uuid)[16], const TurnPage** turn,
                       ActivityPage** activity);

}  // namespace mgpu::share
