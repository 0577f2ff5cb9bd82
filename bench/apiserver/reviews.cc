// TokenReview and SubjectAccessReview.
#include <algorithm>
#include <string_view>
#include <vector>

#include "bench/apiserver/verbs.h"

namespace mgpu::kube {

namespace {

constexpr std::string_view kAllRights = "system:masters";

Response created(const Json& review) {
  return answer(201, review.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Response review_of_token(MemoryCluster& cluster, const Request& request) {
  Json review = read_body("TokenReview", request);
  const std::string token = text_at(review, "spec.token");
  if (token.empty()) throw bad_request("spec.token: Required value");
  review["status"] = {{"user", Json::object()}};
  const auto user = cluster.tokens().find(token);
  if (user == cluster.tokens().end()) {
    review["status"]["error"] = "invalid bearer token";
    return created(review);
  }
  const auto& [name, uid, groups, extra] = user->second;
  review["status"] = {
      {"authenticated", true},
      {"user", {{"username", name}, {"uid", uid}, {"groups", groups}, {"extra", extra}}}};
  return created(review);
}

Response review_of_access(const Request& request) {
  Json review = read_body("SubjectAccessReview", request);
  const Json& groups = member_at(review, "spec.groups");
  const bool allowed =
      groups.is_array() && std::ranges::find(groups, Json(kAllRights)) != groups.end();
  review["status"] = {{"allowed", allowed}};
  return created(review);
}

}  // namespace

std::optional<Response> serve_review(MemoryCluster& cluster, const Request& request) {
  const bool token = request.target == "/apis/authentication.k8s.io/v1/tokenreviews";
  const bool access = request.target == "/apis/authorization.k8s.io/v1/subjectaccessreviews";
  if (request.method != Method::kPost || (!token && !access)) return std::nullopt;
  return token ? review_of_token(cluster, request) : review_of_access(request);
}

}  // namespace mgpu::kube
