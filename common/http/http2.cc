#include "common/http/http2.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/http/limits.h"

namespace mgpu::http {

namespace {

constexpr int kNotModifiedStatus = 304;

nghttp2_nv header_field(const std::string& name, const std::string& value) {
  // nghttp2 copies both.
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

std::string_view text_of(const std::uint8_t* bytes, std::size_t length) {
  return {reinterpret_cast<const char*>(bytes), length};
}

// Only digits are here: nghttp2 refuses other values.
std::size_t length_of(std::string_view value) {
  std::size_t length = 0;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), length);
  return read.ec == std::errc() ? length : SIZE_MAX;
}

std::vector<std::pair<std::string, std::string>> fields_of(const Response& response) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {":status", std::to_string(response.status)}, {"content-type", response.content_type}};
  if (!response.next_part) {
    fields.emplace_back("content-length", std::to_string(response.body.size()));
  }
  for (const auto& [name, value] : response.headers) {
    fields.emplace_back(name, value);
    std::ranges::transform(fields.back().first, fields.back().first.begin(), to_lower);
  }
  return fields;
}

}  // namespace

struct Http2::Stream {
  enum class Stage { kReceiving, kWaiting, kSending };

  Stage stage = Stage::kReceiving;
  TimePoint since;  // the begin of receiving, or of sending this body or part
  Request request{};
  RequestSource source{};
  std::string expect{};
  std::size_t header_bytes = 0;
  std::size_t body_length = 0;  // Content-Length
  bool is_head = false;         // HEAD: the response has no body
  bool whole = false;           // the client has sent all
  bool refused = false;         // the rest of the request is discarded
  bool responded = false;
  std::string body{};  // of the response, or one part
  std::size_t sent = 0;
  bool more_parts = false;
};

struct Http2::Callbacks {
  static Http2& self(void* data) { return *static_cast<Http2*>(data); }
  static Stream* find(void* data, Http2StreamId id) {
    auto& streams = self(data).streams_;
    const auto found = streams.find(id);
    return found == streams.end() ? nullptr : found->second.get();
  }
  static bool is_request(const nghttp2_frame& frame) {
    return frame.hd.type == NGHTTP2_HEADERS && frame.headers.cat == NGHTTP2_HCAT_REQUEST;
  }

  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    if (is_request(*frame)) self(data).begin(frame->hd.stream_id);
    return 0;
  }

  // Trailers are discarded.
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_length, const std::uint8_t* value, std::size_t value_length,
                       std::uint8_t, void* data) {
    Stream* stream = find(data, frame->hd.stream_id);
    if (stream == nullptr || !is_request(*frame)) return 0;
    self(data).add_header(*stream, text_of(name, name_length), text_of(value, value_length));
    return 0;
  }

  static int on_frame_recv(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    const Http2StreamId id = frame->hd.stream_id;
    Stream* stream = find(data, id);
    if (stream == nullptr) return 0;
    if (is_request(*frame)) self(data).end_headers(id, *stream);
    const bool carries = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (carries && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
      self(data).end_request(id, *stream);
    }
    return 0;
  }

  static int on_data_chunk(nghttp2_session*, std::uint8_t, Http2StreamId id,
                           const std::uint8_t* bytes, std::size_t length, void* data) {
    Stream* stream = find(data, id);
    if (stream != nullptr) self(data).add_body(id, *stream, text_of(bytes, length));
    return 0;
  }

  static int on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int, void* data) {
    self(data).events_.on_refused("malformed");
    return 0;
  }

  // Tells a client that still sends its request that the rest is not needed (RFC 9113, 8.1).
  static int on_frame_send(nghttp2_session* session, const nghttp2_frame* frame, void* data) {
    const Stream* stream = find(data, frame->hd.stream_id);
    const bool carries = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    const bool ends = carries && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (stream == nullptr || stream->whole || !ends) return 0;
    return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                     NGHTTP2_NO_ERROR);
  }

  static int on_stream_close(nghttp2_session*, Http2StreamId id, std::uint32_t, void* data) {
    self(data).end_stream(id);
    return 0;
  }

  static ssize_t read(nghttp2_session*, Http2StreamId id, std::uint8_t* into, std::size_t length,
                      std::uint32_t* flags, nghttp2_data_source*, void* data) {
    Stream* stream = find(data, id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return self(data).read_body(*stream, into, length, flags);
  }

  static nghttp2_session* session_for(Http2* http2) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_option* option = nullptr;
    MGPU_CHECK(nghttp2_session_callbacks_new(&callbacks) == 0, "memory for the callbacks");
    MGPU_CHECK(nghttp2_option_new(&option) == 0, "memory for the options");
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    // Closed streams would be kept for priorities, which this server does not use.
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_session* session = nullptr;
    MGPU_CHECK(nghttp2_session_server_new2(&session, callbacks, http2, option) == 0,
               "memory for the session");
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
  }
};

