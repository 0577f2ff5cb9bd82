// The settings of one trial. Paths are absolute.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace mgpu::gpu_trial {

// Settings of a card as NVML's numbers. A setting that the driver does not report is not set.
struct Settings {
  std::optional<unsigned> compute_mode;
  std::optional<unsigned> persistence_mode;
  std::optional<unsigned> mig_mode;
  bool operator==(const Settings&) const = default;
};

struct Trial {
  std::string folder;   // the folder of build.sh, with bin/, lib/ and image/
  std::string scratch;  // empty at the start of each check, removed after it
  std::string modes;    // the earlier compute mode is kept there until it is restored
  std::string card;     // UUID of the card; empty for the first healthy one

  std::string nvml;             // path of the library; empty for the default of the device plugin
  std::string node_root = "/";  // like --node-root of the sources of cards
  std::string driver_root;      // empty: the device plugin finds it
  std::string mps_control = "nvidia-cuda-mps-control";
  std::string nvidia_smi = "nvidia-smi";
  std::string runc;  // an absolute path, or a name in $PATH
  // A folder that every container gets, together with the variables MGPU_FAKE_*, so that stand-ins
  // for the driver work there. Empty on a machine with a GPU.
  std::string stand_ins;

  // Duration of one measurement of throughput.
  std::chrono::milliseconds measure{1500};
  std::int64_t kills = 50;
  bool exclusive = false;  // whether a check may change the compute mode
  bool reset = false;      // whether a check may reset the card
  Settings settings;       // the settings before the first check

  std::string cuda_program() const { return folder + "/bin/mgpu-cuda-program"; }
  // The libraries that limit containers are there, too.
  std::string programs() const { return folder + "/bin"; }
  std::string set_limits() const { return folder + "/bin/mgpu-set-limits"; }
  std::string image() const { return folder + "/image"; }
};

}  // namespace mgpu::gpu_trial
