// Programs that need no CUDA: what a container can do to the files and sockets of a folder.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "bench/gpu/cuda/programs.h"

namespace mgpu::gpu_trial::cuda {
namespace {

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
