#include "common/program/token_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/digest.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/kube/objects/object_json.h"
#include "common/kube/objects/reviews.h"
#include "common/kube/request.h"
#include "common/program/limits.h"

namespace mgpu {

namespace {

constexpr std::string_view kScheme = "bearer ";
constexpr int kUnauthenticated = 401;
constexpr int kForbidden = 403;
constexpr int kUnavailable = 503;

// The token in the header Authorization; empty if there is none. A token has no blanks (RFC 6750).
std::string_view bearer_token(std::string_view header) {
  if (lower_case(header.substr(0, kScheme.size())) != kScheme) return {};
  const std::string_view token = header.substr(kScheme.size());
  const bool visible = std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; });
  return visible && token.size() <= kBearerTokenBytesMax ? token : std::string_view();
}

Access refused(int status, const std::string& sentence) {
  Access access{.allowed = false, .refusal = http::error_response(status, sentence)};
  if (status == kUnauthenticated) access.refusal.headers = {{"WWW-Authenticate", "Bearer"}};
  return access;
}

}  // namespace

struct TokenAccess::Check {
  std::string key{};  // the digest of token, verb and path
  std::string verb;   // of RBAC: the HTTP method in lower case
  std::string path;
  std::function<void(Access)> done;
};

void TokenAccess::check(const http::Request& request, std::function<void(Access)> done) {
  const std::string_view token = bearer_token(request.authorization);
  if (token.empty()) {
    return done(refused(kUnauthenticated, "this path needs a bearer token in Authorization"));
  }
  const Instant now = transport_.executor().now();
  Check check{.verb = lower_case(request.method), .path = request.path, .done = std::move(done)};
  check.key = sha256_hex(fmt::format("{} {} {}", token, check.verb, check.path));
  Access access;
  if (find(check.key, now, access)) return check.done(std::move(access));
  if (!begin(check.key, now)) {
    return check.done(refused(kUnavailable, "too many bearer tokens are being checked"));
  }
  kube::Request review = kube::review_token(token);
  review.timeout = kAccessCheckTimeout;
  transport_.send(std::move(review),
                  callbacks_.wrap([this, check = std::move(check)](const kube::Response& answer) {
                    on_token(check, answer);
                  }));
}

bool TokenAccess::find(const std::string& key, Instant now, Access& access) {
  const MutexLock lock(mutex_);
  const auto found = kept_.find(key);
  if (found == kept_.end() || found->second.until <= now) return false;
  access = found->second.access;
  return true;
}

bool TokenAccess::begin(const std::string& key, Instant now) {
  const MutexLock lock(mutex_);
  const auto found = kept_.find(key);
  const bool known = found != kept_.end() && found->second.access.allowed;
  if (running_ >= (known ? kAccessChecksMax : kAccessChecksMax / 2)) return false;
  if (now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    started_ = 0;
  }
  if (!known && started_ >= kAccessChecksPerSecondMax) return false;
  if (!known) ++started_;
  ++running_;
  return true;
}

void TokenAccess::on_token(const Check& check, const kube::Response& response) {
  if (!response.ok()) return cannot_check(check, kube::answer_text(response));
  const auto user = kube::read_token_review(response.body);
  if (!user) return cannot_check(check, user.error().message);
  if (!*user) return end(check, refused(kUnauthenticated, "the bearer token is not valid"));
  kube::Request review = kube::review_access(**user, check.verb, check.path);
  review.timeout = kAccessCheckTimeout;
  transport_.send(
      std::move(review),
      callbacks_.wrap([this, check, name = (*user)->name](const kube::Response& answer) {
        on_access(check, name, answer);
      }));
}

void TokenAccess::on_access(const Check& check, const std::string& user,
                            const kube::Response& response) {
  if (!response.ok()) return cannot_check(check, kube::answer_text(response));
  const auto allowed = kube::read_access_review(response.body);
  if (!allowed) return cannot_check(check, allowed.error().message);
  if (*allowed) return end(check, {.allowed = true});
  end(check, refused(kForbidden, fmt::format("user {} may not {} path {}", in_quotes(user),
                                             check.verb, in_quotes(check.path))));
}

void TokenAccess::end(const Check& check, Access access) {
  {
    const MutexLock lock(mutex_);
    const Instant now = transport_.executor().now();
    --running_;
    problem_.clear();
    if (kept_.size() >= kAccessResultsMax && !kept_.contains(check.key)) make_room(now);
    kept_.insert_or_assign(check.key, Kept{access, now + kAccessKept});
  }
  check.done(std::move(access));
}

// A result that allowed access is useful after it has expired: see begin().
void TokenAccess::make_room(Instant now) {
  std::erase_if(kept_, [now](const auto& entry) {
    return !entry.second.access.allowed && entry.second.until <= now;
  });
  if (kept_.size() < kAccessResultsMax) return;
  kept_.erase(
      std::ranges::min_element(kept_, {}, [](const auto& entry) { return entry.second.until; }));
}

// The client does not get the sentence of the API server, which may name other users.
void TokenAccess::cannot_check(const Check& check, const std::string& problem) {
  bool is_new = false;
  {
    const MutexLock lock(mutex_);
    --running_;
    is_new = std::exchange(problem_, problem) != problem;
  }
  if (is_new) log_warn("a bearer token cannot be checked", {{"problem", problem}});
  check.done(refused(kUnavailable, "the API server did not check the bearer token"));
}

}  // namespace mgpu
