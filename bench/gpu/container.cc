#include "bench/gpu/container.h"

#include <fmt/format.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace mgpu::gpu_trial {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kCannotEnter = 125;  // docker and chroot use the same code

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(fmt::format("cannot {}: {}", what, std::strerror(errno)));
}

void mount_on(const char* type, const std::string& at, unsigned long flags, const char* options) {
  fs::create_directories(at);
  if (::mount(type, at.c_str(), type, flags, options) != 0) fail("mount " + at);
}

// Makes an empty file or folder on which `host_path` can be mounted.
void make_mount_point(const std::string& at, const std::string& host_path) {
  if (fs::is_directory(host_path)) {
    fs::create_directories(at);
    return;
  }
  fs::create_directories(fs::path(at).parent_path());
  if (!fs::exists(at)) std::ofstream(at, std::ios::app);
}

void mount_bind(const std::string& host_path, const std::string& at, bool read_only,
                bool no_exec = false) {
  make_mount_point(at, host_path);
  if (::mount(host_path.c_str(), at.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
    fail("mount " + host_path + " on " + at);
  }
  const unsigned long flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV |
                              (read_only ? MS_RDONLY : 0) | (no_exec ? MS_NOEXEC : 0);
  if (::mount(nullptr, at.c_str(), nullptr, flags, nullptr) != 0) fail("mount again " + at);
}

// Makes a device node with the number and mode of the node's device, as runtimes do. If the file on
// the node is no device, as in tests, it is mounted.
void make_device(const std::string& host_path, const std::string& at) {
  struct stat device {};
  if (::stat(host_path.c_str(), &device) != 0) fail("find device " + host_path);
  if (!S_ISCHR(device.st_mode)) return mount_bind(host_path, at, false);
  fs::create_directories(fs::path(at).parent_path());
  if (::mknod(at.c_str(), device.st_mode, device.st_rdev) != 0) fail("make device " + at);
  if (::chmod(at.c_str(), device.st_mode & 07777) != 0) fail("make device " + at);
}

void copy_image(const std::string& image, const std::string& root) {
  fs::copy(image, root, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

// Adds the files that every runtime adds to a container.
void add_usual_files(const std::string& root) {
  for (const char* const device : {"/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"}) {
    make_device(device, root + device);
  }
  fs::create_directories(root + "/tmp");
  ::chmod((root + "/tmp").c_str(), 01777);
  // Kubernetes uses the same size.
  mount_on("tmpfs", root + "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777,size=65536k");
  fs::create_directories(root + "/proc");
  // gVisor and nested containers may reject a new mount of proc. It is writable, because drivers
  // write to it.
  if (::mount("proc", (root + "/proc").c_str(), "proc", 0, nullptr) != 0) {
    mount_bind("/proc", root + "/proc", false);
  }
  mount_bind("/sys", root + "/sys", true);
}

void fill_root(const Json& plan, const std::string& root) {
  mount_on("tmpfs", root, MS_NOSUID, "mode=755");
  copy_image(plan.at("image"), root);
  add_usual_files(root);
  for (const Json& device : plan.at("devices")) {
    make_device(device.at("host"), root + device.at("path").get<std::string>());
  }
  for (const Json& mount : plan.at("mounts")) {
    mount_bind(mount.at("host").get<std::string>(), root + mount.at("path").get<std::string>(),
               mount.at("readOnly").get<bool>(), mount.at("noExec").get<bool>());
  }
}

void become_user(int user) {
  const auto id = static_cast<uid_t>(user);
  if (user == 0) return;
  if (::setgroups(0, nullptr) != 0 || ::setgid(id) != 0 || ::setuid(id) != 0) {
    fail(fmt::format("become user {}", user));
  }
}

[[noreturn]] void exec_program(const Json& plan) {
  std::vector<std::string> command = plan.at("command");
  std::vector<std::string> variables = plan.at("environment");
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  };
  ::execve(command.front().c_str(), pointers(command).data(), pointers(variables).data());
  fail("start " + command.front());
}

[[noreturn]] void enter_root(const Json& plan) {
  const std::string root = plan.at("root");
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  fs::create_directories(root);
  // From here on, mounts are not visible outside of this namespace.
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail("make / private");
  fill_root(plan, root);
  if (::chroot(root.c_str()) != 0 || ::chdir("/") != 0) fail("enter " + root);
  become_user(plan.at("user"));
  // The change of the user has reset the parent-death signal.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  exec_program(plan);
}

int cannot_enter(const std::exception& problem) {
  std::fprintf(stderr, "mgpu-gpu-trial enter: %s\n", problem.what());
  return kCannotEnter;
}

// Runs in the first process of the new namespaces. It does not destroy objects of its parent.
[[noreturn]] void run_in_root(const Json& plan) {
  try {
    enter_root(plan);
  } catch (const std::exception& problem) {
    ::_exit(cannot_enter(problem));
  }
}

int run_in_namespaces(const Json& plan) {
  const int own = plan.at("ownNamespaces").get<bool>() ? CLONE_NEWPID | CLONE_NEWIPC : 0;
  if (::unshare(CLONE_NEWNS | own) != 0) fail("make namespaces");
  const pid_t child = ::fork();
  if (child < 0) fail("start a process");
  if (child == 0) run_in_root(plan);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Json plan_of(const Trial& trial, const Container& container) {
  Json plan = {{"root", trial.scratch + "/root"}, {"image", trial.image()},
               {"user", container.user},          {"ownNamespaces", container.own_namespaces},
               {"command", container.command},    {"environment", {"PATH=/usr/bin:/bin"}},
               {"devices", Json::array()},        {"mounts", Json::array()}};
  for (const auto& [name, value] : container.edits.environment) {
    plan["environment"].push_back(name + "=" + value);
  }
  for (const auto& device : container.edits.devices) {
    plan["devices"].push_back({{"host", device.host_path}, {"path", device.path}});
  }
  for (const auto* const mounts : {&container.edits.mounts, &container.more_mounts}) {
    for (const auto& mount : *mounts) {
      plan["mounts"].push_back({{"host", mount.host_path},
                                {"path", mount.container_path},
                                {"readOnly", mount.read_only},
                                {"noExec", mount.no_exec}});
    }
  }
  return plan;
}

}  // namespace

Command enter_command(const Trial& trial, const Container& container) {
  return {.path = "/proc/self/exe",
          .arguments = {"enter", plan_of(trial, container).dump()},
          .environment = {}};
}

int enter(const std::vector<std::string>& arguments) {
  try {
    if (arguments.size() != 1) throw std::runtime_error("expected one argument, the plan as JSON");
    return run_in_namespaces(Json::parse(arguments.front()));
  } catch (const std::exception& problem) {
    return cannot_enter(problem);
  }
}

Result<void> make_root_folder(const std::string& root, const std::string& image,
                              const std::vector<plugin::Mount>& mounts) {
  try {
    fs::remove_all(root);
    fs::create_directories(root);
    copy_image(image, root);
    // Every image has this folder, to which hooks of NVIDIA's toolkit write.
    fs::create_directories(root + "/etc");
    for (const auto& mount : mounts) make_mount_point(root + mount.container_path, mount.host_path);
    return {};
  } catch (const std::exception& thrown) {
    return error(fmt::format("cannot make the root folder of a container: {}", thrown.what()));
  }
}

}  // namespace mgpu::gpu_trial
