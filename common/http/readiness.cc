#include "common/http/readiness.h"

#include "common/base/text.h"

namespace mgpu {

namespace {

std::string quoted(const std::string& text) {
  return '"' + json_escaped(text) + '"';
}

std::string list(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + quoted(text);
  return "[" + out + "]";
}

}  // namespace

http::Response readiness_response(const Readiness& readiness) {
  const bool ready = readiness.waiting_for.empty() && !readiness.draining;
  std::string body = std::string("{\"ready\": ") + (ready ? "true" : "false");
  if (readiness.draining) body += ", \"draining\": true";
  if (!readiness.waiting_for.empty()) body += ", \"waiting_for\": " + list(readiness.waiting_for);
  if (readiness.problem.empty()) {
    body += ready ? ", \"api_server\": \"answers\"" : "";
  } else {
    body += ", \"api_server\": \"no answer for " + std::to_string(readiness.silence.count()) +
            " s\", \"problem\": " + quoted(readiness.problem);
  }
  std::string unreadable;
  for (const auto& [collection, count] : readiness.unreadable) {
    unreadable +=
        (unreadable.empty() ? "" : ", ") + quoted(collection) + ": " + std::to_string(count);
  }
  if (!unreadable.empty()) body += ", \"unreadable_objects\": {" + unreadable + "}";
  return {.status = ready ? 200 : 503, .body = body + "}\n"};
}

}  // namespace mgpu
