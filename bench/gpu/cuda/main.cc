// mgpu-cuda-program: CUDA programs that the GPU trial starts, in containers and as MPS clients. It
// needs the C library and libcuda.so.1, nothing else, so that it runs in an otherwise empty root.
//
//   vector-add          computes on the card and compares with the CPU
//   largest MIB         the largest allocation that succeeds, up to MIB
//   hold MIB            allocates, and keeps the memory until its input ends
//   measure MILLIS      measures throughput once for each line of its input
//   busy                keeps the card busy until its input ends
//   connect FOLDER      connects to the sockets of a folder, sends nothing, and writes to its FIFOs
//   replace PATH        tries to replace and to remove a socket
//
// It prints lines "<name>=<value>". If the driver refuses a call it prints "failed=<function>" and
// "error=<name of the error>", and exits with 1; with 2 if its arguments are wrong.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bench/gpu/cuda/driver.h"
#include "bench/gpu/cuda/programs.h"

namespace {

using namespace mgpu::gpu_trial::cuda;

int usage() {
  std::fputs(
      "mgpu-cuda-program: expected vector-add, largest MIB, hold MIB, measure MILLIS, busy, "
      "connect FOLDER or replace PATH\n",
      stderr);
  return 2;
}

int run(const std::string& command, unsigned long amount) {
  const Driver driver;
  print("library", driver.path);
  if (command == "vector-add") return vector_add(driver);
  if (command == "largest") return largest(driver, amount);
  if (command == "hold") return hold(driver, amount);
  if (command == "measure") return measure(driver, std::chrono::milliseconds(amount));
  return busy(driver);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string command = count > 1 ? arguments[1] : "";
  if (command == "connect" && count == 3) return connect_silently(arguments[2]);
  if (command == "replace" && count == 3) return replace(arguments[2]);
  const bool has_amount = command == "largest" || command == "hold" || command == "measure";
  const bool known = has_amount || command == "vector-add" || command == "busy";
  if (!known || count != (has_amount ? 3 : 2)) return usage();
  char* end = nullptr;
  const unsigned long amount = has_amount ? std::strtoul(arguments[2], &end, 10) : 0;
  if (has_amount && (end == arguments[2] || *end != '\0')) return usage();
  try {
    return run(command, amount);
  } catch (const Failure& failure) {
    print("failed", failure.call());
    print("error", failure.reason());
    return 1;
  }
}
