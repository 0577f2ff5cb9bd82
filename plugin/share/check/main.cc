// mgpu-check-share tries on a card whether the library in the place of libcuda.so.1 holds the limit
// of a share, as a container would find it: with a root of its own that has only the files of
// standard input.
//
//   mgpu-check-share FOLDER GPU-UUID CONTEXT_MIB LIBCUDA
//
// A line of standard input is a variable, NAME=VALUE, or a file or folder of the node and its path
// in the root, with a tab between them. The root is mounted over FOLDER, for this program alone. It
// prints lines: "passed CHECK", "failed CHECK: WHY", and "skipped CHECK: WHY", where nothing is
// known; at the end "done". When it is killed, nothing is left of it.
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "plugin/share/check/checks.h"

namespace mgpu::share {
namespace {

constexpr char kSelf[] = "/usr/bin/mgpu-check-share";
constexpr char kInside[] = "--inside";
// The caller has a shorter limit, and may have ended.
constexpr unsigned kSecondsMax = 60;

struct Input {
  struct File {
    std::string from;
    std::string to;
  };
  std::vector<File> files;
  std::vector<std::string> variables;
};

int skip(const std::string& why) {
  std::printf("skipped start: %s\n", why.c_str());
  return 0;
}

Input read_input() {
  Input input;
  std::string line;
  for (int byte = std::getchar(); byte != EOF; byte = std::getchar()) {
    if (byte != '\n') {
      line += static_cast<char>(byte);
      continue;
    }
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) {
      input.variables.push_back(line);
    } else {
      input.files.push_back({line.substr(0, tab), line.substr(tab + 1)});
    }
    line.clear();
  }
  return input;
}

// What this program itself needs: its loader and its libraries.
std::vector<Input::File> own_files() {
  std::vector<Input::File> files;
  char self[4096] = {};
  if (::readlink("/proc/self/exe", self, sizeof(self) - 1) > 0) files.push_back({self, kSelf});
  const auto add = [](dl_phdr_info* loaded, std::size_t, void* to) {
    const std::string path = loaded->dlpi_name;
    if (path.starts_with('/')) static_cast<std::vector<Input::File>*>(to)->push_back({path, path});
    return 0;
  };
  ::dl_iterate_phdr(add, &files);
  return files;
}

bool make_folders(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    if (::mkdir(path.substr(0, at).c_str(), 0755) != 0 && errno != EEXIST) return false;
  }
  return true;
}

bool bind(const std::string& from, const std::string& to) {
  struct stat found {};
  if (::stat(from.c_str(), &found) != 0) return false;
  if (!make_folders(S_ISDIR(found.st_mode) ? to + "/" : to)) return false;
  if (!S_ISDIR(found.st_mode)) ::close(::open(to.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  return ::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

// Empty, or why there is no such root.
std::string enter_root(const std::string& folder, const std::vector<Input::File>& files) {
  const auto failed = [](const std::string& what) { return what + ": " + std::strerror(errno); };
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failed("mounts");
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV;
  if (::mount("mgpu-check", folder.c_str(), "tmpfs", kFlags, "size=64m,mode=0755") != 0) {
    return failed(folder);
  }
  for (const char* const path : {"/dev/null", "/dev/zero", "/dev/urandom", "/sys"}) {
    bind(path, folder + path);  // as in every container; CUDA can do without
  }
  for (const Input::File& file : files) {
    if (!bind(file.from, folder + file.to)) return failed(file.from);
  }
  for (const char* const path : {"/proc", "/tmp", "/dev/shm"}) {
    if (!make_folders(folder + path + "/")) return failed(path);
  }
  if (::mount("proc", (folder + "/proc").c_str(), "proc", 0, nullptr) != 0) return failed("/proc");
  if (::chroot(folder.c_str()) != 0 || ::chdir("/") != 0) return failed("chroot");
  return "";
}

// The first process of a PID namespace, which ends with it.
int run_in_root(char** words, Input input) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::vector<Input::File> files = own_files();
  files.insert(files.end(), input.files.begin(), input.files.end());
  const std::string problem = enter_root(words[1], files);
  if (!problem.empty()) return skip("there is no root for it: " + problem);
  std::string inside = kInside;
  char* const arguments[] = {words[0], inside.data(), words[2], words[3], words[4], nullptr};
  std::vector<char*> variables;
  for (std::string& variable : input.variables) variables.push_back(variable.data());
  variables.push_back(nullptr);
  ::execve(kSelf, arguments, variables.data());
  return skip(std::string("it does not start there: ") + std::strerror(errno));
}

int run(char** words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Input input = read_input();
  ::alarm(kSecondsMax);
  if (::unshare(CLONE_NEWNS | CLONE_NEWPID) != 0) {
    return skip(std::string("namespaces are not permitted: ") + std::strerror(errno));
  }
  const pid_t child = ::fork();
  if (child < 0) return skip(std::strerror(errno));
  if (child == 0) return run_in_root(words, std::move(input));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace
}  // namespace mgpu::share

int main(int count, char** words) {
  using namespace mgpu::share;
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  if (count == 2 && std::strcmp(words[1], "--help") == 0) {
    return std::puts("usage: mgpu-check-share FOLDER GPU-UUID CONTEXT_MIB LIBCUDA <FILES") < 0;
  }
  if (count != 5) {
    std::fputs("usage: mgpu-check-share FOLDER GPU-UUID CONTEXT_MIB LIBCUDA <FILES\n", stderr);
    return 2;
  }
  if (std::strcmp(words[1], kInside) != 0) return run(words);
  const std::uint64_t context = std::strtoull(words[3], nullptr, 10) << 20U;
  return run_checks({.uuid = words[2], .context_bytes = context, .libcuda = words[4]});
}