Http2::Http2(Http2Limits limits, Http2Events events)
    : limits_(limits),
      events_(std::move(events)),
      session_(Callbacks::session_for(this), nghttp2_session_del) {
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kHttp2StreamsMax},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kHttp2WindowBytes},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<std::uint32_t>(limits.header_bytes)},
  }};
  nghttp2_submit_settings(session_.get(), NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_.get(), NGHTTP2_FLAG_NONE, 0, kHttp2WindowBytes);
}

Http2::~Http2() = default;

bool Http2::receive(std::string_view bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const ssize_t used = nghttp2_session_mem_recv(session_.get(), data, bytes.size());
  if (used < 0) events_.on_refused("malformed");
  return used >= 0;
}

std::string Http2::output() {
  std::string out;
  const std::uint8_t* frame = nullptr;
  ssize_t length = 0;
  while (out.size() < kHttp2WriteBytes &&
         (length = nghttp2_session_mem_send(session_.get(), &frame)) > 0) {
    out += text_of(frame, static_cast<std::size_t>(length));
  }
  return out;
}

void Http2::begin(Http2StreamId id) {
  auto stream = std::make_unique<Stream>();
  stream->since = now_;
  streams_.emplace(id, std::move(stream));
}

void Http2::add_header(Stream& stream, std::string_view name, std::string_view value) {
  stream.header_bytes += name.size() + value.size();
  if (stream.header_bytes > limits_.header_bytes) return;
  Request& request = stream.request;
  RequestSource& source = stream.source;
  if (name == ":method") {
    request.method = value;
    stream.is_head = value == "HEAD";
  } else if (name == ":path") {
    const std::size_t path_end = std::min(value.find('?'), value.size());
    request.path = value.substr(0, path_end);
    request.query = value.substr(std::min(path_end + 1, value.size()));
  } else if (name == ":authority" || name == "host") {
    // A client may send both with the same value.
    if (source.hosts == 0 || source.host != value) ++source.hosts;
    if (source.hosts == 1) source.host = value;
  } else if (name == "authorization") {
    request.authorization = value;
  } else if (name == "if-none-match") {
    request.if_none_match = value;
  } else if (name == "origin") {
    source.origin = value;
  } else if (name == "sec-fetch-site") {
    source.fetch_site = value;
  } else if (name == "sec-fetch-mode") {
    source.fetch_mode = value;
  } else if (name == "sec-fetch-dest") {
    source.fetch_destination = value;
  } else if (name == "content-length") {
    stream.body_length = length_of(value);
  } else if (name == "expect") {
    stream.expect = value;
  }
}

void Http2::end_headers(Http2StreamId id, Stream& stream) {
  if (stream.header_bytes > limits_.header_bytes) {
    const auto sentence = fmt::format("the header is over {} bytes", limits_.header_bytes);
    return refuse(id, stream, "header_too_large", error_response(431, sentence));
  }
  if (auto refusal = events_.on_headers(stream.source)) {
    return refuse(id, stream, nullptr, *refusal);
  }
  if (stream.body_length > limits_.body_bytes) {
    const auto sentence = fmt::format("the body is over {} bytes", limits_.body_bytes);
    return refuse(id, stream, "body_too_large", error_response(413, sentence));
  }
  if (stream.expect == "100-continue") {
    const std::string name = ":status";
    const std::string value = "100";
    const nghttp2_nv field = header_field(name, value);
    nghttp2_submit_headers(session_.get(), NGHTTP2_FLAG_NONE, id, nullptr, &field, 1, nullptr);
  }
}

