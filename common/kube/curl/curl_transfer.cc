#include "common/kube/curl/curl_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/kube/limits.h"

namespace mgpu::kube {
namespace {

constexpr long kOk = 200;
constexpr const char* kAcceptJson = "Accept: application/json";
constexpr const char* kAcceptProtobuf =
    "Accept: application/vnd.kubernetes.protobuf, application/json";

constexpr const char* kMethodNames[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};  // by Method

long milliseconds(Duration duration) {
  return static_cast<long>(std::max<Duration::rep>(duration.count(), 1));
}

// `source` outlives `easy`.
void set_pem(CURL* easy, CURLoption file_option, CURLoption blob_option, const PemSource& source) {
  if (!source.file.empty()) {
    curl_easy_setopt(easy, file_option, source.file.c_str());
  } else if (!source.pem.empty()) {
    // libcurl does not change the text.
    const curl_blob text{const_cast<char*>(source.pem.data()), source.pem.size(), CURL_BLOB_NOCOPY};
    curl_easy_setopt(easy, blob_option, &text);
  }
}

long status_of(CURL* easy) {
  long status = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

Encoding encoding_of(CURL* easy) {
  const char* type = nullptr;
  curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
  const bool protobuf = type != nullptr && lower_case(type).starts_with(kProtobufType);
  return protobuf ? Encoding::kProtobuf : Encoding::kJson;
}

std::optional<std::chrono::sys_seconds> date_of(CURL* easy) {
  curl_header* header = nullptr;
  if (curl_easy_header(easy, "Date", 0, CURLH_HEADER, -1, &header) != CURLHE_OK) return {};
  const time_t seconds = curl_getdate(header->value, nullptr);
  if (seconds < 0) return {};
  return std::chrono::sys_seconds(std::chrono::seconds(seconds));
}

// Failures that may happen before the first byte of a request is sent.
bool may_precede_sending(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_OPERATION_TIMEDOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace

Response never_sent(std::string why) {
  Response response;
  response.failure = TransportFailure{std::move(why), false};
  return response;
}

CurlTransfer::CurlTransfer(Request request, Done done)
    : request_(std::move(request)), done_(std::move(done)) {}

CurlTransfer::CurlTransfer(Request request, StreamEvents events,
                           std::shared_ptr<std::atomic<bool>> closed)
    : request_(std::move(request)),
      stream_events_(std::make_shared<const StreamEvents>(std::move(events))),
      closed_(std::move(closed)) {}

CurlTransfer::~CurlTransfer() {
  curl_easy_cleanup(easy_);
  curl_slist_free_all(headers_);
  curl_slist_free_all(connect_to_);
}

void CurlTransfer::prepare(const Config& config, const Endpoint& endpoint, const std::string& token,
                           std::shared_ptr<const ExecCredential> credential) {
  curl_easy_cleanup(std::exchange(easy_, curl_easy_init()));
  MGPU_CHECK(easy_ != nullptr, "out of memory");
  body_.clear();
  lines_ = LineBuffer();
  events_.reset();
  curl_error_[0] = '\0';
  credential_ = std::move(credential);
  token_ = credential_ ? credential_->token : token;
  curl_easy_setopt(easy_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy_, CURLOPT_URL, (endpoint.base_url + request_.target).c_str());
  curl_easy_setopt(easy_, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(easy_, CURLOPT_PROXY, config.proxy_url.c_str());
  if (!request_.body.empty() || request_.method == Method::kPost) {
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request_.body.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, request_.body.c_str());
  }
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST,
                   kMethodNames[static_cast<std::size_t>(request_.method)]);
  has_certificate_ = !config.client_certificate.file.empty();
  curl_easy_setopt(easy_, CURLOPT_FRESH_CONNECT, new_connection_ ? 1L : 0L);
  set_headers(config, endpoint);
  set_security(config);
  set_limits();
}

bool CurlTransfer::use_new_connection() {
  return has_certificate_ && !std::exchange(new_connection_, true);
}

void CurlTransfer::set_headers(const Config& config, const Endpoint& endpoint) {
  curl_slist_free_all(std::exchange(headers_, nullptr));
  curl_slist_free_all(std::exchange(connect_to_, nullptr));
  const auto add_header = [&](const std::string& header) {
    headers_ = curl_slist_append(headers_, header.c_str());
  };
  add_header(request_.protobuf ? kAcceptProtobuf : kAcceptJson);
  // An empty value keeps libcurl from sending its own.
  add_header("Content-Type:" + (request_.content_type.empty() ? "" : " " + request_.content_type));
  add_header("Expect:");
  if (!token_.empty()) add_header("Authorization: Bearer " + token_);
  if (!endpoint.host_header.empty()) add_header(endpoint.host_header);
  for (const std::string& header : config.headers) add_header(header);
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_);
  curl_easy_setopt(easy_, CURLOPT_USERAGENT, "mgpu/" MGPU_VERSION);
  // Compression would delay the lines of a watch. It makes the lists of a large cluster 10 times
  // smaller.
  if (!is_stream()) curl_easy_setopt(easy_, CURLOPT_ACCEPT_ENCODING, "gzip");
  if (endpoint.connect_to.empty()) return;
  connect_to_ = curl_slist_append(nullptr, endpoint.connect_to.c_str());
  curl_easy_setopt(easy_, CURLOPT_CONNECT_TO, connect_to_);
}

void CurlTransfer::set_security(const Config& config) {
  const long verified = config.insecure_skip_tls_verify ? 0 : 1;
  curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYPEER, verified);
  curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYHOST, verified * 2);
  curl_easy_setopt(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  set_pem(easy_, CURLOPT_CAINFO, CURLOPT_CAINFO_BLOB, config.ca);
  set_pem(easy_, CURLOPT_SSLCERT, CURLOPT_SSLCERT_BLOB,
          credential_ ? credential_->certificate : config.client_certificate);
  set_pem(easy_, CURLOPT_SSLKEY, CURLOPT_SSLKEY_BLOB,
          credential_ ? credential_->key : config.client_key);
  // The file of the certificate authority is replaced from time to time, as the token's is.
  curl_easy_setopt(easy_, CURLOPT_CA_CACHE_TIMEOUT,
                   static_cast<long>(kTokenRereadInterval.count()));
  if (config.username.empty()) return;
  curl_easy_setopt(easy_, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
  curl_easy_setopt(easy_, CURLOPT_USERNAME, config.username.c_str());
  curl_easy_setopt(easy_, CURLOPT_PASSWORD, config.password.c_str());
}

Duration CurlTransfer::timeout() const {
  return request_.timeout > Duration(0) ? request_.timeout : Duration(kApiRequestTimeout);
}

void CurlTransfer::set_limits() {
  curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS, is_stream() ? 0L : milliseconds(timeout()));
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(kApiConnectTimeout));
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy_, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(easy_, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, curl_error_);
  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &CurlTransfer::on_header);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &CurlTransfer::on_body);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
}

