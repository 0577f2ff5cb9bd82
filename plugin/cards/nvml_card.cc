#include "plugin/cards/nvml_card.h"

#include <algorithm>
#include <cstring>

#include "common/base/text.h"
#include "common/contract/limits.h"

namespace mgpu::plugin::nvml {
namespace {

constexpr int kBytesPerMiB = 20;  // as a shift

std::optional<MiB> mib(std::uint64_t bytes) {
  const std::uint64_t whole = bytes >> kBytesPerMiB;
  if (whole > static_cast<std::uint64_t>(kCardMemoryMiBMax)) return std::nullopt;
  return MiB(static_cast<std::int64_t>(whole));
}

std::string text_of(DeviceText* function, Device device) {
  char text[kTextBytes] = {};
  if (function == nullptr || function(device, text, sizeof text) != kOk) return "";
  std::string read(text, ::strnlen(text, sizeof text));
  std::erase_if(read, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  return std::string(cut_text(read, kCardTextMax));
}

bool has_mig(const Functions& f, Device device) {
  unsigned current = 0;
  unsigned pending = 0;
  if (f.mig_mode == nullptr || f.mig_mode(device, &current, &pending) != kOk) return false;
  return current == kEnabled || pending == kEnabled;
}

std::optional<unsigned> recovery_action(const Functions& f, Device device) {
  FieldValue value{};
  value.field = kFieldRecoveryAction;
  if (f.field_values == nullptr || f.field_values(device, 1, &value) != kOk) return std::nullopt;
  if (value.code != kOk || value.type != kValueUnsigned) return std::nullopt;
  return value.value.whole;
}

bool row_remap_failed(const Functions& f, Device device) {
  unsigned correctable = 0;
  unsigned uncorrectable = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  return f.remapped_rows != nullptr &&
         f.remapped_rows(device, &correctable, &uncorrectable, &pending, &failed) == kOk &&
         failed != 0;
}

}  // namespace

CardUuid uuid_of(const Library& library, Device device) {
  const std::string text = text_of(library.functions().uuid, device);
  return is_card_uuid(text) ? CardUuid(text) : CardUuid();
}

CardReading read_card(const Library& library, Device device) {
  const Functions& f = library.functions();
  CardReading reading;
  Memory memory{};
  reading.probe.code = f.memory(device, &memory);
  if (reading.probe.code == kOk) reading.memory = mib(memory.total);
  if (reading.probe.code != kOk) reading.probe.answer = library.describe(reading.probe.code);
  // Of a card that is gone every further question is one more that may hang.
  if (reading.probe.code == kGpuIsLost) return reading;
  reading.model = text_of(f.name, device);
  unsigned minor = 0;
  if (f.minor_number(device, &minor) == kOk) reading.minor = minor;
  reading.mig = has_mig(f, device);
  reading.probe.recovery_action = recovery_action(f, device);
  reading.probe.row_remap_failed = row_remap_failed(f, device);
  return reading;
}

}  // namespace mgpu::plugin::nvml
