// The account of what each container was granted and used of each card: for charge-back, and to
// find shares that nobody uses. Pure.
//
// How the numbers are computed. Each sample of the monitor, every kMonitorPeriod, contains which
// container holds which share, and what the driver measured of it.
//
//   granted    A share counts from the first sample that has it until the first that does not,
//              with the compute of the container: both ends are late by at most one period, and a
//              container that lives for less than that may not be seen. The time while the machine
//              is suspended does not count, as the clock of `UseMoment` stands still.
//   used       The driver measures a process over its own period of 1/6 to 1 s, and only the last
//              one before a sample is known. Between two samples the use is taken as the mean of
//              both (the trapezoidal rule). So a load that is steady for longer than a period is
//              measured to the precision of the driver, which is 1 % of the card for each process;
//              one that changes faster is estimated from points. A load that is either 0 or 100 %,
//              at random, has a standard error of at most 50 / sqrt(n) points after n samples: 1.9
//              points after an hour (720 samples), 0.7 after eight. A load with exactly the
//              period of the samples can be measured wrongly by any amount.
//   measured   The time between two samples that both have a value, and are at most
//              kMeasuredGapMax apart. All other time is granted and not measured: used is then
//              that of the measured time only.
//   peak       The largest memory of a sample. A shorter peak between two samples is not seen.
//   95th percentile  The smallest whole percentage of the card that the use did not exceed in
//              95 % of the measured time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/kube/pod_owner.h"
#include "plugin/allocation/record.h"
#include "plugin/monitor/limits.h"

namespace mgpu::plugin {

// When a sample was taken. Only differences of `steady` count, which never goes back. `wall` is
// what people read, and may jump.
struct UseMoment {
  std::chrono::milliseconds steady{0};
  std::chrono::sys_seconds wall;
};

// A share that a container holds at the moment of a sample.
struct HeldShare {
  Owner container;
  CardGrant grant;
  std::optional<kube::PodOwner> pod_owner{};  // none: not known (yet)
  std::optional<double> sm_percent{};         // of the whole card; none: the driver has no sample
  std::optional<MiB> memory{};                // none: not known
};

// For how long the use was how large: seconds by whole percent of a card, rounded up.
class UseHistogram {
 public:
  static constexpr std::size_t kBuckets = 101;

  // Percentages outside of 0 to 100 count as the nearest of these.
  void add(double percent, double seconds);
  // The smallest percentage that was not exceeded in this part (0 to 1) of the time. None: there is
  // no time.
  std::optional<int> quantile(double part) const;
  const std::array<double, kBuckets>& seconds() const { return seconds_; }

 private:
  std::array<double, kBuckets> seconds_{};
};

// What a container was granted and used of one card.
struct ShareUse {
  PodRef pod;
  PodUid uid;
  std::string container;
  std::optional<kube::PodOwner> pod_owner{};
  CardGrant grant;       // the last one
  bool running = false;  // it holds the share
  std::chrono::sys_seconds from;
  std::chrono::sys_seconds to;  // of the last sample that counts
  double granted_card_seconds = 0;
  double used_card_seconds = 0;
  // The parts of both that count from before this process began. They are not saved.
  double granted_card_seconds_before = 0;
  double used_card_seconds_before = 0;
  double measured_seconds = 0;
  std::optional<MiB> memory_peak{};
  std::int64_t samples = 0;  // with a value of the driver
  UseHistogram histogram{};
};

// All of an account that outlives the process.
struct SavedUse {
  std::chrono::sys_seconds since;
  std::chrono::sys_seconds saved;  // when
  std::uint64_t left_out = 0;
  std::vector<ShareUse> shares;
};

class UseAccount {
 public:
  explicit UseAccount(const UseMoment& now) : since_(now.wall), last_(now) {}
  // Continues the account of an earlier process. A share that both processes see was held in
  // between as well, if that was at most kUnwatchedMax and the clock did not go back.
  UseAccount(SavedUse saved, const UseMoment& now);

  // Adds a sample. `fresh`: the driver was read since the last sample. Otherwise the sample has
  // only the shares that are held. Of several shares of one container and card the first counts,
  // and of all the first kSharesMax.
  void add(const UseMoment& now, const std::vector<HeldShare>& held, bool fresh);

  // Since when the account counts.
  std::chrono::sys_seconds since() const { return since_; }
  // The shares that are held, and kEndedSharesMax of the others: beyond that the namespace with the
  // most of them loses the one that ended first. The first are those that are held, then those that
  // ended last.
  std::vector<const ShareUse*> shares() const;
  // Of the ended ones those that ended at most `age` before `now`, at most `most`.
  std::vector<const ShareUse*> recent_shares(const UseMoment& now, std::chrono::milliseconds age,
                                             std::size_t most) const;
  // How many shares are not in shares(): those that have ended and left since since(), and those of
  // the last sample beyond kSharesMax, which are not counted.
  std::uint64_t left_out() const { return left_out_ + beyond_; }
  SavedUse saved(const UseMoment& now) const;

 private:
  using Key = std::tuple<PodUid, std::string, CardUuid>;
  struct Point {
    std::chrono::milliseconds at{0};
    double percent = 0;
  };
  struct Entry {
    ShareUse use;
    std::chrono::milliseconds seen{0};  // the last sample that had the share, or its end
    std::optional<Point> point{};       // the last sample of the driver
    bool in_sample = false;             // the sample that is being added has the share
  };

  void add_share(const UseMoment& now, const HeldShare& share, bool fresh);
  void measure(const UseMoment& now, const HeldShare& share, Entry& entry) const;
  void end_share(const UseMoment& now, Entry& entry) const;
  // Adds the time since the last sample.
  void add_granted(const UseMoment& now, ShareUse& use) const;
  void remove_oldest();
  // The time since the last sample, in seconds.
  double elapsed(const UseMoment& now) const;
  std::vector<const Entry*> sorted() const;

  std::chrono::sys_seconds since_;
  UseMoment last_;
  std::chrono::milliseconds unwatched_{0};  // before last_, until the first sample
  std::uint64_t left_out_ = 0;
  std::uint64_t beyond_ = 0;  // shares of the last sample that are not counted
  std::map<Key, Entry> entries_;
};

}  // namespace mgpu::plugin