std::size_t CurlTransfer::on_header(char* text, std::size_t, std::size_t size, void* self) {
  auto& transfer = *static_cast<CurlTransfer*>(self);
  const bool last = size > 0 && (text[0] == '\r' || text[0] == '\n');
  if (last && transfer.is_stream() && status_of(transfer.easy_) == kOk) transfer.open();
  // The connection was authenticated with a certificate that has expired or was replaced. Other
  // requests would get the same answer on it.
  if (last && transfer.has_certificate_ && status_of(transfer.easy_) == kUnauthorized) {
    curl_easy_setopt(transfer.easy_, CURLOPT_FORBID_REUSE, 1L);
  }
  return size;
}

void CurlTransfer::open() {
  opened_ = true;
  if (encoding_of(easy_) == Encoding::kProtobuf) events_.emplace();
}

// Another result than `size` ends the transfer.
std::size_t CurlTransfer::on_body(char* text, std::size_t, std::size_t size, void* self) {
  auto& transfer = *static_cast<CurlTransfer*>(self);
  if (transfer.events_) {
    transfer.events_->append({text, size});
    return size;
  }
  if (transfer.opened_) {
    transfer.lines_.append({text, size});
    return size;
  }
  transfer.body_.append(text, size);
  const std::size_t most = transfer.request_.response_bytes_max;
  if (transfer.body_.size() <= most) return size;
  transfer.too_large_ = fmt::format("the answer has more than {} bytes", most);
  return 0;
}

