// Physical memory of the functions for virtual memory. It comes back when the last of its
// references is gone: handles and mappings. Arrays, multicast objects and files that it was
// exported to refer to it until an end that no call shows, so that what they got counts until the
// process ends.
#include "plugin/share/memory.h"
#include "plugin/share/table.h"

namespace mgpu::share {
namespace {

struct Physical {
  unsigned card;
  std::uint64_t bytes;
  std::uint64_t references;
  bool kept;  // it counts until the process ends
};
struct HandleUse {
  std::uint64_t physical;
  std::uint64_t count;
};
struct Mapping {
  std::uint64_t physical;
  std::uint64_t bytes;
};

pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
Table<Physical> physicals;  // by a number of ours, because handles are used again
Table<HandleUse> handles;
Table<Mapping> mappings;  // by address
std::uint64_t last_number = 0;

void drop_reference(std::uint64_t number) {
  Physical* const physical = physicals.find(number);
  if (physical == nullptr || --physical->references > 0) return;
  if (physical->kept) {
    add_hidden(physical->card, static_cast<std::int64_t>(physical->bytes));
  } else {
    card_at(physical->card).account.give_back(physical->bytes);
  }
  physicals.erase(number);
}

void add_handle(Address handle, std::uint64_t number) {
  HandleUse* const use = handles.insert(handle);
  Physical* const physical = physicals.find(number);
  if (use == nullptr || physical == nullptr) return;  // it stays counted until the process ends
  use->physical = number;
  ++use->count;
  ++physical->references;
}

constexpr std::uint64_t kOnHost = ~std::uint64_t{0};

// A physical without references for memory of another process. 0: it does not fit.
std::uint64_t import(std::uint64_t bytes, Address handle) {
  AllocationProperties properties{};
  const auto result = REAL(cuMemGetAllocationPropertiesFromHandle)(&properties, handle);
  if (result == kSuccess && properties.location.type != kDeviceLocation) return kOnHost;
  Card* const card = result == kSuccess ? card_of(properties.location.id) : current_card();
  if (card == nullptr || !reserve(*card, bytes)) return 0;
  Physical* const physical = physicals.insert(++last_number);
  if (physical == nullptr) return 0;
  *physical = {.card = index_of(*card), .bytes = bytes, .references = 0, .kept = false};
  return last_number;
}

void remember(const Card& card, std::uint64_t bytes, Address handle) {
  const Lock lock(mutex);
  Physical* const physical = physicals.insert(++last_number);
  if (physical == nullptr) return;
  *physical = {.card = index_of(card), .bytes = bytes, .references = 0, .kept = false};
  handles.erase(handle);
  add_handle(handle, last_number);
}

void unmap(Address address, std::uint64_t bytes) {
  const Mapping* const whole = mappings.find(address);
  if (whole != nullptr && whole->bytes == bytes) {
    const std::uint64_t number = whole->physical;
    mappings.erase(address);
    drop_reference(number);
    return;
  }
  mappings.erase_if([&](std::uint64_t at, const Mapping& mapping) {
    const bool inside = at >= address && at - address < bytes;
    if (inside) drop_reference(mapping.physical);
    return inside;
  });
}

// The driver keeps the memory for something that no call ends, unless it refuses the call.
template <class Call>
Result keep(std::uint64_t number, Call call) {
  Physical* physical = physicals.find(number);
  if (physical == nullptr) return kNotSupported;
  const bool before = physical->kept;
  physical->kept = true;
  const Result result = call();
  physical = physicals.find(number);
  if (result != kSuccess && physical != nullptr) physical->kept = before;
  return result;
}

std::uint64_t physical_of(Address handle) {
  const HandleUse* const use = handles.find(handle);
  return use == nullptr ? 0 : use->physical;
}

bool on_host(Address handle) {
  AllocationProperties properties{};
  return REAL(cuMemGetAllocationPropertiesFromHandle)(&properties, handle) == kSuccess &&
         properties.location.type != kDeviceLocation;
}

template <class Call>
Result bind(Address handle, Call call) {
  if (!cards_attached()) return call();
  const Lock lock(mutex);
  return on_host(handle) ? call() : keep(physical_of(handle), call);
}

// What others have exported counts there, and here when it is mapped.
template <class Call>
Result export_memory(Address handle, Call call) {
  if (!cards_attached()) return call();
  const Lock lock(mutex);
  const std::uint64_t number = physical_of(handle);
  return number == 0 ? call() : keep(number, call);
}

// The memory behind an address, or 0.
std::uint64_t physical_at(std::uint64_t address) {
  std::uint64_t number = 0;
  mappings.for_each([&](std::uint64_t at, const Mapping& mapping) {
    if (address >= at && address - at < mapping.bytes) number = mapping.physical;
  });
  return number;
}

template <class Call>
Result bind_address(Address address, Call call) {
  if (!cards_attached()) return call();
  const Lock lock(mutex);
  const std::uint64_t number = physical_at(address);
  if (number != 0) return keep(number, call);
  const Result result = call();
  if (result == kSuccess) keep_block_at(address);
  return result;
}

Result map_array(ArrayMapping* list, unsigned count, Handle stream,
                 Result (*call)(ArrayMapping*, unsigned, Handle)) {
  constexpr int kMap = 1;
  if (!cards_attached()) return call(list, count, stream);
  const Lock lock(mutex);
  for (unsigned i = 0; list != nullptr && i < count; ++i) {
    if (list[i].operation != kMap || list[i].handle == 0 || on_host(list[i].handle)) continue;
    const Result kept = keep(physical_of(list[i].handle), [] { return kSuccess; });
    if (kept != kSuccess) return kept;
  }
  return call(list, count, stream);
}

}  // namespace

void forget_virtual_memory() {
  const Lock lock(mutex);
  physicals.clear();
  handles.clear();
  mappings.clear();
}

// --- the driver's functions ------------------------------------------------------------

// It counts for the card that it is on, which need not be that of the current context.
Result cuMemCreate(Address* handle, std::size_t bytes, const AllocationProperties* properties,
                   std::uint64_t flags) {
  const int type = properties == nullptr ? 0 : properties->location.type;
  if (type > kLastHostLocation) return kNotSupported;  // of a newer driver
  if (type != kDeviceLocation) return REAL(cuMemCreate)(handle, bytes, properties, flags);
  Card* const card = card_of(properties->location.id);
  if (card == nullptr) return no_card();
  if (!reserve(*card, bytes)) return kOutOfMemory;
  const Result result = REAL(cuMemCreate)(handle, bytes, properties, flags);
  if (result == kSuccess) {
    remember(*card, bytes, *handle);
  } else {
    card->account.give_back(bytes);
  }
  return result;
}

// The lock is held during the driver's calls, so that a handle or an address that is used again at
// once is not taken for the old one.
Result cuMemRelease(Address handle) {
  if (!cards_attached()) return REAL(cuMemRelease)(handle);
  const Lock lock(mutex);
  const Result result = REAL(cuMemRelease)(handle);
  HandleUse* const use = handles.find(handle);
  if (result != kSuccess || use == nullptr) return result;
  const std::uint64_t number = use->physical;
  if (--use->count == 0) handles.erase(handle);
  drop_reference(number);
  return result;
}

Result cuMemMap(Address address, std::size_t bytes, std::size_t offset, Address handle,
                std::uint64_t flags) {
  if (!cards_attached()) return REAL(cuMemMap)(address, bytes, offset, handle, flags);
  const Lock lock(mutex);
  const HandleUse* const use = handles.find(handle);
  // An imported handle is unknown: its memory counts with the mapping.
  const std::uint64_t number = use != nullptr ? use->physical : import(bytes, handle);
  Physical* const physical = physicals.find(number);
  if (number != kOnHost && physical == nullptr) return kOutOfMemory;
  if (physical != nullptr) ++physical->references;
  const Result result = REAL(cuMemMap)(address, bytes, offset, handle, flags);
  if (physical == nullptr) return result;
  Mapping* const mapping = result == kSuccess ? mappings.insert(address) : nullptr;
  if (mapping != nullptr) *mapping = {.physical = number, .bytes = bytes};
  if (result != kSuccess) drop_reference(number);
  return result;
}

Result cuMemUnmap(Address address, std::size_t bytes) {
  if (!cards_attached()) return REAL(cuMemUnmap)(address, bytes);
  const Lock lock(mutex);
  const Result result = REAL(cuMemUnmap)(address, bytes);
  if (result == kSuccess) unmap(address, bytes);
  return result;
}

Result cuMemRetainAllocationHandle(Address* handle, void* address) {
  if (!cards_attached()) return REAL(cuMemRetainAllocationHandle)(handle, address);
  const Lock lock(mutex);
  const Result result = REAL(cuMemRetainAllocationHandle)(handle, address);
  if (result != kSuccess) return result;
  const std::uint64_t number = physical_at(reinterpret_cast<std::uint64_t>(address));
  if (number != 0) add_handle(*handle, number);
  return result;
}

Result cuMemExportToShareableHandle(void* exported, Address handle, int type, std::uint64_t flags) {
  return export_memory(
      handle, [&] { return REAL(cuMemExportToShareableHandle)(exported, handle, type, flags); });
}

Result cuMemGetHandleForAddressRange(void* exported, Address address, std::size_t bytes, int type,
                                     std::uint64_t flags) {
  return bind_address(address, [&] {
    return REAL(cuMemGetHandleForAddressRange)(exported, address, bytes, type, flags);
  });
}

Result cuMemMapArrayAsync(ArrayMapping* list, unsigned count, Handle stream) {
  return map_array(list, count, stream, REAL(cuMemMapArrayAsync));
}

Result cuMemMapArrayAsync_ptsz(ArrayMapping* list, unsigned count, Handle stream) {
  return map_array(list, count, stream, REAL(cuMemMapArrayAsync_ptsz));
}

Result cuMulticastBindMem(Address object, std::size_t at, Address handle, std::size_t offset,
                          std::size_t bytes, std::uint64_t flags) {
  return bind(handle,
              [&] { return REAL(cuMulticastBindMem)(object, at, handle, offset, bytes, flags); });
}

Result cuMulticastBindMem_v2(Address object, Device device, std::size_t at, Address handle,
                             std::size_t offset, std::size_t bytes, std::uint64_t flags) {
  return bind(handle, [&] {
    return REAL(cuMulticastBindMem_v2)(object, device, at, handle, offset, bytes, flags);
  });
}

Result cuMulticastBindAddr(Address object, std::size_t at, Address address, std::size_t bytes,
                           std::uint64_t flags) {
  return bind_address(address,
                      [&] { return REAL(cuMulticastBindAddr)(object, at, address, bytes, flags); });
}

Result cuMulticastBindAddr_v2(Address object, Device device, std::size_t at, Address address,
                              std::size_t bytes, std::uint64_t flags) {
  return bind_address(address, [&] {
    return REAL(cuMulticastBindAddr_v2)(object, device, at, address, bytes, flags);
  });
}

}  // namespace mgpu::share
