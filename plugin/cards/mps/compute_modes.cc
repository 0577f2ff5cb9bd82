#include "plugin/cards/mps/compute_modes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/base/text.h"
#include "plugin/cards/card_source.h"

namespace mgpu::plugin {
namespace {

using nvml::Device;

std::string text_of_mode(unsigned mode) {
  switch (mode) {
    case nvml::kComputeModeDefault:
      return "DEFAULT";
    case nvml::kComputeModeExclusiveThread:
      return "EXCLUSIVE_THREAD";
    case nvml::kComputeModeProhibited:
      return "PROHIBITED";
    case nvml::kComputeModeExclusiveProcess:
      return "EXCLUSIVE_PROCESS";
    default:
      return fmt::format("compute mode {}", mode);
  }
}

std::string modes_folder(const std::string& run_dir, const CardUuid& card) {
  return run_dir + "/mps/" + card.str();
}

std::string mode_file(const std::string& run_dir, const CardUuid& card) {
  return modes_folder(run_dir, card) + "/compute-mode";
}

// The mode that the card had before; none if there is no file. The file is ours, so that one that
// cannot be read was written by a process that was killed before it changed the mode.
std::optional<unsigned> earlier_mode(const std::string& run_dir, const CardUuid& card) {
  const auto text = read_file(mode_file(run_dir, card), kComputeModeFileBytesMax);
  if (!text) return std::nullopt;
  unsigned mode = nvml::kComputeModeDefault;
  std::from_chars(text->data(), text->data() + text->size(), mode);
  return mode;
}

// What is done for a card while no other process does anything for it.
class CardMode {
 public:
  // `abandoned` is set once nobody waits for the outcome any more.
  CardMode(const NvmlCallOptions& options, std::string run_dir, CardUuid card,
           const std::atomic<bool>& abandoned)
      : options_(options),
        run_dir_(std::move(run_dir)),
        card_(std::move(card)),
        abandoned_(abandoned) {}

  // Errors: the folder cannot be written, or NVML does not work.
  Result<void> open() {
    std::error_code failed;
    const std::string folder = modes_folder(run_dir_, card_);
    std::filesystem::create_directories(folder, failed);
    const std::string path = folder + "/compute-mode.lock";
    if (!failed) lock_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock_.is_open() || ::flock(lock_.number(), LOCK_EX) != 0) {
      return error(fmt::format("cannot lock {}: {}", path, std::strerror(errno)));
    }
    auto nvml = OpenNvml::open(options_);
    if (!nvml) return nvml.error();
    nvml_ = *std::move(nvml);
    const nvml::Functions& f = nvml_->functions();
    if (f.get_compute_mode == nullptr || f.set_compute_mode == nullptr) {
      return error("the driver has no functions for compute modes");
    }
    const auto device = nvml_->find(card_);
    if (!device) return device.error();
    device_ = *device;
    return {};
  }

  Result<unsigned> read() const {
    unsigned mode = 0;
    const int code = nvml_->functions().get_compute_mode(device_, &mode);
    if (code != nvml::kOk) return nvml_->failed("nvmlDeviceGetComputeMode", card_, code);
    return mode;
  }

  Result<void> set(unsigned mode) const {
    MGPU_DEBUG_CHECK(lock_.is_open(), "a mode is set under the lock of its card");
    if (abandoned_) return too_late();
    const int code = nvml_->functions().set_compute_mode(device_, mode);
    if (code == nvml::kNoPermission || code == nvml::kNotSupported) {
      return error(fmt::format("the compute mode of card {} cannot be set: {}", card_.str(),
                               code == nvml::kNoPermission
                                   ? "this program needs the rights of root on the node"
                                   : "this card does not support it"));
    }
    if (code != nvml::kOk) return nvml_->failed("nvmlDeviceSetComputeMode", card_, code);
    const auto now = read();
    if (!now) return now.error();
    if (*now == mode) return {};
    return error(fmt::format("the compute mode of card {} was set to {}, and is {}", card_.str(),
                             text_of_mode(mode), text_of_mode(*now)));
  }

  Result<void> check() const {
    const auto now = read();
    if (!now) return now.error();
    if (*now == nvml::kComputeModeProhibited) return error(prohibited());
    return set(*now);
  }

