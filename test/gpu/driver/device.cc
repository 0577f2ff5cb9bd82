// Cards as devices of the driver API.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "test/gpu/driver/process.h"

using namespace mgpu::fake_gpu;

namespace mgpu::fake_gpu {
namespace {

struct Attribute {
  int number;
  int value;
};
// CUdevice_attribute of an H200 as NVIDIA's documents give it; those that the scenario says are in
// attribute_of(). All others up to kAttributeMax are 0.
constexpr Attribute kAttributes[] = {
    {1, 1024},         // threads of a block
    {2, 1024},         // and its dimensions
    {3, 1024},         //
    {4, 64},           //
    {5, 2147483647},   // blocks of a grid
    {6, 65535},        //
    {7, 65535},        //
    {8, 49152},        // shared memory of a block
    {9, 65536},        // constant memory
    {10, 32},          // threads of a warp
    {11, 2147483647},  // pitch
    {12, 65536},       // registers of a block
    {13, 1980000},     // clock, in kHz
    {14, 512},         // alignment of textures
    {15, 1},           // copies beside kernels
    {19, 1},           // maps host memory
    {31, 1},           // kernels beside kernels
    {32, 1},           // ECC
    {36, 3201000},     // clock of the memory, in kHz
    {37, 6144},        // bits of its bus
    {38, 62914560},    // L2 cache
    {39, 2048},        // threads of a multiprocessor
    {40, 3},           // engines for copies
    {41, 1},           // one address space with the host
    {78, 1},           // priorities of streams
    {79, 1},           // caches globals in L1
    {80, 1},           // and locals
    {81, 233472},      // shared memory of a multiprocessor
    {82, 65536},       // its registers
    {83, 1},           // managed memory
    {86, 0},           // atomics on host memory
    {89, 1},           // managed memory that both sides use at once
    {90, 1},           // preemption
    {91, 1},           // registered host memory has one address
    {95, 1},           // cooperative launches
    {97, 232448},      // shared memory of a block, if it asks for it
    {102, 1},          // virtual memory
    {103, 1},          // handles of it as file descriptors
    {106, 32},         // blocks of a multiprocessor
    {115, 1},          // pools
};
constexpr int kAttributeMax = 160;
constexpr int kMultiprocessors = 16;
constexpr int kMultiprocessorsMin = 2;  // of a client of MPS
constexpr int kPciBus = 33;
constexpr int kComputeMajor = 75;
constexpr int kComputeMinor = 76;
constexpr int kMpsEnabled = 133;

int attribute_of(int number, const CardState& card) {
  switch (number) {
    case kMultiprocessors:
      return std::min(card.multiprocessors,
                      std::max(kMultiprocessorsMin,
                               static_cast<int>(card.multiprocessors * percent_of_card() / 100)));
    case kMpsEnabled:
      return is_mps_client() ? 1 : 0;
    case kPciBus:
      return card.pci_bus;
    case kComputeMajor:
      return card.compute_major;
    case kComputeMinor:
      return card.compute_minor;
    default:
      break;
  }
  const auto* const found = std::find_if(std::begin(kAttributes), std::end(kAttributes),
                                         [&](const Attribute& a) { return a.number == number; });
  return found == std::end(kAttributes) ? 0 : found->value;
}

int copy_text(std::string_view text, char* to, int size) {
  if (to == nullptr || size <= 0) return kInvalidValue;
  const std::size_t count = std::min(text.size(), static_cast<std::size_t>(size) - 1);
  std::memcpy(to, text.data(), count);
  to[count] = '\0';
  return kSuccess;
}

std::string pci_id(const CardState& card) {
  char text[32];
  std::snprintf(text, sizeof text, "0000:%02X:00.0", static_cast<unsigned>(card.pci_bus));
  return text;
}

// The 16 bytes of "GPU-6d677075-..."; what is no hexadecimal digit is left out.
void uuid_bytes(const CardState& card, unsigned char* bytes) {
  std::string digits(card.uuid);
  if (digits.starts_with("GPU-")) digits.erase(0, 4);
  std::erase_if(digits, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) == 0; });
  digits.resize(32, '0');
  for (std::size_t i = 0; i < 16; ++i) {
    bytes[i] = static_cast<unsigned char>(std::stoul(digits.substr(2 * i, 2), nullptr, 16));
  }
}

