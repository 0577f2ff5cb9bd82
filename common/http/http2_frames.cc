#include "common/http/http2_frames.h"

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/http/limits.h"

namespace mgpu::http {

namespace {

nghttp2_nv header_field(const std::string& name, const std::string& value) {
  // nghttp2 copies both.
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

std::string_view text_of(const std::uint8_t* bytes, std::size_t length) {
  return {reinterpret_cast<const char*>(bytes), length};
}

// nghttp2 has refused values that are not numbers.
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

struct Http2Frames::Stream {
  enum class Stage { kReceiving, kWaiting, kSending };

  Stage stage = Stage::kReceiving;
  TimePoint since;  // the begin of receiving, or of sending this body or part
  RequestFields fields{};
  std::string method{};  // also after the request has been passed on
  std::size_t header_bytes = 0;
  std::size_t body_length = 0;  // Content-Length
  bool whole = false;           // the client has sent all
  bool responded = false;
  bool reset_by_client = false;
  std::string body{};  // of the response, or one part
  std::size_t sent = 0;
  bool more_parts = false;
};

struct Http2Frames::Callbacks {
  static Http2Frames& self(void* data) { return *static_cast<Http2Frames*>(data); }
  static Stream* find(void* data, Http2StreamId id) {
    auto& streams = self(data).streams_;
    const auto found = streams.find(id);
    return found == streams.end() ? nullptr : found->second.get();
  }
  static bool is_request(const nghttp2_frame& frame) {
    return frame.hd.type == NGHTTP2_HEADERS && frame.headers.cat == NGHTTP2_HCAT_REQUEST;
  }

  static bool ends_stream(const nghttp2_frame& frame) {
    const bool carries = frame.hd.type == NGHTTP2_HEADERS || frame.hd.type == NGHTTP2_DATA;
    return carries && (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  }

  // After shut_down() nghttp2 still accepts streams until it has written GOAWAY, and then closes
  // them.
  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    if (!is_request(*frame) || self(data).shutting_down_) return 0;
    auto stream = std::make_unique<Stream>();
    stream->since = self(data).now_;
    self(data).streams_.emplace(frame->hd.stream_id, std::move(stream));
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
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
      if (stream != nullptr) stream->reset_by_client = true;
      self(data).note_reset();
    }
    if (stream == nullptr) return 0;
    const bool whole = ends_stream(*frame);
    if (is_request(*frame)) self(data).end_headers(id, *stream, whole);
    if (whole) self(data).end_request(id, *stream);
    return 0;
  }

  static int on_data_chunk(nghttp2_session*, std::uint8_t, Http2StreamId id,
                           const std::uint8_t* bytes, std::size_t length, void* data) {
    Stream* stream = find(data, id);
    if (stream != nullptr) self(data).add_body(id, *stream, text_of(bytes, length));
    return 0;
  }

  // Each makes nghttp2 send a frame, which its limits of PING and SETTINGS do not count.
  static int on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int, void* data) {
    self(data).events_.on_refused("malformed");
    return ++self(data).malformed_ < kHttp2MalformedMax ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  // A client that is still sending its request stops when it receives this (RFC 9113, 8.1).
  static int on_frame_send(nghttp2_session* session, const nghttp2_frame* frame, void* data) {
    const Stream* stream = find(data, frame->hd.stream_id);
    if (stream == nullptr || stream->whole || !ends_stream(*frame)) return 0;
    return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                     NGHTTP2_NO_ERROR);
  }

  static int on_stream_close(nghttp2_session*, Http2StreamId id, std::uint32_t, void* data) {
    Http2Frames& frames = self(data);
    const auto found = frames.streams_.find(id);
    if (found == frames.streams_.end()) return 0;
    const Stream& stream = *found->second;
    if (stream.stage == Stream::Stage::kReceiving) {
      frames.receiving_ -= stream.fields.request.body.size();
    }
    frames.unsent_ -= stream.body.size() - stream.sent;
    const bool reset_by_server = stream.whole && !stream.responded && !stream.reset_by_client;
    frames.streams_.erase(found);
    frames.events_.on_closed(id);
    if (reset_by_server) frames.note_reset();
    return 0;
  }

  static ssize_t read(nghttp2_session*, Http2StreamId id, std::uint8_t* into, std::size_t length,
                      std::uint32_t* flags, nghttp2_data_source*, void* data) {
    Stream* stream = find(data, id);
    if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    return self(data).read_body(*stream, into, length, flags);
  }

