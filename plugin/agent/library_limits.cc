#include "plugin/agent/library_limits.h"

#include <fmt/format.h>

#include <system_error>

#include "plugin/cards/limits.h"

namespace mgpu::plugin {

Result<void> LibraryLimits::set_up() {
  if (installed_) return {};
  auto installed = install();
  installed_ = installed.has_value();
  const MutexLock lock(mutex_);
  files_.problem = installed ? "" : installed.error().message;
  return installed;
}

// A container keeps the library that it started with: a new one is another file.
Result<void> LibraryLimits::install() {
  if (auto visible = check_mounts_of_node(options_.run_folder, options_.proc_folder); !visible) {
    return visible;
  }
  std::error_code failed;
  std::filesystem::create_directories(files_.empty, failed);
  if (failed) return error(fmt::format("cannot make {}: {}", files_.empty, failed.message()));
  for (const std::string& file : {files_.cuda, files_.nvml}) {
    const auto source = package_ / std::filesystem::path(file).filename();
    // A library of an earlier version refuses pages that it does not know.
    auto installed = install_file(source, file, "a library for containers was not replaced");
    if (!installed) return installed;
  }
  return {};
}

std::string LibraryLimits::problem_of(const FoundCard& card, const Edits& shared) {
  {
    const MutexLock lock(mutex_);
    if (!files_.problem.empty()) return files_.problem;
  }
  if (!can_have_pages(card.uuid)) {
    return "its UUID is not \"GPU-\" or \"MIG-\" and 32 digits, by which the library in containers "
           "finds it";
  }
  // No useful part fits in the memory of some cards.
  if (!options_.self_test || card.memory <= kNoMemoryOfItsOwn) return "";
  auto input = self_test_input(files_, options_.nvml.node_root, card.nodes, shared);
  const std::string identity = input ? input->identity : input.error().message;
  return self_tests_.problem_of(
      card.uuid, identity, [=, this](bool offered, const std::atomic<bool>& cancelled) {
        if (input) return test(card, *input, offered, cancelled);
        return SelfTest{SelfTest::Outcome::kNotTested, input.error().message};
      });
}

// What pods hold of the card is theirs, also while they do not use it. Beside them the test runs
// only where the card would not be offered without it.
SelfTest LibraryLimits::test(const FoundCard& card, const SelfTestInput& input, bool offered,
                             const std::atomic<bool>& cancelled) const {
  MiB held;
  for (const Record& record : records_.all()) {
    for (const CardGrant& grant : record.cards) {
      if (grant.uuid != card.uuid) continue;
      if (offered) return {SelfTest::Outcome::kNotTested, "pods hold parts of the card"};
      held = held + grant.share.memory;
    }
  }
  if (card.memory < held + self_test_memory(options_.context)) {
    return {SelfTest::Outcome::kNotTested, "pods hold the memory of the card"};
  }
  const SelfTestProgram program{
      .path = package_ / "mgpu-check-share", .empty = files_.empty, .context = options_.context};
  return run_self_test(program, card.uuid, input, cancelled);
}

Result<void> LibraryLimits::prepare(const Record& record) const {
  return has_share(record) ? pages_.prepare(record, files_.compute.has_value()) : Result<void>();
}

}  // namespace mgpu::plugin