const CardState& card_of(int device) {
  return process().machine->card(device);
}

}  // namespace
}  // namespace mgpu::fake_gpu

FAKE_CUDA int cuDeviceGetCount(int* count) {
  return initialized([&] {
    if (count == nullptr) return kInvalidValue;
    *count = process().machine->card_count();
    return kSuccess;
  });
}

FAKE_CUDA int cuDeviceGet(int* device, int ordinal) {
  return on_device(ordinal, [&] {
    if (device == nullptr) return kInvalidValue;
    *device = ordinal;
    return kSuccess;
  });
}

FAKE_CUDA int cuDeviceGetName(char* name, int size, int device) {
  return on_device(device, [&] { return copy_text(card_of(device).model, name, size); });
}

FAKE_CUDA int cuDeviceGetUuid_v2(unsigned char* bytes, int device) {
  return on_device(device, [&] {
    if (bytes == nullptr) return kInvalidValue;
    uuid_bytes(card_of(device), bytes);
    return kSuccess;
  });
}
FAKE_CUDA_ALIAS(cuDeviceGetUuid, cuDeviceGetUuid_v2);

FAKE_CUDA int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  return on_device(device, [&] {
    if (bytes == nullptr) return kInvalidValue;
    *bytes = process().machine->total(device);
    return kSuccess;
  });
}

FAKE_CUDA int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return on_device(device, [&] {
    if (value == nullptr || attribute < 1 || attribute > kAttributeMax) return kInvalidValue;
    *value = attribute_of(attribute, card_of(device));
    return kSuccess;
  });
}

FAKE_CUDA int cuDeviceComputeCapability(int* major, int* minor, int device) {
  return on_device(device, [&] {
    if (major == nullptr || minor == nullptr) return kInvalidValue;
    *major = card_of(device).compute_major;
    *minor = card_of(device).compute_minor;
    return kSuccess;
  });
}

FAKE_CUDA int cuDeviceGetPCIBusId(char* text, int size, int device) {
  return on_device(device, [&] { return copy_text(pci_id(card_of(device)), text, size); });
}

FAKE_CUDA int cuDeviceGetByPCIBusId(int* device, const char* text) {
  return initialized([&] {
    if (device == nullptr || text == nullptr) return kInvalidValue;
    for (int i = 0; i < process().machine->card_count(); ++i) {
      *device = i;
      if (pci_id(card_of(i)) == text) return kSuccess;
    }
    return kInvalidDevice;
  });
}

// CUdevice_P2PAttribute. Cards reach each other; atomics need NVLink.
FAKE_CUDA int cuDeviceGetP2PAttribute(int* value, int attribute, int device, int peer) {
  constexpr int kAccess = 2;
  constexpr int kAtomics = 3;
  constexpr int kArrays = 4;
  return on_device(device, [&] {
    if (!is_device(peer)) return kInvalidDevice;
    const bool known = attribute == kAccess || attribute == kAtomics || attribute == kArrays;
    if (value == nullptr || !known || device == peer) return kInvalidValue;
    const bool linked = process().machine->link(device, peer).starts_with("NV");
    *value = attribute != kAtomics || linked ? 1 : 0;
    return kSuccess;
  });
}

FAKE_CUDA int cuDeviceCanAccessPeer(int* can, int device, int peer) {
  return on_device(device, [&] {
    if (can == nullptr || !is_device(peer)) return can == nullptr ? kInvalidValue : kInvalidDevice;
    *can = device != peer ? 1 : 0;
    return kSuccess;
  });
}
