#include "common/kube/objects/reviews.h"

#include <utility>

#include "common/kube/objects/json_value.h"

namespace mgpu::kube {

namespace {

void read_user(JsonValue& from, UserInfo& user) {
  const auto read_extra = [&](JsonValue& extra) {
    extra.members([&](std::string_view name, JsonValue& values) {
      user.extra[std::string(name)] = values.text_list();
    });
  };
  from.read(
      {{"username", user.name}, {"uid", user.uid}, {"groups", user.groups}, {"extra", read_extra}});
}

}  // namespace

Result<std::optional<UserInfo>> read_token_review(std::string_view json) {
  bool authenticated = false;
  UserInfo user;
  const auto read_status = [&](JsonValue& status) {
    status.read({{"authenticated", authenticated},
                 {"user", [&](JsonValue& from) { read_user(from, user); }}});
  };
  const auto read = read_json(json, [&](JsonValue& root) { root.read({{"status", read_status}}); });
  if (!read) return error("TokenReview: " + read.error().message);
  if (!authenticated) return std::optional<UserInfo>();
  if (user.name.empty()) return error("TokenReview: status.user.username is empty");
  return std::optional(std::move(user));
}

Result<bool> read_access_review(std::string_view json) {
  bool allowed = false;
  bool denied = false;
  const auto read_status = [&](JsonValue& status) {
    status.read({{"allowed", allowed}, {"denied", denied}});
  };
  const auto read = read_json(json, [&](JsonValue& root) { root.read({{"status", read_status}}); });
  if (!read) return error("SubjectAccessReview: " + read.error().message);
  // Kubernetes says that both are never true; of a webhook that sets both, the refusal counts.
  return allowed && !denied;
}

}  // namespace mgpu::kube