void Http2::add_body(Http2StreamId id, Stream& stream, std::string_view bytes) {
  if (stream.refused) return;
  if (received_ + bytes.size() > limits_.body_bytes) {
    const auto sentence = fmt::format(
        "the body is over {} bytes, or those of several requests are together", limits_.body_bytes);
    return refuse(id, stream, "body_too_large", error_response(413, sentence));
  }
  received_ += bytes.size();
  stream.request.body += bytes;
}

void Http2::end_request(Http2StreamId id, Stream& stream) {
  stream.whole = true;
  if (stream.refused) return;
  stream.stage = Stream::Stage::kWaiting;
  received_ -= stream.request.body.size();
  events_.on_request(id, std::exchange(stream.request, {}));
}

// `why` is null where it has been reported.
void Http2::refuse(Http2StreamId id, Stream& stream, const char* why, const Response& response) {
  stream.refused = true;
  received_ -= stream.request.body.size();
  stream.request.body.clear();
  if (why != nullptr) events_.on_refused(why);
  respond(id, response);
}

void Http2::respond(Http2StreamId id, const Response& response) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || std::exchange(found->second->responded, true)) return;
  Stream& stream = *found->second;
  stream.stage = Stream::Stage::kSending;
  stream.since = now_;
  const auto fields = fields_of(response);
  std::vector<nghttp2_nv> headers;
  for (const auto& [name, value] : fields) headers.push_back(header_field(name, value));
  const bool with_body = !stream.is_head && response.status != kNotModifiedStatus;
  stream.more_parts = static_cast<bool>(response.next_part);
  if (with_body && !stream.more_parts) stream.body = response.body;
  unsent_ += stream.body.size();
  const nghttp2_data_provider body{.source = {}, .read_callback = Callbacks::read};
  const bool sends = with_body && (stream.more_parts || !stream.body.empty());
  nghttp2_submit_response(session_.get(), id, headers.data(), headers.size(),
                          sends ? &body : nullptr);
}

void Http2::add_part(Http2StreamId id, std::string part) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  Stream& stream = *found->second;
  stream.stage = Stream::Stage::kSending;
  stream.since = now_;
  stream.more_parts = !part.empty();
  stream.body = std::move(part);
  stream.sent = 0;
  unsent_ += stream.body.size();
  nghttp2_session_resume_data(session_.get(), id);
}

bool Http2::wants_part(Http2StreamId id) const {
  const auto found = streams_.find(id);
  return found != streams_.end() && found->second->more_parts &&
         found->second->stage == Stream::Stage::kWaiting;
}

ssize_t Http2::read_body(Stream& stream, std::uint8_t* into, std::size_t length,
                         std::uint32_t* flags) {
  const std::size_t count = std::min(length, stream.body.size() - stream.sent);
  std::copy_n(stream.body.data() + stream.sent, count, reinterpret_cast<char*>(into));
  stream.sent += count;
  unsent_ -= count;
  const bool all_sent = stream.sent == stream.body.size();
  if (all_sent && !stream.more_parts) *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (count > 0 || !stream.more_parts) return static_cast<ssize_t>(count);
  stream.stage = Stream::Stage::kWaiting;
  return NGHTTP2_ERR_DEFERRED;
}

void Http2::end_stream(Http2StreamId id) {
  const auto found = streams_.find(id);
  if (found == streams_.end()) return;
  const Stream& stream = *found->second;
  if (stream.stage == Stream::Stage::kReceiving) received_ -= stream.request.body.size();
  unsent_ -= stream.body.size() - stream.sent;
  streams_.erase(found);
  events_.on_closed(id);
}

void Http2::shut_down() {
  nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_.get()), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

bool Http2::is_done() const {
  return nghttp2_session_want_read(session_.get()) == 0 &&
         nghttp2_session_want_write(session_.get()) == 0;
}

std::optional<Http2::TimePoint> Http2::transfer_since() const {
  std::optional<TimePoint> oldest;
  for (const auto& [id, stream] : streams_) {
    if (stream->stage == Stream::Stage::kWaiting) continue;
    oldest = std::min(oldest.value_or(stream->since), stream->since);
  }
  return oldest;
}

}  // namespace mgpu::http
