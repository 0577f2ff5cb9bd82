#include "plugin/cards/nvml/nvml_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/contract/limits.h"
#include "plugin/cards/driver/driver_files.h"

namespace mgpu::plugin::nvml {
namespace {

// The NVLinks of one card.
struct Nvlinks {
  std::vector<int> to;  // by the position of the card at the other end
  int to_switches = 0;
};

class Reader {
 public:
  Reader(const Library& library, std::span<const LinkedCard> cards, const std::string& node_root)
      : library_(library),
        f_(library.functions()),
        cards_(cards),
        node_root_(node_root),
        places_(cards.size()),
        nvlinks_(cards.size()) {
    reading_.links = CardLinks(cards.size());
    reading_.numa.resize(cards.size());
  }

  LinkReading read(const std::function<void(const LinkedCard&)>& begin) {
    for (std::size_t card = 0; card < cards_.size(); ++card) {
      begin(cards_[card]);
      read_place(card);
    }
    for (std::size_t card = 0; card < cards_.size(); ++card) {
      begin(cards_[card]);
      read_nvlinks(card);
      for (std::size_t other = 0; other < card; ++other)
        reading_.links.set(card, other, std::max(path(card, other), nvlink(card, other)));
    }
    return std::move(reading_);
  }

 private:
  void note(std::string problem) {
    if (reading_.problem.empty()) reading_.problem = std::move(problem);
  }
  void failed(std::size_t card, const char* function, int code) {
    note(fmt::format("the links of card {} cannot be read, and do not count: {} failed: {}",
                     cards_[card].uuid, function, library_.describe(code)));
  }

  void read_place(std::size_t card) {
    PciInfo& place = places_[card];
    if (f_.pci_info == nullptr) return;
    if (const int code = f_.pci_info(cards_[card].device, &place); code != kOk) {
      place = {};
      return failed(card, "nvmlDeviceGetPciInfo_v3", code);
    }
    constexpr std::size_t kBytesMax = 64;
    const auto text = read_file(
        joined(node_root_, fmt::format("/sys/bus/pci/devices/{:04x}:{:02x}:{:02x}.0/numa_node",
                                       place.domain, place.bus, place.device)),
        kBytesMax, "NUMA node");
    int node = -1;
    if (text) std::from_chars(text->data(), text->data() + text->size(), node);
    if (node >= 0 && node <= kNumaNodeMax) reading_.numa[card] = node;
  }

  void read_nvlinks(std::size_t card) {
    Nvlinks& found = nvlinks_[card];
    found.to.resize(cards_.size());
    if (f_.nvlink_state == nullptr || f_.nvlink_remote_pci == nullptr) return;
    for (unsigned link = 0; link < kNvlinkSlotsMax; ++link) {
      unsigned active = 0;
      const int code = f_.nvlink_state(cards_[card].device, link, &active);
      // The card has no more links, or none at all.
      if (code == kInvalidArgument || code == kNotSupported) return;
      if (code != kOk) {
        found = {};
        found.to.resize(cards_.size());
        return failed(card, "nvmlDeviceGetNvLinkState", code);
      }
      if (active == kEnabled) add_nvlink(card, link);
    }
  }

  void add_nvlink(std::size_t card, unsigned link) {
    Nvlinks& found = nvlinks_[card];
    int type = kNvlinkToUnknown;
    const bool typed = f_.nvlink_remote_type != nullptr &&
                       f_.nvlink_remote_type(cards_[card].device, link, &type) == kOk;
    PciInfo remote{};
    const bool named = f_.nvlink_remote_pci(cards_[card].device, link, &remote) == kOk;
    const auto at = std::ranges::find_if(places_, [&](const PciInfo& place) {
      return place.bus_id[0] != '\0' && place.domain == remote.domain && place.bus == remote.bus &&
             place.device == remote.device;
    });
    if (named && at != places_.end()) {
      ++found.to[static_cast<std::size_t>(at - places_.begin())];
    } else if (typed ? type == kNvlinkToSwitch || type == kNvlinkToUnknown : !named) {
      ++found.to_switches;
    }
  }

  Link nvlink(std::size_t a, std::size_t b) {
    MGPU_DEBUG_CHECK(
        nvlinks_[a].to.size() == cards_.size() && nvlinks_[b].to.size() == cards_.size(),
        "the NVLinks of both cards were read");
    const int there = nvlinks_[a].to[b];
    const int back = nvlinks_[b].to[a];
    if (there != back) {
      note(
          fmt::format("cards {} and {} report {} and {} NVLinks to each other, and the smaller "
                      "number counts",
                      cards_[a].uuid, cards_[b].uuid, there, back));
    }
    const int count =
        std::min(there, back) + std::min(nvlinks_[a].to_switches, nvlinks_[b].to_switches);
    return count > 0 ? nvlinks(count) : Link::kFar;
  }

  // Without NVLink. Some drivers do not know it, for example in a virtual machine.
  Link path(std::size_t a, std::size_t b) {
    int level = kTopologySystem;
    if (f_.topology_ancestor == nullptr) return on_one_numa_node(a, b);
    const int code = f_.topology_ancestor(cards_[a].device, cards_[b].device, &level);
    if (code == kNotSupported) return on_one_numa_node(a, b);
    if (code != kOk) {
      failed(a, "nvmlDeviceGetTopologyCommonAncestor", code);
      return Link::kFar;
    }
    if (level < kTopologyHostBridge) return Link::kSwitch;
    return level < kTopologySystem ? Link::kSameNuma : Link::kFar;
  }
  Link on_one_numa_node(std::size_t a, std::size_t b) const {
    const auto& node = reading_.numa[a];
    return node && node == reading_.numa[b] ? Link::kSameNuma : Link::kFar;
  }

  const Library& library_;
  const Functions& f_;
  const std::span<const LinkedCard> cards_;
  const std::string& node_root_;
  std::vector<PciInfo> places_;
  std::vector<Nvlinks> nvlinks_;
  LinkReading reading_;
};

}  // namespace

LinkReading read_links(const Library& library, std::span<const LinkedCard> cards,
                       const std::string& node_root,
                       const std::function<void(const LinkedCard&)>& begin) {
  return Reader(library, cards, node_root).read(begin);
}

}  // namespace mgpu::plugin::nvml
