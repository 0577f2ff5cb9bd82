// Feeds kubelet's checkpoint to its reader.
//
// Properties: each entry has a pod, a container, devices and a valid allocation or none; an entry
// that cannot be read hides no other.
#include "plugin/kubelet/checkpoint.h"

#include <string>
#include <string_view>

#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

constexpr std::string_view kBegin = R"({"PodDeviceEntries":[)";

// The same checkpoint with one more entry, which cannot be read. Nothing where the list does not
// begin as kubelet writes it.
std::string with_an_unreadable_entry(std::string_view input) {
  const std::size_t at = input.find(kBegin);
  if (at == input.npos || input.find(kBegin, at + 1) != input.npos) return {};
  const std::size_t entries = at + kBegin.size();
  if (input.substr(entries, 1) != "{") return {};
  return std::string(input.substr(0, entries)) + R"({"PodUID":7},)" +
         std::string(input.substr(entries));
}

}  // namespace

MGPU_FUZZER(checkpoint) {
  const std::string resource = "vke.volcengine.com/mgpu-core";
  const auto checkpoint = plugin::parse_checkpoint(input, resource);
  if (!checkpoint) {
    expect_sentence(checkpoint.error().message);
    return expect(checkpoint.error().message.starts_with("kubelet's checkpoint"),
                  "an error names the file");
  }
  for (const plugin::CheckpointEntry& entry : checkpoint->entries) {
    expect(!entry.uid.empty() && !entry.container.empty(), "an entry has a pod and a container");
    expect(entry.devices.size() > 0, "an entry has devices");
    expect(entry.allocation.empty() || plugin::valid(entry.allocation), "an id is valid");
  }
  const std::string more = with_an_unreadable_entry(input);
  if (more.empty() || checkpoint->entries.empty()) return;
  const auto again = plugin::parse_checkpoint(more, resource);
  expect(again && again->entries.size() == checkpoint->entries.size(),
         "an entry that cannot be read hides no other");
}

}  // namespace mgpu::fuzz
