#include "plugin/containers/self_test.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "common/base/files.h"
#include "common/base/process.h"
#include "common/base/text.h"
#include "plugin/cards/driver/driver_files.h"
#include "plugin/containers/limits.h"

namespace mgpu::plugin {
namespace {

// By the numbers of the outcomes.
constexpr std::array<std::string_view, 3> kOutcomes{"passed", "failed", "not-tested"};
static_assert(static_cast<std::size_t>(SelfTest::Outcome::kNotTested) + 1 == kOutcomes.size());
constexpr std::string_view kFailed = "failed ";
constexpr std::string_view kSkipped = "skipped ";

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) lines.push_back(take_line(text));
  return lines;
}

// Changes when the file is replaced.
Result<std::string> identity_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return error(path + " is not there");
  return fmt::format("{} {} {}.{}", path, found.st_size, found.st_mtim.tv_sec,
                     found.st_mtim.tv_nsec);
}

// A file of the node that this program gets as its standard input.
Result<UniqueFd> input_of(const std::string& text) {
  UniqueFd file(::memfd_create("mgpu-check-share", MFD_CLOEXEC));
  const bool written = ::write(file.number(), text.data(), text.size()) == std::ssize(text) &&
                       ::lseek(file.number(), 0, SEEK_SET) == 0;
  if (!written) return error("its input cannot be written");
  return file;
}

void add_file(const std::string& from, const std::string& to, std::string& text) {
  text += fmt::format("{}\t{}\n", from, to);
}

}  // namespace

std::string_view to_string(SelfTest::Outcome outcome) {
  return kOutcomes.at(static_cast<std::size_t>(outcome));
}

// A function that this driver does not have is skipped. Without a share that was filled, nothing is
// known.
SelfTest read_self_test(std::string_view printed, const std::string& problem) {
  using Outcome = SelfTest::Outcome;
  const auto lines = lines_of(printed);
  for (const std::string_view line : lines) {
    if (line.starts_with(kFailed)) {
      return {Outcome::kFailed, std::string(line.substr(kFailed.size()))};
    }
  }
  for (const std::string_view line : lines) {
    if (line.starts_with("skipped start: ") || line.starts_with("skipped memory: ") ||
        line.starts_with("skipped ended: ")) {
      return {Outcome::kNotTested, std::string(line.substr(kSkipped.size()))};
    }
  }
  const auto has = [&](std::string_view line) {
    return std::ranges::find(lines, line) != lines.end();
  };
  if (has("passed memory") && has("passed processes") && has("passed ended") && has("done")) {
    return {Outcome::kPassed, ""};
  }
  return {Outcome::kNotTested, problem.empty() ? "it did not finish" : problem};
}

Result<SelfTestInput> self_test_input(const ShareLibrary& library, const std::string& node_root,
                                      const std::vector<DeviceNode>& nodes, const Edits& shared) {
  auto ours = library_mounts(library, shared);
  if (!ours) return ours.error();
  SelfTestInput input;
  std::string folder;
  const auto on_node = [&](const std::string& path) {
    return path_on_node(node_root, path).value_or(joined(node_root, path));
  };
  std::string driver;
  for (const Mount& mount : shared.mounts) {
    add_file(on_node(mount.host_path), mount.container_path, input.text);
  }
  for (const Mount& mount : *ours) {
    const bool of_driver = mount.container_path.ends_with("-driver.so");
    const std::string from = of_driver ? on_node(mount.host_path) : mount.host_path;
    add_file(from, mount.container_path, input.text);
    if (mount.container_path == kDriverCuda) driver = from;
    if (mount.host_path == library.cuda && input.libcuda.empty()) {
      input.libcuda = mount.container_path;
    }
  }
  for (const auto& devices : {shared.devices, nodes}) {
    for (const DeviceNode& node : devices) {
      add_file(on_node(node.host_path), node.path, input.text);
    }
  }
  const std::string folder_of_library = input.libcuda.substr(0, input.libcuda.rfind('/'));
  Environment environment = shared.environment;
  environment.emplace("LD_LIBRARY_PATH", folder_of_library);
  for (const auto& [name, value] : environment) input.text += fmt::format("{}={}\n", name, value);
  for (const std::string& file : {driver, library.cuda}) {
    auto identity = identity_of(file);
    if (!identity) return identity.error();
    input.identity += *identity + " ";
  }
  return input;
}

SelfTest run_self_test(const SelfTestProgram& program, const CardUuid& card,
                       const SelfTestInput& input, const std::atomic<bool>& cancelled) {
  auto in = input_of(input.text);
  if (!in) return {SelfTest::Outcome::kNotTested, in.error().message};
  const ProgramCall call{.path = program.path,
                         .arguments = {program.empty, card.str(),
                                       std::to_string(program.context.value()), input.libcuda},
                         .in = in->number()};
  const auto ran = run_for_output(call, kSelfTestBytesMax, kSelfTestTimeout, cancelled);
  if (!ran) return {SelfTest::Outcome::kNotTested, ran.error().message};
  return read_self_test(ran->out, ran->exit);
}

}  // namespace mgpu::plugin
