#include "bench/gpu/container.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/base/files.h"

namespace mgpu::gpu_trial {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The default capabilities of containerd (pkg/oci/spec.go, defaultUnixCaps).
const Json kCapabilities = {
    "CAP_CHOWN",   "CAP_DAC_OVERRIDE", "CAP_FSETID",           "CAP_FOWNER",
    "CAP_MKNOD",   "CAP_NET_RAW",      "CAP_SETGID",           "CAP_SETUID",
    "CAP_SETFCAP", "CAP_SETPCAP",      "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT",
    "CAP_KILL",    "CAP_AUDIT_WRITE"};

// The cgroup of a container. `runner` is the process that starts the checks.
std::string container_id(pid_t runner) {
  return fmt::format("mgpu-gpu-trial-{}", runner);
}

// The default mounts of containerd and Kubernetes.
Json default_mounts() {
  return {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}},
          {{"destination", "/sys"},
           {"type", "none"},
           {"source", "/sys"},
           {"options", {"rbind", "nosuid", "noexec", "nodev", "ro"}}},
          {{"destination", "/dev"},
           {"type", "tmpfs"},
           {"source", "tmpfs"},
           {"options", {"nosuid", "strictatime", "mode=755"}}},
          {{"destination", "/dev/shm"},
           {"type", "tmpfs"},
           {"source", "shm"},
           {"options", {"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}}},
          {{"destination", "/tmp"}, {"type", "tmpfs"}, {"source", "tmpfs"}}};
}

Json bind_mount(const plugin::Mount& mount) {
  Json options = {mount.read_only ? "ro" : "rw", "nosuid", "nodev", "rbind"};
  if (mount.no_exec) options.push_back("noexec");
  return {{"destination", mount.container_path},
          {"type", "bind"},
          {"source", mount.host_path},
          {"options", std::move(options)}};
}

std::optional<Json> device(const plugin::DeviceNode& node) {
  struct stat found {};
  if (::stat(node.host_path.c_str(), &found) != 0 || !S_ISCHR(found.st_mode)) return std::nullopt;
  return Json{{"path", node.path},
              {"type", "c"},
              {"major", ::major(found.st_rdev)},
              {"minor", ::minor(found.st_rdev)},
              {"fileMode", found.st_mode & 07777},
              {"uid", 0},
              {"gid", 0}};
}

Json process(const Container& container) {
  Json environment = {"PATH=/usr/bin:/bin"};
  for (const auto& [name, value] : container.edits.environment) {
    environment.push_back(name + "=" + value);
  }
  return {
      {"terminal", false},
      {"user", {{"uid", container.user}, {"gid", container.user}}},
      {"args", container.command},
      {"env", environment},
      {"cwd", "/"},
      {"noNewPrivileges", true},
      {"capabilities",
       {{"bounding", kCapabilities}, {"effective", kCapabilities}, {"permitted", kCapabilities}}}};
}

// The hooks by their kind, as in the runtime specification of OCI.
Json hooks(const plugin::Edits& edits) {
  Json all = Json::object();
  for (const plugin::Hook& hook : edits.hooks) {
    Json one = {{"path", hook.path}, {"args", hook.arguments}, {"env", hook.environment}};
    if (hook.timeout_seconds > 0) one["timeout"] = hook.timeout_seconds;
    all[hook.name].push_back(std::move(one));
  }
  return all;
}

Json config(const Container& container) {
  Json mounts = default_mounts();
  for (const auto* const list : {&container.edits.mounts, &container.more_mounts}) {
    for (const auto& mount : *list) mounts.push_back(bind_mount(mount));
  }
  Json devices = Json::array();
  Json rules = {{{"allow", false}, {"access", "rwm"}}};
  for (const auto& node : container.edits.devices) {
    // Files that are no devices, as in tests, are skipped.
    if (auto found = device(node)) {
      rules.push_back({{"allow", true},
                       {"type", "c"},
                       {"major", (*found)["major"]},
                       {"minor", (*found)["minor"]},
                       {"access", "rw"}});
      devices.push_back(*std::move(found));
    }
  }
  Json namespaces = Json::array();
  for (const char* const type : {"pid", "ipc", "uts", "mount", "network"}) {
    namespaces.push_back({{"type", type}});
  }
  return {{"ociVersion", "1.0.2"},
          {"process", process(container)},
          {"root", {{"path", "root"}, {"readonly", false}}},
          {"hostname", "trial"},
          {"mounts", mounts},
          {"hooks", hooks(container.edits)},
          {"linux",
           {{"devices", devices},
            {"resources", {{"devices", rules}}},
            {"namespaces", namespaces},
            {"cgroupsPath", "/" + container_id(::getppid())}}}};
}

Command runc(const Trial& trial, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--root", trial.scratch + "/runc"});
  Command command{.path = trial.runc, .arguments = std::move(arguments)};
  // The library of the folder's runc is in the folder too.
  if (trial.runc.starts_with(trial.folder + "/")) {
    command.environment = {{"LD_LIBRARY_PATH", trial.folder + "/lib"}};
  }
  return command;
}

// An empty file or folder on which `host_path` can be mounted.
void make_mount_point(const std::string& at, const std::string& host_path) {
  if (fs::is_directory(host_path)) {
    fs::create_directories(at);
    return;
  }
  fs::create_directories(fs::path(at).parent_path());
  if (!fs::exists(at)) std::ofstream(at, std::ios::app);
}

// The image, and a place for each mount of the edits.
Result<void> make_root_folder(const std::string& root, const std::string& image,
                              const std::vector<plugin::Mount>& mounts) {
  try {
    fs::remove_all(root);
    fs::create_directories(root);
    fs::copy(image, root, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    // Every image has this folder, to which hooks of NVIDIA's toolkit write.
    fs::create_directories(root + "/etc");
    for (const auto& mount : mounts) make_mount_point(root + mount.container_path, mount.host_path);
    return {};
  } catch (const std::exception& thrown) {
    return error(fmt::format("cannot make the root folder of a container: {}", thrown.what()));
  }
}

// The container of a program that was killed runs on.
void remove_container(const Trial& trial) {
  static_cast<void>(run_to_end(runc(trial, {"delete", "-f", container_id(::getppid())}),
                               std::chrono::seconds(10)));
}

// Error: the root of the container cannot be made.
Result<Command> run_command(const Trial& trial, const Container& container) {
  remove_container(trial);
  const std::string bundle = trial.scratch + "/bundle";
  auto made = make_root_folder(bundle + "/root", trial.image(), container.edits.mounts);
  if (!made) return made.error();
  std::ofstream file(bundle + "/config.json");
  file << config(container).dump(1) << "\n";
  file.close();
  if (!file)
    return error(fmt::format("cannot write {}/config.json: {}", bundle, std::strerror(errno)));
  return runc(trial, {"run", "--bundle", bundle, container_id(::getppid())});
}

}  // namespace

// Without arguments the test program prints its usage and ends with 2.
std::string problem_of_runc(const Trial& trial) {
  constexpr int kUsage = 2;
  const auto command = run_command(trial, {.edits = {}, .command = {kProgramInContainer}});
  if (!command) return command.error().message;
  auto program = RunningProgram::start(*command);
  if (!program) return program.error().message;
  const auto code = program->finish(kProgramTimeout);
  if (!code) return code.error().message;
  return *code == kUsage ? "" : program->failure();
}

Result<RunningProgram> run_container(const Trial& trial, const Container& container) {
  const auto command = run_command(trial, container);
  return command ? run_to_end(*command, kProgramTimeout) : command.error();
}

Result<RunningProgram> start_container(const Trial& trial, const Container& container) {
  const auto command = run_command(trial, container);
  return command ? start_and_wait(*command) : command.error();
}

Command in_container(const Trial& trial, const Container& container) {
  const std::string path = trial.scratch + "/process.json";
  // Without the file runc says so.
  std::ofstream(path) << process(container).dump(1) << "\n";
  return runc(trial, {"exec", "--process", path, container_id(::getppid())});
}

pid_t pid_of_container(const Trial& trial) {
  const auto state =
      run_to_end(runc(trial, {"state", container_id(::getppid())}), std::chrono::seconds(10));
  const Json read = state ? Json::parse(state->text(), nullptr, false) : Json();
  return read.is_object() ? read.value("pid", 0) : 0;
}

void remove_runc_cgroups() {
  const std::string id = container_id(::getpid());
  ::rmdir(("/sys/fs/cgroup/" + id).c_str());
  for (const std::string& name : names_in("/sys/fs/cgroup")) {
    ::rmdir(("/sys/fs/cgroup/" + name + "/" + id).c_str());
  }
}

Result<std::string> runc_version(const Trial& trial) {
  const auto program = run_to_end(runc(trial, {"--version"}), std::chrono::seconds(10));
  if (!program) return program.error();
  return program->text();
}

}  // namespace mgpu::gpu_trial
