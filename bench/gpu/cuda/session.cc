// Programs that need no CUDA: one that starts others in the same container, and one that changes
// files there.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/gpu/cuda/programs.h"

namespace mgpu::gpu_trial::cuda {
namespace {

struct Child {
  std::string name;
  pid_t pid = 0;
  int socket = -1;
  std::string unread;  // the beginning of a line
};

[[noreturn]] void run_child(int socket, std::vector<std::string> words) {
  ::dup2(socket, STDIN_FILENO);
  ::dup2(socket, STDOUT_FILENO);
  while (words.size() > 1 && words.front() == "-u") {
    ::unsetenv(words[1].c_str());
    words.erase(words.begin(), words.begin() + 2);
  }
  words.insert(words.begin(), "mgpu-cuda-program");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv("/proc/self/exe", arguments.data());
  std::perror("mgpu-cuda-program: cannot start itself");
  ::_exit(127);
}

// Starts the program of a line. Lines that name none are ignored.
void start_child(const std::string& line, std::vector<Child>& children) {
  std::istringstream input(line);
  std::vector<std::string> words;
  Child child;
  input >> child.name;
  for (std::string word; input >> word;) words.push_back(word);
  int pair[2];
  if (words.empty() || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return;
  child.pid = ::fork();
  if (child.pid == 0) run_child(pair[1], std::move(words));
  ::close(pair[1]);
  child.socket = pair[0];
  children.push_back(std::move(child));
}

void report_end(const Child& child) {
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  const bool exited = WIFEXITED(status);
  print(child.name.c_str(), exited ? "exit code " + std::to_string(WEXITSTATUS(status))
                                   : "signal " + std::to_string(WTERMSIG(status)));
}

// Passes the lines of a child on. Returns false at its end.
bool read_child(Child& child) {
  std::array<char, 4096> part{};
  const ssize_t count = ::read(child.socket, part.data(), part.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) {
    ::close(child.socket);
    report_end(child);
    return false;
  }
  child.unread.append(part.data(), static_cast<std::size_t>(count));
  for (std::size_t end; (end = child.unread.find('\n')) != std::string::npos;) {
    const std::string line = child.unread.substr(0, end);
    child.unread.erase(0, end + 1);
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    print((child.name + "_" + line.substr(0, equals)).c_str(), line.substr(equals + 1));
    if (line == "ready=1") print(child.name.c_str(), "ready");
  }
  return true;
}

// Returns false at the end of the input.
bool read_input(std::string& unread, std::vector<Child>& children) {
  std::array<char, 4096> part{};
  const ssize_t count = ::read(STDIN_FILENO, part.data(), part.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  unread.append(part.data(), static_cast<std::size_t>(count));
  for (std::size_t end; (end = unread.find('\n')) != std::string::npos;) {
    start_child(unread.substr(0, end), children);
    unread.erase(0, end + 1);
  }
  return true;
}

void print_attempt(const char* name, bool done) {
  print(name, done ? "done" : std::strerror(errno));
}

// Connects as clients of NVIDIA's daemon do, or else as those of its stand-in. Negative if it
// fails.
int connection_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  for (const int type : {SOCK_SEQPACKET, SOCK_STREAM}) {
    const int socket = ::socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return socket;
    }
    ::close(socket);
  }
  return -1;
}

// "done", or the error. Some bytes in the FIFO of NVIDIA's log stop the daemon for a while.
std::string write_to_fifo(const std::string& path) {
  const std::string text(100, 'x');
  const int fifo = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  const bool done = fifo >= 0 && ::write(fifo, text.data(), text.size()) > 0;
  const std::string result = done ? "done" : std::strerror(errno);
  if (fifo >= 0) ::close(fifo);
  return result;
}

}  // namespace

int session() {
  std::vector<Child> children;
  std::string unread;
  bool has_input = true;
  print("ready", 1);
  while (has_input || !children.empty()) {
    std::vector<pollfd> ready = {{has_input ? STDIN_FILENO : -1, POLLIN, 0}};
    for (const Child& child : children) ready.push_back({child.socket, POLLIN, 0});
    if (::poll(ready.data(), ready.size(), -1) < 0) continue;
    std::vector<Child> left;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (ready[i + 1].revents == 0 || read_child(children[i])) left.push_back(children[i]);
    }
    children = std::move(left);
    if (ready.front().revents == 0 || read_input(unread, children)) continue;
    has_input = false;
    for (const Child& child : children) ::shutdown(child.socket, SHUT_WR);
  }
  return 0;
}

int connect_silently(const std::string& folder) {
  std::set<std::string> names;
  std::string fifo = "none";
  unsigned connected = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename());
    if (entry.is_fifo()) fifo = write_to_fifo(entry.path());
    if (entry.is_socket() && connection_to(entry.path()) >= 0) ++connected;
  }
  std::string entries;
  for (const std::string& name : names) entries += (entries.empty() ? "" : " ") + name;
  print("entries", entries);
  print("fifo", fifo);
  print("connected", connected);
  print("ready", 1);
  while (std::getchar() != EOF) {
  }
  return 0;
}

int replace(const std::string& path) {
  const std::string added = path + ".new";
  const int file = ::open(added.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  print_attempt("create", file >= 0);
  if (file >= 0) ::close(file);
  // Another socket of the same name would get the commands and clients of the other containers.
  ::unlink(added.c_str());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, added.c_str(), sizeof address.sun_path - 1);
  const bool bound =
      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  print_attempt("rename", bound && std::rename(added.c_str(), path.c_str()) == 0);
  print_attempt("unlink", ::unlink(path.c_str()) == 0);
  ::close(socket);
  return 0;
}

}  // namespace mgpu::gpu_trial::cuda
