#include "common/kube/answer_text.h"

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/kube/limits.h"
#include "common/kube/object_json.h"

namespace mgpu::kube {

std::string answer_text(const Response& response) {
  if (response.failure) return response.failure->message;
  const Status status = read_status(response.body);
  std::string text = fmt::format("HTTP {}", response.status);
  if (!status.reason.empty()) text += " " + json_escaped(cut_text(status.reason, 100));
  if (!status.message.empty()) {
    text += ": " + json_escaped(cut_text(status.message, kStatusMessageShown));
  } else if (!response.body.empty() && status.reason.empty()) {
    text += ": " + in_quotes(response.body);
  }
  return text;
}

}  // namespace mgpu::kube
