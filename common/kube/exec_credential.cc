#include "common/kube/exec_credential.h"

#include <fmt/format.h>

#include <charconv>

#include "common/base/text.h"
#include "common/kube/base64.h"
#include "common/kube/json_value.h"
#include "common/kube/token_source.h"

namespace mgpu::kube {
namespace {

using std::chrono::sys_seconds;

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

// The digits of `text` from `at` on, as a number; -1 where they are none.
int digits_at(std::string_view text, std::size_t at, std::size_t count) {
  const std::string_view part = text.substr(std::min(at, text.size()), count);
  int number = 0;
  const auto end = part.data() + part.size();
  const bool digits = part.size() == count &&
                      part.find_first_not_of("0123456789") == std::string_view::npos &&
                      std::from_chars(part.data(), end, number).ptr == end;
  return digits ? number : -1;
}

// "Z", "+01:00" or "-01:00".
std::optional<std::chrono::minutes> read_offset(std::string_view text) {
  if (text == "Z" || text == "z") return std::chrono::minutes(0);
  const int hours = digits_at(text, 1, 2);
  const int minutes = digits_at(text, 4, 2);
  const bool is_sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  if (!is_sign || text.size() != 6 || text[3] != ':' || hours < 0 || hours > 23 || minutes < 0 ||
      minutes > 59) {
    return std::nullopt;
  }
  const std::chrono::minutes offset(hours * 60 + minutes);
  return text[0] == '+' ? offset : -offset;
}

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

std::optional<sys_seconds> read_rfc3339(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00";
  if (text.size() <= kForm.size()) return std::nullopt;
  for (const std::size_t at : {4U, 7U, 10U, 13U, 16U}) {
    if (to_lower(text[at]) != to_lower(kForm[at])) return std::nullopt;
  }
  const std::chrono::year_month_day day{
      std::chrono::year(digits_at(text, 0, 4)),
      std::chrono::month(static_cast<unsigned>(digits_at(text, 5, 2))),
      std::chrono::day(static_cast<unsigned>(digits_at(text, 8, 2)))};
  const int hour = digits_at(text, 11, 2);
  const int minute = digits_at(text, 14, 2);
  const int second = digits_at(text, 17, 2);
  const bool in_day = hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && second >= 0 &&
                      second <= 60;  // with a leap second
  if (digits_at(text, 0, 4) < 0 || !day.ok() || !in_day) return std::nullopt;
  text.remove_prefix(kForm.size());
  if (text[0] == '.') {
    const std::size_t end = text.find_first_not_of("0123456789", 1);
    if (end == 1 || end == std::string_view::npos) return std::nullopt;
    text.remove_prefix(end);
  }
  const auto offset = read_offset(text);
  if (!offset) return std::nullopt;
  return sys_seconds(std::chrono::sys_days(day)) + std::chrono::hours(hour) +
         std::chrono::minutes(minute) + std::chrono::seconds(second) - *offset;
}

}  // namespace mgpu::kube
