// The settings of one trial. Paths are absolute.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace mgpu::gpu_trial {

// Settings of a card as NVML numbers them. None: the driver does not report it.
struct Settings {
  std::optional<unsigned> compute_mode;
  std::optional<unsigned> persistence_mode;
  std::optional<unsigned> mig_mode;
  bool operator==(const Settings&) const = default;
};

struct Trial {
  std::string folder;   // what build.sh made: bin/, lib/, image/
  std::string scratch;  // empty at the start of each check, removed after it
  std::string card;     // UUID of the card to try; empty: the first healthy one

  std::string nvml;             // a library; empty: where the device plugin looks
  std::string node_root = "/";  // as --node-root of the sources of cards
  std::string driver_root = "/";
  std::string mps_control = "nvidia-cuda-mps-control";
  std::string nvidia_smi = "nvidia-smi";
  std::string runc;  // absolute, or a name in $PATH

  // How long one measurement of throughput takes.
  std::chrono::milliseconds measure{1500};
  std::int64_t kills = 50;
  bool exclusive = false;  // whether the compute mode may be changed for a while
  Settings settings;       // before the first check

  std::string cuda_program() const { return folder + "/bin/mgpu-cuda-program"; }
  std::string image() const { return folder + "/image"; }
};

}  // namespace mgpu::gpu_trial
