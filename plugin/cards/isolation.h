// What enforces a container's share once it has its cards.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/result.h"
#include "plugin/allocation/edits.h"
#include "plugin/allocation/record.h"
#include "plugin/cards/mps.h"

namespace mgpu {

// Any thread.
class Isolation {
 public:
  // Nothing: programs share cards as the driver's time slices do.
  Isolation() = default;
  explicit Isolation(gpu::MpsOptions options);

  // Whose shares will be enforced from now on.
  void follow(const std::vector<CardUuid>& cards);
  // Edits of a bound record, beside its cards. Errors: enforcement is not working on a card; one
  // sentence.
  Result<allocation::Edits> edits(const allocation::Record& record) const;
  std::vector<gpu::MpsState> states() const;

 private:
  gpu::MpsOptions options_;
  std::unique_ptr<gpu::Mps> mps_;  // none: no isolation
};

}  // namespace mgpu
