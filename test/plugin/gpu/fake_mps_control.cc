// A stand-in for nvidia-cuda-mps-control. With "-f" it is the daemon; without, it passes what it
// reads to the daemon of CUDA_MPS_PIPE_DIRECTORY and prints the answer. What the daemon does is in
// the file "behaviour" beside the pipe directory, a line each, read again at every command:
//
//   crash            it ends at its start
//   slow             it does not listen before this is gone
//   mute             it takes commands and never answers
//   fault            its server is in FAULT
//   stay             it does not quit
//   babble           it answers with a megabyte
//   nonsense         it answers with what no command asks for
//   clients <pid>*   of its one server
//
// Starts and commands are lines of the file "calls" beside it.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string beside_pipe(const std::string& name) {
  return variable("CUDA_MPS_PIPE_DIRECTORY") + "/../" + name;
}

// What follows `word` in its line of the behaviour; "-" where there is no such line.
std::string behaviour(const std::string& word) {
  std::ifstream file(beside_pipe("behaviour"));
  for (std::string line; std::getline(file, line);) {
    if (line == word) return "";
    if (line.starts_with(word + " ")) return line.substr(word.size() + 1);
  }
  return "-";
}

bool behaves(const std::string& word) {
  return behaviour(word) != "-";
}

void note(const std::string& call) {
  std::ofstream(beside_pipe("calls"), std::ios::app) << call << "\n";
}

sockaddr_un address() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = variable("CUDA_MPS_PIPE_DIRECTORY") + "/control";
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

std::string read_all(int from) {
  std::string text;
  char part[4096];
  for (ssize_t count; (count = ::read(from, part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(count));
  }
  return text;
}

void write_all(int to, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(to, text.data() + done, text.size() - done);
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

std::string answer_to(const std::string& command) {
  const std::string clients = behaviour("clients");
  const bool has_server = clients != "-" || behaves("fault");
  if (behaves("babble")) return std::string(1 << 20, 'x');
  if (behaves("nonsense")) return "what?\n";
  if (command == "get_default_active_thread_percentage") return "100.0\n";
  if (command == "get_server_list") return has_server ? "4242\n" : "";
  if (command == "get_server_status 4242") return behaves("fault") ? "FAULT\n" : "ACTIVE\n";
  if (command == "get_client_list 4242") {
    std::istringstream pids(clients == "-" ? "" : clients);
    std::string lines;
    for (std::string pid; pids >> pid;) lines += pid + "\n";
    return lines;
  }
  return "";
}

int serve() {
  note("start " + variable("CUDA_VISIBLE_DEVICES"));
  if (behaves("crash")) {
    std::cerr << "first line\nno such card\n";
    return 1;
  }
  while (behaves("slow")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un at = address();
  ::unlink(at.sun_path);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) return 2;
  ::listen(listener, 16);
  while (true) {
    const int client = ::accept(listener, nullptr, nullptr);
    std::string command = read_all(client);
    while (command.ends_with('\n')) command.pop_back();
    if (command == "quit") note("quit");
    if (command == "quit" && !behaves("stay")) return 0;
    // The connection is kept, and nothing comes.
    if (behaves("mute")) continue;
    write_all(client, answer_to(command));
    ::close(client);
  }
}

int pass_on() {
  const int daemon = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un at = address();
  if (::connect(daemon, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    std::cout << "Cannot find MPS control daemon process\n";
    return 1;
  }
  write_all(daemon, read_all(STDIN_FILENO));
  ::shutdown(daemon, SHUT_WR);
  write_all(STDOUT_FILENO, read_all(daemon));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  ::alarm(300);  // none is left behind by a test that was killed
  const bool daemon = count > 1 && std::string(arguments[1]) == "-f";
  return daemon ? serve() : pass_on();
}
