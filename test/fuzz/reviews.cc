// Feeds the answers to a TokenReview, a SubjectAccessReview and other small objects to their
// readers.
//
// Properties: an authenticated user has a name; nothing is authenticated or allowed unless the text
// has this word and "true"; a Lease has a version; errors are short sentences.
#include "common/kube/objects/reviews.h"

#include <string_view>

#include "common/kube/objects/object_json.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

void expect_reviews(std::string_view input) {
  const bool escaped = has(input, "\\u");
  const auto user = kube::read_token_review(input);
  if (!user) {
    expect_sentence(user.error().message);
    expect(user.error().message.starts_with("TokenReview: "), "an error names the object");
  } else if (*user) {
    expect(!(*user)->name.empty(), "a user has a name");
    expect(has(input, "true") && (escaped || has(input, "authenticated")), "it is authenticated");
  }
  const auto allowed = kube::read_access_review(input);
  if (!allowed) {
    expect_sentence(allowed.error().message);
    expect(allowed.error().message.starts_with("SubjectAccessReview: "), "an error names it");
  } else if (*allowed) {
    expect(has(input, "true") && (escaped || has(input, "allowed")), "access is allowed");
  }
}

void expect_objects(std::string_view input) {
  const auto lease = kube::read_lease(input);
  if (lease) expect(!lease->resource_version.empty(), "a Lease has a version");
  if (!lease) expect_sentence(lease.error().message);
  const auto secret = kube::read_secret(input);
  if (secret) expect(!secret->resource_version.empty(), "a Secret has a version");
  if (!secret) expect_sentence(secret.error().message);
  const auto budget = kube::read_pod_disruption_budget(input);
  if (!budget) expect_sentence(budget.error().message);
  expect_sentence(kube::answer_text(
      {.status = 403, .body = std::string(input), .retry_after = {}, .failure = {}}));
}

}  // namespace

MGPU_FUZZER(reviews) {
  expect_reviews(input);
  expect_objects(input);
}

}  // namespace mgpu::fuzz
