#include "common/kube/watch/event_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace mgpu::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string with_length(std::string_view event) {
  return std::string("\0\0\0", 3) + static_cast<char>(event.size()) + std::string(event);
}

// The events of `text` when it arrives in parts of `size` bytes.
std::vector<std::string> events_in_parts_of(std::size_t size, std::string_view text) {
  EventBuffer buffer(8);
  std::vector<std::string> events;
  for (; !text.empty(); text.remove_prefix(std::min(size, text.size()))) {
    buffer.append(text.substr(0, size));
    for (std::string& event : buffer.take()) events.push_back(std::move(event));
  }
  return events;
}

TEST(EventBuffer, GivesTheSameEventsForAllParts) {
  const std::string too_long("\0\0\0\x09", 4);
  std::string text;
  for (const char* event : {"one", "", "12345678", "123456789", "a\nb"}) text += with_length(event);
  for (std::size_t size = 1; size <= text.size(); ++size) {
    EXPECT_THAT(events_in_parts_of(size, text), ElementsAre("one", "12345678", too_long, "a\nb"))
        << "in parts of " << size;
  }
}

TEST(EventBuffer, KeepsAnIncompleteEvent) {
  EventBuffer buffer;
  const std::string text = with_length("one");
  buffer.append(text.substr(0, 5));
  EXPECT_THAT(buffer.take(), IsEmpty());
  buffer.append(text.substr(5));
  EXPECT_THAT(buffer.take(), ElementsAre("one"));
  EXPECT_THAT(buffer.take(), IsEmpty());
}

TEST(EventBuffer, ReadsTheHighestByteOfALengthFirst) {
  EventBuffer buffer;
  buffer.append(std::string("\0\0\1\2", 4) + std::string(0x102, 'a'));
  EXPECT_THAT(buffer.take(), ElementsAre(std::string(0x102, 'a')));
}

// The watcher cannot read it, and lists again; otherwise it would wait for bytes that never come.
TEST(EventBuffer, GivesALengthThatNoEventHasAtOnce) {
  EventBuffer buffer;
  buffer.append("{\"type\":\"ADDED\"}");
  EXPECT_THAT(buffer.take(), ElementsAre("{\"ty"));
  for (int i = 0; i < 1'000; ++i) buffer.append(std::string(1'000, 'a'));
  EXPECT_THAT(buffer.take(), IsEmpty());
}

}  // namespace
}  // namespace mgpu::kube