Response CurlTransfer::response(CURLcode code) {
  Response response;
  if (code != CURLE_OK) {
    const char* why = curl_error_[0] != '\0' ? curl_error_ : curl_easy_strerror(code);
    // Includes an earlier attempt of libcurl on a kept connection.
    long bytes_sent = 0;
    curl_easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &bytes_sent);
    response.failure = {too_large_.empty() ? json_escaped(why) : too_large_,
                        bytes_sent > 0 || !may_precede_sending(code), !too_large_.empty()};
    return response;
  }
  response.status = static_cast<int>(status_of(easy_));
  response.body = std::exchange(body_, {});
  response.encoding = encoding_of(easy_);
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &seconds);
  constexpr curl_off_t kDay = 86'400;
  if (seconds > 0) response.retry_after = std::chrono::seconds(std::min(seconds, kDay));
  response.date = date_of(easy_);
  return response;
}

bool CurlTransfer::deliver_lines(bool ended) {
  if (!opened_) return !closed();
  // A handler may close the stream or destroy the transport, and this transfer with it.
  const auto closed = closed_;
  const auto events = stream_events_;
  if (!std::exchange(open_delivered_, true)) {
    events->on_open(events_ ? Encoding::kProtobuf : Encoding::kJson);
  }
  if (events_) {
    for (const std::string& event : events_->take()) {
      if (!closed->load()) events->on_line(event);
    }
    return !closed->load();
  }
  const std::string text = lines_.take(ended);
  std::string_view rest = text;
  while (!rest.empty() && !closed->load()) {
    const std::size_t end = rest.find('\n');
    if (end > 0) events->on_line(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  return !closed->load();
}

void CurlTransfer::finish(Response response) {
  if (!is_stream()) return done_(std::move(response));
  if (!closed()) stream_events_->on_end(std::move(response));
}

Result<Endpoint> endpoint_of(const Config& config) {
  const auto url = std::unique_ptr<CURLU, void (*)(CURLU*)>(curl_url(), curl_url_cleanup);
  const auto wrong = [&](std::string_view expectation) {
    return error(fmt::format("server must be {}, is {}", expectation, in_quotes(config.server)));
  };
  const auto part = [&](CURLUPart which, unsigned flags) {
    char* text = nullptr;
    if (curl_url_get(url.get(), which, &text, flags) != CURLUE_OK) return std::string();
    const std::string copy(text);
    curl_free(text);
    return copy;
  };
  if (curl_url_set(url.get(), CURLUPART_URL, config.server.c_str(), 0) != CURLUE_OK) {
    return wrong("a URL");
  }
  const std::string scheme = part(CURLUPART_SCHEME, 0);
  if (scheme != "https" && scheme != "http") return wrong("a URL with https:// or http://");
  for (const CURLUPart extra :
       {CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_QUERY, CURLUPART_FRAGMENT}) {
    if (!part(extra, 0).empty()) return wrong("a URL of host, port and path only");
  }
  Endpoint endpoint;
  endpoint.base_url = config.server;
  while (endpoint.base_url.ends_with('/')) endpoint.base_url.pop_back();
  if (config.tls_server_name.empty()) return endpoint;
  const std::string host = part(CURLUPART_HOST, 0);
  const std::string port = part(CURLUPART_PORT, CURLU_DEFAULT_PORT);
  const std::string path = part(CURLUPART_PATH, 0);
  // libcurl verifies the name in the URL, so the URL gets that name, and CURLOPT_CONNECT_TO the
  // address.
  endpoint.base_url = fmt::format("{}://{}:{}{}", scheme, config.tls_server_name, port, path);
  while (endpoint.base_url.ends_with('/')) endpoint.base_url.pop_back();
  endpoint.connect_to = fmt::format("::{}:{}", host, port);
  endpoint.host_header = fmt::format("Host: {}:{}", host, port);
  return endpoint;
}

}  // namespace mgpu::kube
