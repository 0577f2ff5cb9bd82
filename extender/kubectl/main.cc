// kubectl-mgpu: a plugin of kubectl.
#include <csignal>

#include "extender/kubectl/verb.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  auto console = mgpu::kubectl::process_console();
  return mgpu::kubectl::run_kubectl_mgpu(argc, argv, console);
}
