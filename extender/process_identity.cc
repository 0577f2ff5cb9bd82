#include "extender/process_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <random>

namespace mgpu::extender {

std::string process_identity() {
  std::array<char, 256> host{};  // the last byte stays zero
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::random_device random;
  return fmt::format("{}_{:08x}{:08x}", host.data(), random(), random());
}

}  // namespace mgpu::extender
