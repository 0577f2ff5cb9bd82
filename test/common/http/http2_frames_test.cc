// The frames of HTTP/2 without a connection.
#include "common/http/http2_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace mgpu::http {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::string_view kSettings("\0\0\0\4\0\0\0\0\0", 9);
// SETTINGS_INITIAL_WINDOW_SIZE, and WINDOW_UPDATE of the connection.
constexpr std::string_view kLargeWindow(
    "\0\0\6\4\0\0\0\0\0\0\4\0\x10\0\0"
    "\0\0\4\x8\0\0\0\0\0\0\x10\0\0",
    28);
constexpr std::uint8_t kEndStream = 1;
constexpr std::uint8_t kEndHeaders = 4;
constexpr char kData = 0;
constexpr char kHeaders = 1;

std::string frame(char type, std::uint8_t flags, char stream, std::string_view payload) {
  return std::string("\0\0", 2) + static_cast<char>(payload.size()) + type +
         static_cast<char>(flags) + std::string("\0\0\0", 3) + stream + std::string(payload);
}

// Requests "/" of "localhost". The numbers are those of the static table (RFC 7541, appendix A).
std::string get(char stream) {
  return frame(kHeaders, kEndStream | kEndHeaders, stream, "\x82\x87\x84\x41\x09localhost");
}
std::string head(char stream) {
  return frame(kHeaders, kEndStream | kEndHeaders, stream, "\x42\x04HEAD\x87\x84\x41\x09localhost");
}
std::string post_without_end(char stream) {
  return frame(kHeaders, kEndHeaders, stream, "\x83\x87\x84\x41\x09localhost");
}

std::string reset(char stream) {
  constexpr char kReset = 3;
  return frame(kReset, 0, stream, std::string_view("\0\0\0\x8", 4));
}
// Writes a number of a stream that does not fit into a byte.
std::string with_id(std::uint32_t id, std::string one_frame) {
  for (int byte = 0; byte < 4; ++byte) {
    one_frame[5 + static_cast<std::size_t>(byte)] = static_cast<char>(id >> (24 - 8 * byte));
  }
  return one_frame;
}

class Http2FramesTest : public testing::Test {
 protected:
  Http2FramesTest() {
    frames.set_now(begin);
    frames.receive(kPreface);
    frames.receive(kSettings);
    frames.output();
  }
  std::string everything() {
    std::string out;
    for (std::string some = frames.output(); !some.empty(); some = frames.output()) out += some;
    return out;
  }
  static Response in_parts() {
    return {.body = {}, .next_part = [](const GivePart&) {}};
  }

  const Http2Frames::TimePoint begin{1h};
  std::vector<Http2StreamId> requests;
  std::vector<Http2StreamId> closed;
  std::vector<std::string> refused;
  Http2Frames frames{
      {.header_bytes = 200, .body_bytes = 100},
      {.on_headers = [](const RequestSource&) { return std::optional<Response>(); },
       .on_request = [this](Http2StreamId id, const Request&) { requests.push_back(id); },
       .on_closed = [this](Http2StreamId id) { closed.push_back(id); },
       .on_refused = [this](const char* why) { refused.emplace_back(why); }}};
};

// GOAWAY says that a later request was not handled, and a client that reads this repeats it.
TEST_F(Http2FramesTest, ARequestThatBeginsAfterShutDownIsNotHandled) {
  frames.receive(get(1));
  frames.shut_down();
  frames.receive(get(3));
  frames.respond(1, {});
  frames.respond(3, {});
  everything();
  frames.receive(get(5));
  everything();
  EXPECT_THAT(requests, ElementsAre(1));
  EXPECT_THAT(closed, ElementsAre(1));
  EXPECT_TRUE(frames.is_done());
}

// nghttp2 would handle what arrives until its GOAWAY is sent.
TEST_F(Http2FramesTest, ARequestAfterTooManyResetsIsNotHandled) {
  std::string bytes;
  std::uint32_t id = 1;
  for (; id < 2 * kHttp2ResetsMax + 3; id += 2) {
    bytes += with_id(id, get(0)) + with_id(id, reset(0));
  }
  frames.receive(bytes + with_id(id, get(0)));
  EXPECT_EQ(requests.size(), kHttp2ResetsMax + 1);
  EXPECT_THAT(refused, ElementsAre("too_many_resets"));
  everything();
  EXPECT_TRUE(frames.is_done());
}

TEST_F(Http2FramesTest, ResetsCountForSomeTime) {
  std::uint32_t id = 1;
  for (int second = 0; second < 50; ++second) {
    frames.set_now(begin + std::chrono::seconds(second));
    for (std::uint64_t i = 0; i < kHttp2ResetsPerSecond; ++i, id += 2) {
      frames.receive(with_id(id, get(0)) + with_id(id, reset(0)));
    }
    everything();
  }
  EXPECT_FALSE(frames.is_shutting_down());
}

