// A stand-in for nvidia-modprobe and modprobe in the root of a node. It is linked statically, since
// that root has nothing else. modprobe "loads" nvidia-uvm with the major number 511;
// nvidia-modprobe makes /dev/nvidia-uvm as a regular file.
#include <stdio.h>
#include <string.h>

namespace {

bool write_file(const char* path, const char* text) {
  FILE* const file = fopen(path, "w");
  if (file == nullptr) return false;
  fputs(text, file);
  return fclose(file) == 0;
}

}  // namespace

int main(int count, char** words) {
  const char* const slash = strrchr(words[0], '/');
  const char* const name = slash == nullptr ? words[0] : slash + 1;
  if (strcmp(name, "modprobe") == 0) {
    if (count != 2 || strcmp(words[1], "nvidia-uvm") != 0) return 2;
    return write_file("/proc/devices", "Character devices:\n  1 mem\n511 nvidia-uvm\n") ? 0 : 1;
  }
  if (count != 3 || strcmp(words[1], "-u") != 0 || strcmp(words[2], "-c=0") != 0) return 2;
  return write_file("/dev/nvidia-uvm", "") ? 0 : 1;
}
