// Distinct types for amounts of compute and memory. Percent and MiB cannot be mixed, and an
// overflow or a negative amount aborts the process.
//
// Construction is explicit, and only value() converts to a number. Thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>

#include "common/base/check.h"

namespace mgpu {

// An amount of the unit that Tag names, 0 .. 2^62.
template <class Tag>
class Amount {
 public:
  static constexpr std::int64_t kMax = std::int64_t{1} << 62;

  constexpr Amount() = default;
  // REQUIRES: 0 <= value <= kMax.
  constexpr explicit Amount(std::int64_t value) : value_(value) {
    MGPU_CHECK(value >= 0 && value <= kMax, "amount out of range");
  }

  // Makes an amount of an unvalidated number; nullopt if it is out of range.
  static constexpr std::optional<Amount> from(std::int64_t value) {
    if (value < 0 || value > kMax) return std::nullopt;
    return Amount(value);
  }

  constexpr std::int64_t value() const { return value_; }
  constexpr bool zero() const { return value_ == 0; }
  constexpr auto operator<=>(const Amount&) const = default;

  // REQUIRES: the sum is at most kMax.
  constexpr Amount operator+(Amount other) const {
    MGPU_CHECK(other.value_ <= kMax - value_, "amount out of range");
    return Amount(value_ + other.value_);
  }
  // REQUIRES: other <= *this.
  constexpr Amount operator-(Amount other) const {
    MGPU_CHECK(other.value_ <= value_, "amount below zero");
    return Amount(value_ - other.value_);
  }
  constexpr Amount& operator+=(Amount other) { return *this = *this + other; }
  constexpr Amount& operator-=(Amount other) { return *this = *this - other; }

  // *this + other, or kMax if the sum is larger.
  constexpr Amount plus_saturating(Amount other) const {
    return other.value_ > kMax - value_ ? Amount(kMax) : Amount(value_ + other.value_);
  }
  // *this - other, or zero if `other` is larger.
  constexpr Amount minus_saturating(Amount other) const {
    return other.value_ >= value_ ? Amount() : Amount(value_ - other.value_);
  }

 private:
  std::int64_t value_ = 0;
};

// Compute: 100 is all of one card.
using Percent = Amount<struct PercentTag>;
// Memory, in 2^20 bytes.
using MiB = Amount<struct MiBTag>;

inline constexpr Percent kWholeCard{100};

// A share of one card, the capacity of a card, or how much of it is used.
struct Share {
  Percent core;
  MiB memory;

  constexpr bool operator==(const Share&) const = default;
  constexpr Share operator+(const Share& other) const {
    return {core + other.core, memory + other.memory};
  }
  // REQUIRES: `other` is within this share in both dimensions.
  constexpr Share operator-(const Share& other) const {
    return {core - other.core, memory - other.memory};
  }
  constexpr Share& operator+=(const Share& other) { return *this = *this + other; }
  constexpr Share& operator-=(const Share& other) { return *this = *this - other; }
  constexpr bool zero() const { return core.zero() && memory.zero(); }
  constexpr bool fits_in(const Share& room) const {
    return core <= room.core && memory <= room.memory;
  }
};

// The larger of each dimension.
constexpr Share max_of(const Share& a, const Share& b) {
  return {a.core < b.core ? b.core : a.core, a.memory < b.memory ? b.memory : a.memory};
}

// `capacity` minus `used`, and zero in a dimension in which more is used.
constexpr Share room_in(const Share& capacity, const Share& used) {
  return {capacity.core.minus_saturating(used.core), capacity.memory.minus_saturating(used.memory)};
}

}  // namespace mgpu