  // Returns whether the mode was another one.
  Result<bool> make_exclusive() const {
    const auto now = read();
    if (!now) return now.error();
    if (*now == nvml::kComputeModeProhibited) return error(prohibited());
    const bool is_exclusive = *now == nvml::kComputeModeExclusiveProcess;
    if (is_exclusive && earlier_mode(run_dir_, card_)) return false;
    if (abandoned_) return too_late();
    const auto written =
        write_file(mode_file(run_dir_, card_), std::to_string(*now), Durability::kProcess);
    if (!written) return written.error();
    if (is_exclusive) return false;
    if (auto changed = set(nvml::kComputeModeExclusiveProcess); !changed) return changed.error();
    return true;
  }

  Result<void> restore() const {
    const auto earlier = earlier_mode(run_dir_, card_);
    if (!earlier) return {};
    const auto now = read();
    if (!now) return now.error();
    if (*now == nvml::kComputeModeExclusiveProcess && *earlier != *now) {
      if (auto restored = set(*earlier); !restored) return restored;
    }
    std::error_code failed;
    std::filesystem::remove(mode_file(run_dir_, card_), failed);
    if (!failed) return {};
    return error(fmt::format("cannot remove {}: {}", mode_file(run_dir_, card_), failed.message()));
  }

 private:
  static Error too_late() { return error("the call took too long, and changes nothing any more"); }

  std::string prohibited() const {
    return fmt::format(
        "the compute mode of card {} is PROHIBITED; set it to DEFAULT, or remove "
        "the card from mgpu",
        card_.str());
  }

  const NvmlCallOptions& options_;
  const std::string run_dir_;
  const CardUuid card_;
  const std::atomic<bool>& abandoned_;
  UniqueFd lock_;
  std::unique_ptr<OpenNvml> nvml_;
  Device device_ = nullptr;
};

}  // namespace

ComputeModes::ComputeModes(NvmlCallOptions options, std::string run_dir)
    : options_(std::move(options)), run_dir_(std::move(run_dir)) {}

template <class Action>
Result<void> ComputeModes::run(const CardUuid& card, Action action) {
  const auto abandoned = std::make_shared<std::atomic<bool>>(false);
  auto outcome = calls_of(card).run(
      [options = options_, run_dir = run_dir_, card, action, abandoned]() -> Result<void> {
        CardMode mode(options, run_dir, card, *abandoned);
        if (auto opened = mode.open(); !opened) return opened;
        return action(mode);
      });
  *abandoned = true;
  return outcome;
}

NvmlCalls& ComputeModes::calls_of(const CardUuid& card) {
  const MutexLock lock(mutex_);
  return calls_.try_emplace(card, options_.timeout).first->second;
}

bool ComputeModes::hangs(const CardUuid& card) {
  NvmlCalls* calls = nullptr;
  {
    const MutexLock lock(mutex_);
    const auto found = calls_.find(card);
    if (found == calls_.end()) return false;
    calls = &found->second;
  }
  return calls->hangs();
}

Result<void> ComputeModes::check(const CardUuid& card) {
  return run(card, [](const CardMode& mode) { return mode.check(); });
}

Result<bool> ComputeModes::make_exclusive(const CardUuid& card) {
  const auto was_other = std::make_shared<std::optional<bool>>();
  const auto made = run(card, [was_other](const CardMode& mode) -> Result<void> {
    const auto outcome = mode.make_exclusive();
    if (!outcome) return outcome.error();
    *was_other = *outcome;
    return {};
  });
  if (!made) return made.error();
  return **was_other;
}

Result<void> ComputeModes::restore(const CardUuid& card) {
  if (hangs(card)) {
    return error(fmt::format(
        "an earlier change of the compute mode of card {} has not ended: the NVIDIA driver does "
        "not respond to NVML",
        card.str()));
  }
  if (!changed(card)) return {};
  return run(card, [](const CardMode& mode) { return mode.restore(); });
}

bool ComputeModes::changed(const CardUuid& card) const {
  std::error_code unreadable;
  return is_card_uuid(card.str()) && std::filesystem::exists(mode_file(run_dir_, card), unreadable);
}

std::vector<CardUuid> ComputeModes::all_changed() const {
  std::vector<CardUuid> cards;
  for (const std::string& name : names_in(run_dir_ + "/mps")) {
    if (changed(CardUuid(name))) cards.emplace_back(name);
  }
  return cards;
}

}  // namespace mgpu::plugin
