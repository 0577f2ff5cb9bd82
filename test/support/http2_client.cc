#include "test/support/http2_client.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>

namespace mgpu::test {

namespace {

nghttp2_nv field(const std::string& name, const std::string& value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

struct Http2Client::State {
  explicit State(RawClient client) : raw(std::move(client)) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    // Until the server's number of streams is read.
    nghttp2_option_set_peer_max_concurrent_streams(option, 10'000);
    nghttp2_session_client_new2(&session, callbacks, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
    flush();
  }
  ~State() { nghttp2_session_del(session); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  static State& of(void* data) { return *static_cast<State*>(data); }

  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_length, const std::uint8_t* value, std::size_t value_length,
                       std::uint8_t, void* data) {
    Http2Answer& answer = of(data).answers[frame->hd.stream_id];
    const std::string key(reinterpret_cast<const char*>(name), name_length);
    const std::string text(reinterpret_cast<const char*>(value), value_length);
    answer.headers[key] = text;
    if (key != ":status") return 0;
    (text[0] == '1' ? answer.informational : answer.status) = std::stoi(text);
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* bytes,
                     std::size_t length, void* data) {
    of(data).answers[stream].body.append(reinterpret_cast<const char*>(bytes), length);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* data) {
    if (frame->hd.type == NGHTTP2_GOAWAY) of(data).goaway = true;
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t stream, std::uint32_t error, void* data) {
    of(data).answers[stream].ended = true;
    of(data).answers[stream].error = error;
    return 0;
  }
  static ssize_t read(nghttp2_session*, std::int32_t stream, std::uint8_t* into, std::size_t length,
                      std::uint32_t* flags, nghttp2_data_source*, void* data) {
    auto& [body, whole] = of(data).bodies[stream];
    const std::size_t count = std::min(length, body.size());
    std::copy_n(body.data(), count, reinterpret_cast<char*>(into));
    body.erase(0, count);
    if (body.empty() && whole) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (count == 0 && !whole) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(count);
  }

  bool flush() {
    const std::uint8_t* bytes = nullptr;
    ssize_t length = 0;
    while ((length = nghttp2_session_mem_send(session, &bytes)) > 0) {
      const std::string_view text(reinterpret_cast<const char*>(bytes),
                                  static_cast<std::size_t>(length));
      if (!raw.send(text)) return false;
    }
    return true;
  }

  // False at the end of the connection.
  bool read_more() {
    flush();
    const std::string bytes = raw.read_some();
    if (bytes.empty()) return false;
    const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
    if (nghttp2_session_mem_recv(session, begin, bytes.size()) < 0) return false;
    flush();
    return true;
  }

  RawClient raw;
  nghttp2_session* session = nullptr;
  std::map<std::int32_t, Http2Answer> answers;
  std::map<std::int32_t, std::pair<std::string, bool>> bodies;
  bool goaway = false;
};

Http2Client::Http2Client(RawClient raw) : state_(std::make_unique<State>(std::move(raw))) {}

Http2Client::~Http2Client() = default;

std::int32_t Http2Client::ask(const Http2Ask& ask) {
  std::vector<std::pair<std::string, std::string>> fields = {
      {":method", ask.method}, {":scheme", "https"}, {":path", ask.path}};
  if (!ask.authority.empty()) fields.emplace_back(":authority", ask.authority);
  fields.insert(fields.end(), ask.headers.begin(), ask.headers.end());
  std::vector<nghttp2_nv> headers;
  for (const auto& [name, value] : fields) headers.push_back(field(name, value));
  const nghttp2_data_provider body{.source = {}, .read_callback = State::read};
  const bool sends = !ask.body.empty() || !ask.whole;
  const std::int32_t stream = nghttp2_submit_request(
      state_->session, nullptr, headers.data(), headers.size(), sends ? &body : nullptr, nullptr);
  state_->bodies[stream] = {ask.body, ask.whole};
  state_->flush();
  return stream;
}

void Http2Client::finish(std::int32_t stream, const std::string& rest) {
  state_->bodies[stream] = {rest, true};
  nghttp2_session_resume_data(state_->session, stream);
  state_->flush();
}

void Http2Client::reset(std::int32_t stream) {
  nghttp2_submit_rst_stream(state_->session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
  state_->flush();
}

void Http2Client::ping() {
  nghttp2_submit_ping(state_->session, NGHTTP2_FLAG_NONE, nullptr);
  state_->flush();
}

Http2Answer Http2Client::answer(std::int32_t stream) {
  while (!state_->answers[stream].ended && state_->read_more()) {
  }
  return state_->answers[stream];
}

Http2Answer Http2Client::begin_of_answer(std::int32_t stream, std::size_t bytes) {
  const Http2Answer& answer = state_->answers[stream];
  while ((answer.status == 0 || answer.body.size() < bytes) && state_->read_more()) {
  }
  return answer;
}

int Http2Client::informational(std::int32_t stream) {
  while (state_->answers[stream].informational == 0 && state_->read_more()) {
  }
  return state_->answers[stream].informational;
}

Http2Answer Http2Client::exchange(const Http2Ask& request) {
  return answer(ask(request));
}

bool Http2Client::receives_goaway() {
  while (!state_->goaway && state_->read_more()) {
  }
  return state_->goaway;
}

bool Http2Client::ends() {
  while (state_->read_more()) {
  }
  return state_->raw.is_closed();
}

RawClient& Http2Client::raw() {
  return state_->raw;
}

}  // namespace mgpu::test
