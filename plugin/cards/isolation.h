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

namespace mgpu::plugin {

// Any thread.
class Isolation {
 public:
  // Nothing: programs share cards as the driver's time slices do.
  Isolation() = default;
  explicit Isolation(MpsOptions options);

  // Whose shares will be enforced from now on.
  void follow(const std::vector<CardUuid>& cards);
  // Edits of a bound record, beside its cards. Errors: enforcement is not working on a card; one
  // sentence.
  Result<Edits> edits(const Record& record) const;
  std::vector<MpsState> states() const;

 private:
  MpsOptions options_;
  std::unique_ptr<Mps> mps_;  // none: no isolation
};

}  // namespace mgpu::plugin
