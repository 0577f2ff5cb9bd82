#include "common/kube/config/exec_credential.h"

#include <fmt/format.h>

#include "common/base/base64.h"
#include "common/base/rfc3339.h"
#include "common/base/text.h"
#include "common/kube/config/token_source.h"
#include "common/kube/objects/json_value.h"

namespace mgpu::kube {
namespace {

std::string json_text(std::string_view text) {
  return '"' + json_escaped(text) + '"';
}

std::string cluster_info(const Config& config, std::string_view ca_pem) {
  std::string text = fmt::format(R"({{"server":{})", json_text(config.server));
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format(R"(,"{}":{})", name, json_text(value));
  };
  add("tls-server-name", config.tls_server_name);
  if (config.insecure_skip_tls_verify) text += R"(,"insecure-skip-tls-verify":true)";
  add("certificate-authority-data", encode_base64(ca_pem));
  add("proxy-url", config.proxy_url);
  if (!config.exec->cluster_config.empty()) text += ",\"config\":" + config.exec->cluster_config;
  return text + '}';
}

// The members of an ExecCredential. The first problem is kept; it names a member and no value.
struct ExecReply {
  std::string kind;
  std::string api_version;
  bool has_status = false;
  std::string token;
  std::string certificate;
  std::string key;
  std::string expires;
  std::string problem;

  JsonField text(std::string_view name, std::string& to) {
    return {name, [this, name, &to](JsonValue& value) {
              const auto found = value.kind();
              if (found == JsonValue::Kind::kString) {
                to = value.text();
              } else if (found != JsonValue::Kind::kNull && problem.empty()) {
                problem = fmt::format("{} must be a string", name);
              }
            }};
  }
};

}  // namespace

std::string exec_info(const Config& config, std::string_view ca_pem, bool interactive) {
  std::string spec = fmt::format(R"({{"interactive":{})", interactive);
  if (config.exec->provide_cluster_info) {
    spec += ",\"cluster\":" + cluster_info(config, ca_pem);
  }
  return fmt::format(R"({{"kind":"ExecCredential","apiVersion":{},"spec":{}}}}})",
                     json_text(config.exec->api_version), spec);
}

Result<ExecCredential> read_exec_credential(std::string_view json, std::string_view api_version) {
  ExecReply reply;
  const auto read_status = [&](JsonValue& status) {
    if (status.kind() != JsonValue::Kind::kObject) return;
    reply.has_status = true;
    status.read(
        {reply.text("token", reply.token), reply.text("clientCertificateData", reply.certificate),
         reply.text("clientKeyData", reply.key), reply.text("expirationTimestamp", reply.expires)});
  };
  const auto read = read_json(json, [&](JsonValue& root) {
    root.read({reply.text("kind", reply.kind),
               reply.text("apiVersion", reply.api_version),
               {"status", read_status}});
  });
  // The sentence of the reader would quote the text.
  if (!read) return error("its output must be one JSON object of the kind ExecCredential");
  if (!reply.problem.empty()) return error("in its output " + reply.problem);
  if (reply.kind != "ExecCredential") return error("its output must have the kind ExecCredential");
  if (reply.api_version != api_version) {
    return error(
        fmt::format("its output must have the apiVersion {} of the kubeconfig, and has not",
                    in_quotes(api_version)));
  }
  if (!reply.has_status) return error("its output has no status");
  if (reply.certificate.empty() != reply.key.empty()) {
    return error("its output must have both clientCertificateData and clientKeyData, or neither");
  }
  if (reply.token.empty() && reply.certificate.empty()) {
    return error("its output has neither a token nor a client certificate");
  }
  if (!is_bearer_token(reply.token)) {
    return error("its token must be one line of printable ASCII without blanks, and is not");
  }
  ExecCredential credential{std::move(reply.token),
                            {std::move(reply.certificate), ""},
                            {std::move(reply.key), ""},
                            std::nullopt};
  if (reply.expires.empty()) return credential;
  credential.expires = read_rfc3339(reply.expires);
  if (credential.expires) return credential;
  return error("its expirationTimestamp must be a time as in RFC 3339, and is not");
}

}  // namespace mgpu::kube