// The client makes the server reset the stream: SETTINGS_INITIAL_WINDOW_SIZE adds to a window that
// is as large as it can be (RFC 9113, 6.9.2).
TEST_F(Http2FramesTest, ResetsThatTheClientCausesCount) {
  constexpr char kSettingsFrame = 4;
  constexpr char kWindowUpdate = 8;
  const std::string largest = frame(kWindowUpdate, 0, 0, std::string_view("\x7f\xff\0\0", 4));
  const std::string one_more = frame(kSettingsFrame, 0, 0, std::string_view("\0\4\0\1\0\0", 6));
  const std::string usual = frame(kSettingsFrame, 0, 0, std::string_view("\0\4\0\0\xff\xff", 6));
  std::uint32_t id = 1;
  for (; id < 2 * kHttp2ResetsMax + 3 && !frames.is_shutting_down(); id += 2) {
    frames.receive(with_id(id, get(0)) + with_id(id, largest) + one_more + usual);
    frames.output();
  }
  EXPECT_EQ(requests.size(), kHttp2ResetsMax + 1);
  EXPECT_THAT(refused, ElementsAre("too_many_resets"));
}

TEST_F(Http2FramesTest, ARequestThatHasBegunBeforeShutDownIsHandled) {
  frames.receive(post_without_end(1));
  frames.shut_down();
  everything();
  EXPECT_FALSE(frames.is_done());
  frames.receive(frame(kData, kEndStream, 1, "body"));
  EXPECT_THAT(requests, ElementsAre(1));
  frames.respond(1, {});
  everything();
  EXPECT_TRUE(frames.is_done());
}

// Nothing else would ask for the next part, if output() has ended with this one.
TEST_F(Http2FramesTest, APartIsWantedWhenTheLastByteOfTheOneBeforeIsTaken) {
  frames.receive(kLargeWindow);
  frames.receive(get(1));
  frames.respond(1, in_parts());
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4 * 16'384}, std::size_t{100'000}}) {
    ASSERT_TRUE(frames.wants_part(1)) << bytes;
    frames.add_part(1, std::string(bytes, 'x'));
    ASSERT_FALSE(frames.wants_part(1)) << bytes;
    EXPECT_EQ(frames.unsent_bytes(), bytes);
    while (frames.unsent_bytes() > 0) frames.output();
  }
  ASSERT_TRUE(frames.wants_part(1));
  frames.add_part(1, "");
  everything();
  EXPECT_THAT(closed, ElementsAre(1));
}

TEST_F(Http2FramesTest, PartsAreNotWantedForHead) {
  frames.receive(head(1));
  frames.respond(1, in_parts());
  EXPECT_FALSE(frames.wants_part(1));
  everything();
  EXPECT_THAT(closed, ElementsAre(1));
}

TEST_F(Http2FramesTest, TheTransferThatBeganFirstCounts) {
  EXPECT_EQ(frames.transfer_since(), std::nullopt);
  frames.receive(post_without_end(1));
  frames.set_now(begin + 1s);
  frames.receive(post_without_end(3));
  EXPECT_EQ(frames.transfer_since(), begin);
  frames.receive(frame(kData, kEndStream, 1, "body"));
  EXPECT_EQ(frames.transfer_since(), begin + 1s) << "1 waits for its handler";
  frames.receive(frame(kData, kEndStream, 3, "body"));
  EXPECT_EQ(frames.transfer_since(), std::nullopt);
  frames.set_now(begin + 2s);
  frames.respond(1, {.body = "response"});
  EXPECT_EQ(frames.transfer_since(), begin + 2s);
  everything();
  EXPECT_EQ(frames.transfer_since(), std::nullopt);
}

TEST_F(Http2FramesTest, WhatIsHeldOfAStreamEndsWithIt) {
  frames.receive(post_without_end(1));
  frames.receive(frame(kData, 0, 1, "part of a body"));
  EXPECT_EQ(frames.receiving_bytes(), 14U);
  frames.receive(reset(1));
  EXPECT_EQ(frames.receiving_bytes(), 0U);
  frames.receive(get(3));
  frames.respond(3, {.body = std::string(1'000'000, 'x')});
  everything();
  EXPECT_GT(frames.unsent_bytes(), 0U) << "the window is smaller";
  frames.receive(reset(3));
  EXPECT_EQ(frames.unsent_bytes(), 0U);
  EXPECT_THAT(closed, ElementsAre(1, 3));
}

TEST_F(Http2FramesTest, AMalformedRequestEndsItsStreamOnly) {
  frames.receive(frame(kHeaders, kEndStream | kEndHeaders, 1, "\x82\x87"));
  frames.receive(get(3));
  EXPECT_THAT(requests, ElementsAre(3));
  EXPECT_THAT(refused, ElementsAre("malformed"));
}

TEST_F(Http2FramesTest, FramesThatTheClientDoesNotTakeHaveALimit) {
  bool open = true;
  // Over the number of streams, each gets a frame that refuses it.
  for (int i = 0; i < 20'000 && open; ++i) {
    const std::uint32_t id = 2 * static_cast<std::uint32_t>(i) + 1;
    open = frames.receive(with_id(id, get(0)));
  }
  EXPECT_FALSE(open);
}

}  // namespace
}  // namespace mgpu::http
