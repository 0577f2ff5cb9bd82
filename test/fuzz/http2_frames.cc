// Feeds what a client sends after its preface to Http2Frames.
//
// Properties: the requests are the same wherever the parts of the stream begin and end; headers and
// bodies are within their limits; a stream that has been closed, or another one, can be responded
// to; when no stream is open, no bytes are held.
#include "common/http/http2_frames.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/http/limits.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

constexpr std::size_t kHttp2HeaderMax = 256;
constexpr std::size_t kHttp2BodyMax = 128;
constexpr int kPartsBeforeShutDown = 5;
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// What a server does with a connection, without sockets.
class Connected {
 public:
  void receive(std::string_view bytes) {
    if (!open_) return;
    open_ = frames_.receive(bytes);
    expect(frames_.receiving_bytes() <= 2 * kHttp2BodyMax, "bodies are within their common limit");
  }
  // As Http2Session does after it has read something.
  void respond() {
    if (!open_) return;
    for (auto& [stream, request] : std::exchange(waiting_, {})) {
      http::Response response{.body = request.body + request.path};
      if (request.method == "GET") response.next_part = [](const http::GivePart&) {};
      frames_.respond(stream, response);
      if (request.method == "GET") in_parts_.insert(stream);
    }
    for (int i = 0; i < kOutputsMax && !frames_.output().empty(); ++i) {
    }
    for (const auto stream : in_parts_) {
      if (frames_.wants_part(stream)) frames_.add_part(stream, ++parts_ % 3 == 0 ? "" : "part");
    }
    frames_.respond(1, {});
    frames_.add_part(kOtherStream, "");
    const bool holds = frames_.unsent_bytes() + frames_.receiving_bytes() > 0;
    expect(frames_.has_streams() || !holds, "ended streams hold nothing");
  }
  void shut_down() { frames_.shut_down(); }
  const std::string& requests() const { return requests_; }

 private:
  static constexpr int kOutputsMax = 100;
  static constexpr http::Http2StreamId kOtherStream = 1001;

  http::Http2Events events() {
    return {
        .on_headers = [](const http::RequestSource& source) -> std::optional<http::Response> {
          expect(source.host.size() <= kHttp2HeaderMax, "a header is within the limit");
          if (source.host == "evil") return http::error_response(421, "evil");
          return std::nullopt;
        },
        .on_request =
            [this](http::Http2StreamId stream, http::Request request) {
              expect(request.body.size() <= kHttp2BodyMax, "a body is within the limit");
              expect(request.path.size() + request.query.size() <= kHttp2HeaderMax, "so is a path");
              requests_ += std::to_string(stream) + " " + request.method + " " + request.path +
                           "?" + request.query + " " + request.authorization + " " + request.body +
                           "\n";
              waiting_.emplace_back(stream, std::move(request));
            },
        .on_closed = [this](http::Http2StreamId stream) { in_parts_.erase(stream); },
        .on_refused = [](const char* why) { expect(why != nullptr, "a refusal has a reason"); }};
  }

  bool open_ = true;
  int parts_ = 0;
  std::string requests_;
  std::vector<std::pair<http::Http2StreamId, http::Request>> waiting_;
  std::set<http::Http2StreamId> in_parts_;
  http::Http2Frames frames_{{.header_bytes = kHttp2HeaderMax, .body_bytes = kHttp2BodyMax},
                            events()};
};

}  // namespace

MGPU_FUZZER(http2_frames) {
  Connected whole;
  whole.receive(std::string(kPreface) + std::string(input));
  Connected in_pieces;
  in_pieces.receive(kPreface);
  for (const std::string_view part : in_parts(input)) in_pieces.receive(part);
  expect(whole.requests() == in_pieces.requests(),
         "requests do not depend on the parts of a stream");
  whole.respond();
  // What has been answered frees streams for others, so that its requests may be more.
  Connected answering;
  answering.receive(kPreface);
  int count = 0;
  for (const std::string_view part : in_parts(input)) {
    answering.receive(part);
    answering.respond();
    if (++count == kPartsBeforeShutDown) answering.shut_down();
  }
}

}  // namespace mgpu::fuzz
