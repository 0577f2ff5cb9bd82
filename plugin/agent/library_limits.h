// The library in containers on this node (share_library.h): its files, the pages of shares, and the
// cards that it can limit. Isolation owns it. One thread sets it up and sets the turns.
// problem_of(), pages() and self_tests() are for any thread. prepare() and files() are for the
// first one and for containers that start, which none does while files() changes
// (Isolation::switch_to).
#pragma once

#include <atomic>
#include <filesystem>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/base/result.h"
#include "plugin/agent/isolation_options.h"
#include "plugin/agent/node_programs.h"
#include "plugin/agent/self_tests.h"
#include "plugin/containers/share_library.h"
#include "plugin/containers/share_pages.h"
#include "plugin/state/records.h"

namespace mgpu::plugin {

class LibraryLimits {
 public:
  // Both outlive it.
  LibraryLimits(const IsolationOptions& options, const Records& records)
      : options_(options), records_(records) {}

  // Installs the files. The error is also the problem of files().
  Result<void> set_up();
  // Sets the rule by which the library deals turns; not set: it deals none.
  void set_turns(std::optional<TurnRule> turns) { files_.compute = turns; }

  // Why this card must not be offered: the library cannot limit containers on it. One sentence;
  // empty: it can. `shared` is what every container with a card gets. REQUIRES: the library limits
  // memory.
  std::string problem_of(const FoundCard& card, const Edits& shared);
  // Makes the pages of a container that is about to start and has a share. Errors: it must not
  // start; one sentence.
  Result<void> prepare(const Record& record) const;
  const ShareLibrary& files() const { return files_; }
  const SharePages& pages() const { return pages_; }
  SelfTests& self_tests() { return self_tests_; }

 private:
  Result<void> install();
  SelfTest test(const FoundCard& card, const SelfTestInput& input, bool offered,
                const std::atomic<bool>& cancelled) const;

  const IsolationOptions& options_;
  const Records& records_;
  // The folder with the libraries and mgpu-check-share.
  const std::filesystem::path package_{options_.library_folder.empty() ? own_folder()
                                                                       : options_.library_folder};
  Mutex mutex_;  // of the problem of files_, which problem_of() reads
  ShareLibrary files_{.cuda = options_.hook_folder + "/libmgpu-cuda.so",
                      .nvml = options_.hook_folder + "/libmgpu-nvml.so",
                      .empty = options_.run_folder + "/empty",
                      .pages = options_.run_folder + "/share"};
  bool installed_ = false;
  const SharePages pages_{files_.pages, options_.context};
  SelfTests self_tests_{options_.hook_folder + "/self-tests"};
};

}  // namespace mgpu::plugin
