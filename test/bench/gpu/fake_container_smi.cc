// A stand-in for nvidia-smi in containers, which have only a C library. It prints the cards of the
// file MGPU_FAKE_NVML (fake_nvml.cc), or fails where the real program does not find NVML.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

int main() {
  const char* const file = std::getenv("MGPU_FAKE_NVML");
  bool has_nvml = false;
  for (const char* const folder : {"/usr/lib/x86_64-linux-gnu/", "/usr/lib64/"}) {
    has_nvml = has_nvml || ::access((std::string(folder) + "libnvidia-ml.so.1").c_str(), R_OK) == 0;
  }
  if (!has_nvml || ::access("/dev/nvidiactl", F_OK) != 0) {
    std::puts("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.");
    return 12;
  }
  std::ifstream lines(file != nullptr ? file : "");
  int index = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    std::string uuid;
    if (words >> kind >> uuid && kind == "card")
      std::printf("GPU %d: H100 (UUID: %s)\n", index++, uuid.c_str());
  }
  return 0;
}
