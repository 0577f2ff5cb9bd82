#include "common/http/tls.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509err.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <string_view>
#include <utility>

#include "common/base/digest.h"
#include "common/base/files.h"
#include "common/base/limits.h"
#include "common/base/mutex.h"
#include "common/base/text.h"

namespace mgpu::http {

namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using boost::system::error_code;

// Empty without a path.
Result<std::string> read_pem(const std::string& what, const std::string& path) {
  if (path.empty()) return std::string();
  auto text = read_file(path, kCredentialFileBytesMax, what);
  if (!text || !text->empty()) return text;
  return error(fmt::format("cannot read {} {}: it is empty", what, in_quotes(path)));
}

// `path` is empty if the text does not come from a file.
Error unusable(std::string_view what, const std::string& path, const error_code& why) {
  if (path.empty()) return error(fmt::format("cannot use the {}: {}", what, why.message()));
  return error(fmt::format("cannot use {} file {}: {}", what, in_quotes(path), why.message()));
}

// In ALPN, the length of a name precedes it. The first one that the client offers is chosen.
constexpr const char* kProtocols = "\x08http/1.1";
constexpr const char* kProtocolsWithHttp2 = "\x02h2\x08http/1.1";

int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_length,
                    const unsigned char* offered, unsigned int offered_length, void* protocols) {
  const std::string_view ours = static_cast<const char*>(protocols);
  unsigned char* found = nullptr;
  const int outcome = SSL_select_next_proto(
      &found, chosen_length, reinterpret_cast<const unsigned char*>(ours.data()),
      static_cast<unsigned int>(ours.size()), offered, offered_length);
  if (outcome != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

void set_protocol(ssl::context& context, bool http2) {
  SSL_CTX* native = context.native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_alpn_select_cb(native, choose_protocol,
                             const_cast<char*>(http2 ? kProtocolsWithHttp2 : kProtocols));
  // Sessions are stored in the tickets of the clients. A ticket is only valid for this server.
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  constexpr std::string_view kId = "mgpu";
  SSL_CTX_set_session_id_context(native, reinterpret_cast<const unsigned char*>(kId.data()),
                                 kId.size());
}

Result<void> use_certificate(ssl::context& context, const TlsOptions& options,
                             const TlsTexts& texts) {
  error_code failed;
  // Otherwise OpenSSL prompts for a passphrase at the terminal.
  context.set_password_callback([](auto, auto) { return std::string(); }, failed);
  context.use_certificate_chain(asio::buffer(texts.certificate), failed);
  if (failed) return unusable("certificate", options.certificate_file, failed);
  context.use_private_key(asio::buffer(texts.key), ssl::context::pem, failed);
  const auto reason = ERR_GET_REASON(static_cast<unsigned long>(failed.value()));
  const bool mismatch = failed && reason == X509_R_KEY_VALUES_MISMATCH;
  if (failed && !mismatch) return unusable("key", options.key_file, failed);
  if (!failed && SSL_CTX_check_private_key(context.native_handle()) == 1) return {};
  if (options.from_texts) return error("the key does not match the certificate");
  return error(fmt::format("the key in {} does not match the certificate in {}",
                           in_quotes(options.key_file), in_quotes(options.certificate_file)));
}

}  // namespace

Result<std::unique_ptr<Tls>> Tls::load(TlsOptions options) {
  std::unique_ptr<Tls> tls(new Tls(std::move(options)));
  if (auto loaded = tls->reload(); !loaded) return loaded.error();
  return tls;
}

std::shared_ptr<ssl::context> Tls::context() const {
  const MutexLock lock(mutex_);
  return context_;
}

std::unique_ptr<Tls> Tls::from_texts(TlsOptions options) {
  return std::unique_ptr<Tls>(new Tls(std::move(options)));
}

Result<void> Tls::reload() {
  auto certificate = read_pem("certificate file", options_.certificate_file);
  auto key = read_pem("key file", options_.key_file);
  auto client_ca = read_pem("client CA file", options_.client_ca_file);
  for (const auto* file : {&certificate, &key, &client_ca}) {
    if (file->has_value()) continue;
    const bool reported =
        std::exchange(read_error_, file->error().message) == file->error().message;
    if (reported) return {};
    return file->error();
  }
  read_error_.clear();
  std::string digest = sha256_hex(*certificate + '\0' + *key + '\0' + *client_ca);
  if (std::exchange(digest_, digest) == digest) return {};
  return use({std::move(*certificate), std::move(*key), std::move(*client_ca)});
}

Result<void> Tls::use(const TlsTexts& texts) {
  auto fresh = std::make_shared<ssl::context>(ssl::context::tls_server);
  set_protocol(*fresh, options_.http2);
  if (auto used = use_certificate(*fresh, options_, texts); !used) return used;
  if (!texts.client_ca.empty()) {
    error_code failed;
    fresh->add_certificate_authority(asio::buffer(texts.client_ca), failed);
    if (failed) return unusable("client CA", options_.client_ca_file, failed);
    fresh->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  }
  const MutexLock lock(mutex_);
  context_ = std::move(fresh);
  return {};
}

}  // namespace mgpu::http
