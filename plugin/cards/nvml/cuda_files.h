// What containers need of the driver to run CUDA: its files, and device nodes that are not of one
// card. Not thread-safe.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "plugin/cards/driver/driver_files.h"
#include "plugin/cards/driver/toolkit_spec.h"
#include "plugin/cards/nvml/nvml_source.h"

namespace mgpu::plugin::nvml {

class CudaFiles {
 public:
  // `options` outlive it.
  explicit CudaFiles(const NvmlOptions& options) : options_(options) {}

  // Looks for the files again. With `wsl` cards have no device nodes; see is_wsl().
  void read(const DriverPlace& at, bool wsl);
  // Links the device nodes of all cards in /dev/char. A failure is logged once for each error.
  void link_devices(const DriverPlace& at, const FoundCards& found);

  // As of the last read.
  const Edits& shared() const { return shared_; }
  const std::optional<Edits>& toolkit() const { return toolkit_; }
  // What is missing, so that no card may be offered; empty: nothing.
  const std::string& missing() const { return missing_; }

 private:
  void load_uvm_if_missing(const DriverPlace& at, bool wsl);
  std::optional<Edits> read_toolkit_spec(const DriverPlace& at, const Edits& own);

  const NvmlOptions& options_;
  Edits shared_;
  std::optional<Edits> toolkit_;
  ToolkitSpecs toolkit_specs_;
  std::optional<std::chrono::steady_clock::time_point> uvm_tried_at_;
  bool was_complete_ = false;  // nothing was missing when the files were last accepted
  int missing_reads_ = 0;      // in a row
  std::string missing_;
  std::string link_problem_;
};

}  // namespace mgpu::plugin::nvml
