// Feeds /proc/<pid>/cgroup to the reader that finds the container of a process.
//
// Properties: an id has 64 hexadecimal digits and is in the text, as is the UID of the pod.
#include "plugin/monitor/cgroup.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

std::string without_separators(std::string_view text) {
  std::string rest(text);
  std::erase_if(rest, [](char c) { return c == '-' || c == '_'; });
  return rest;
}

}  // namespace

MGPU_FUZZER(cgroup) {
  const auto found = plugin::container_of(input);
  if (!found) return;
  expect(found->container_id.size() == 64, "an id has 64 digits");
  expect(found->container_id.find_first_not_of("0123456789abcdef") == std::string::npos,
         "an id is hexadecimal");
  expect(input.find(found->container_id) != input.npos, "an id is in the text");
  expect(!found->uid.empty(), "a pod has a UID");
  expect(without_separators(input).find(without_separators(found->uid.str())) != input.npos,
         "a UID is in the text");
}

}  // namespace mgpu::fuzz