  static nghttp2_session* session_for(Http2Frames* http2) {
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
    // Twice the limit of note_reset(): when nghttp2 decides to send GOAWAY, it handles what arrives
    // until it has sent it, and the client may repeat that.
    nghttp2_option_set_stream_reset_rate_limit(option, 2 * kHttp2ResetsMax,
                                               2 * kHttp2ResetsPerSecond);
    nghttp2_option_set_max_outbound_ack(option, kHttp2UnreadAcksMax);
    nghttp2_session* session = nullptr;
    MGPU_CHECK(nghttp2_session_server_new2(&session, callbacks, http2, option) == 0,
               "memory for the session");
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
  }
};

Http2Frames::Http2Frames(Http2Limits limits, Http2Events events)
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

Http2Frames::~Http2Frames() = default;

bool Http2Frames::is_consistent() const {
  std::size_t receiving = 0;
  std::size_t unsent = 0;
  for (const auto& [id, stream] : streams_) {
    if (stream->stage == Stream::Stage::kReceiving) receiving += stream->fields.request.body.size();
    unsent += stream->body.size() - stream->sent;
  }
  return receiving == receiving_ && unsent == unsent_;
}

bool Http2Frames::receive(std::string_view bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const ssize_t used = nghttp2_session_mem_recv(session_.get(), data, bytes.size());
  MGPU_DEBUG_CHECK(is_consistent(), "the bytes of a connection are those of its streams");
  const bool flooded =
      nghttp2_session_get_outbound_queue_size(session_.get()) > kHttp2UnreadFramesMax;
  if (used < 0 || flooded) events_.on_refused(flooded ? "slow_client" : "malformed");
  return used >= 0 && !flooded;
}

std::string Http2Frames::output() {
  std::string out;
  const std::uint8_t* frame = nullptr;
  ssize_t length = 0;
  while (out.size() < kHttp2WriteBytes &&
         (length = nghttp2_session_mem_send(session_.get(), &frame)) > 0) {
    out += text_of(frame, static_cast<std::size_t>(length));
  }
  MGPU_CHECK(length >= 0, "nghttp2 has memory for a frame");
  MGPU_DEBUG_CHECK(is_consistent(), "the bytes of a connection are those of its streams");
  return out;
}

void Http2Frames::add_header(Stream& stream, std::string_view name, std::string_view value) {
  stream.header_bytes += name.size() + value.size();
  if (stream.header_bytes > limits_.header_bytes) return;
  RequestFields& fields = stream.fields;
  if (name == ":method") {
    stream.method = fields.request.method = value;
  } else if (name == ":path") {
    fields.set_target(value);
  } else if (name == ":authority" || name == "host") {
    // Both may be sent with the same value (RFC 9113, 8.3.1).
    if (fields.source.hosts == 0 || fields.source.host != value) fields.add("host", value);
  } else if (name == "content-length") {
    stream.body_length = length_of(value);
  } else {
    fields.add(name, value);
  }
}

void Http2Frames::end_headers(Http2StreamId id, Stream& stream, bool whole) {
  if (stream.header_bytes > limits_.header_bytes) {
    return refuse(id, "header_too_large", header_too_large(limits_.header_bytes));
  }
  if (auto refusal = events_.on_headers(stream.fields.source)) {
    return refuse(id, nullptr, *refusal);
  }
  if (stream.body_length > limits_.body_bytes) {
    return refuse(id, "body_too_large", body_too_large(limits_.body_bytes));
  }
  if (!stream.fields.expects_continue || whole) return;
  const std::string name = ":status";
  const std::string value = "100";
  const nghttp2_nv field = header_field(name, value);
  nghttp2_submit_headers(session_.get(), NGHTTP2_FLAG_NONE, id, nullptr, &field, 1, nullptr);
}

// The rest of a request that was refused is discarded.
void Http2Frames::add_body(Http2StreamId id, Stream& stream, std::string_view bytes) {
  if (stream.stage != Stream::Stage::kReceiving) return;
  std::string& body = stream.fields.request.body;
  if (body.size() + bytes.size() > limits_.body_bytes) {
    return refuse(id, "body_too_large", body_too_large(limits_.body_bytes));
  }
  const std::size_t together_max = 2 * limits_.body_bytes;
  if (receiving_ + bytes.size() > together_max) {
    const auto sentence =
        fmt::format("the requests that this connection is sending have more than {} bytes together",
                    together_max);
    return refuse(id, "bodies_too_large", error_response(503, sentence));
  }
  receiving_ += bytes.size();
  body += bytes;
}

void Http2Frames::end_request(Http2StreamId id, Stream& stream) {
  stream.whole = true;
  if (stream.stage != Stream::Stage::kReceiving) return;
  stream.stage = Stream::Stage::kWaiting;
  receiving_ -= stream.fields.request.body.size();
  events_.on_request(id, std::exchange(stream.fields, {}).request);
}

// `why` is null if it has been reported.
void Http2Frames::refuse(Http2StreamId id, const char* why, const Response& response) {
  if (why != nullptr) events_.on_refused(why);
  respond(id, response);
}

void Http2Frames::respond(Http2StreamId id, const Response& response) {
  const auto found = streams_.find(id);
  if (found == streams_.end() || std::exchange(found->second->responded, true)) return;
  Stream& stream = *found->second;
  if (stream.stage == Stream::Stage::kReceiving) {
    receiving_ -= std::exchange(stream.fields, {}).request.body.size();
  }
  stream.since = now_;
  const auto fields = fields_of(response);
  std::vector<nghttp2_nv> headers;
  for (const auto& [name, value] : fields) headers.push_back(header_field(name, value));
  const bool with_body = sends_body(stream.method, response.status);
  stream.more_parts = with_body && response.next_part;
  stream.stage = stream.more_parts ? Stream::Stage::kWaiting : Stream::Stage::kSending;
  if (with_body && !stream.more_parts) stream.body = response.body;
  unsent_ += stream.body.size();
  const nghttp2_data_provider body{.source = {}, .read_callback = Callbacks::read};
  const bool sends = stream.more_parts || !stream.body.empty();
  nghttp2_submit_response(session_.get(), id, headers.data(), headers.size(),
                          sends ? &body : nullptr);
}

void Http2Frames::add_part(Http2StreamId id, std::string part) {
  if (!wants_part(id)) return;
  Stream& stream = *streams_.at(id);
  stream.stage = Stream::Stage::kSending;
  stream.since = now_;
  MGPU_DEBUG_CHECK(stream.sent == stream.body.size(), "a part follows once the last one is sent");
  stream.more_parts = !part.empty();
  stream.body = std::move(part);
  stream.sent = 0;
  unsent_ += stream.body.size();
  // Nothing happens if nghttp2 has not requested more data yet: it does so later.
  nghttp2_session_resume_data(session_.get(), id);
}

bool Http2Frames::wants_part(Http2StreamId id) const {
  const auto found = streams_.find(id);
  return found != streams_.end() && found->second->more_parts &&
         found->second->stage == Stream::Stage::kWaiting;
}

ssize_t Http2Frames::read_body(Stream& stream, std::uint8_t* into, std::size_t length,
                               std::uint32_t* flags) {
  const std::size_t count = std::min(length, stream.body.size() - stream.sent);
  std::copy_n(stream.body.data() + stream.sent, count, reinterpret_cast<char*>(into));
  stream.sent += count;
  unsent_ -= count;
  const bool all_sent = stream.sent == stream.body.size();
  if (all_sent && !stream.more_parts) *flags |= NGHTTP2_DATA_FLAG_EOF;
  // Here and not when nghttp2 requests more data, because output() may end with this frame.
  if (all_sent && stream.more_parts) stream.stage = Stream::Stage::kWaiting;
  if (count == 0 && stream.more_parts) return NGHTTP2_ERR_DEFERRED;
  return static_cast<ssize_t>(count);
}

// A client can have a stream reset by the server, too, while its handler still works
// (CVE-2025-8671).
void Http2Frames::note_reset() {
  const std::chrono::duration<double> passed = now_ - last_reset_;
  last_reset_ = now_;
  const auto most = static_cast<double>(kHttp2ResetsMax);
  resets_left_ = std::min(most, resets_left_ + passed.count() * kHttp2ResetsPerSecond) - 1;
  if (resets_left_ >= 0 || shutting_down_) return;
  events_.on_refused("too_many_resets");
  shut_down();
}

void Http2Frames::shut_down() {
  if (std::exchange(shutting_down_, true)) return;
  nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_.get()), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

bool Http2Frames::is_done() const {
  return nghttp2_session_want_read(session_.get()) == 0 &&
         nghttp2_session_want_write(session_.get()) == 0;
}

std::optional<Http2Frames::TimePoint> Http2Frames::transfer_since() const {
  std::optional<TimePoint> oldest;
  for (const auto& [id, stream] : streams_) {
    if (stream->stage == Stream::Stage::kWaiting) continue;
    oldest = std::min(oldest.value_or(stream->since), stream->since);
  }
  return oldest;
}

}  // namespace mgpu::http
