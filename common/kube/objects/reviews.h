// Reads the answers of the API server to a TokenReview and a SubjectAccessReview (request.h). Pure;
// any thread.
#pragma once

#include <optional>
#include <string_view>

#include "common/base/result.h"
#include "common/kube/objects/objects.h"

namespace mgpu::kube {

// The user of the token; none if the token is not valid. Errors: the text is not a TokenReview; the
// API server authenticated a user without a name.
Result<std::optional<UserInfo>> read_token_review(std::string_view json);

// True if the access is allowed. Errors: the text is not a SubjectAccessReview.
Result<bool> read_access_review(std::string_view json);

}  // namespace mgpu::kube
