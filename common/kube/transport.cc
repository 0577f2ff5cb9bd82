#include "common/kube/transport.h"

#include <fmt/format.h>

#include "common/base/sentences.h"
#include "common/base/text.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/objects/object_protobuf.h"

namespace mgpu::kube {

std::string text_of(const Status& status) {
  std::string text = fmt::format("HTTP {}", status.code);
  if (!status.reason.empty()) text += " " + on_one_line(cut_text(status.reason, 100));
  if (status.message.empty()) return text;
  return text + ": " + on_one_line(cut_text(status.message, kStatusMessageShown));
}

Status status_of(const Response& response) {
  return response.encoding == Encoding::kProtobuf ? read_status_protobuf(response.body)
                                                  : read_status(response.body);
}

std::string answer_text(const Response& response) {
  if (response.failure) return response.failure->message;
  Status status = status_of(response);
  status.code = response.status;
  const bool silent = status.reason.empty() && status.message.empty() && !response.body.empty();
  return text_of(status) + (silent ? ": " + in_quotes(response.body) : "");
}

}  // namespace mgpu::kube
