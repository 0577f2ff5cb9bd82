// Node slots by name: what a filter looks up thousands of times. Part of the ledger; used under its
// lock.
#pragma once

#include <bit>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "extender/ledger/node_slots.h"

namespace mgpu::extender {

class NameIndex {
 public:
  // REQUIRES: not known yet.
  void insert(const std::string& name, NodeSlot slot) { slots_.emplace(name, slot); }
  // REQUIRES: known.
  void erase(const std::string& name) { slots_.erase(name); }
  std::optional<NodeSlot> find(std::string_view name) const {
    const auto found = slots_.find(name);
    if (found == slots_.end()) return std::nullopt;
    return found->second;
  }

 private:
  // Finds a name without making a string of it. FxHash's step, eight characters at a time, the last
  // eight overlapping those before; the map mixes what comes out.
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      constexpr std::size_t kWord = sizeof(std::uint64_t);
      std::uint64_t hash = text.size();
      if (text.size() < kWord) {
        for (const char c : text) hash = step(hash, static_cast<unsigned char>(c));
        return hash;
      }
      const std::size_t last = text.size() - kWord;
      for (std::size_t at = 0; at < last; at += kWord) hash = step(hash, word(text.data() + at));
      return step(hash, word(text.data() + last));
    }

   private:
    static std::uint64_t step(std::uint64_t hash, std::uint64_t word) {
      return (std::rotl(hash, 5) ^ word) * 0x517CC1B727220A95;
    }
    static std::uint64_t word(const char* at) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, sizeof word);
      return word;
    }
  };
  boost::unordered_flat_map<std::string, NodeSlot, Hash, std::equal_to<>> slots_;
};

}  // namespace mgpu::extender
