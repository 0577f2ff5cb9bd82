// Which indices this node has given, kept in <state>/cards.json. Where that is lost, the node's own
// annotation has them.
#pragma once

#include <optional>
#include <string>

#include "common/contract/contract.h"
#include "common/kube/client.h"
#include "plugin/cards/card_index.h"

namespace mgpu::plugin {

// Any thread.
class KnownCardsFile {
 public:
  explicit KnownCardsFile(std::string path) : path_(std::move(path)) {}

  // Errors: there is no such file, or it cannot be used.
  Result<KnownCards> load() const;
  Result<void> save(const KnownCards& known) const;

 private:
  const std::string path_;
};

// From the node's annotation; empty where it has none or there is no such node. Errors: the API
// server does not answer, or the annotation cannot be read: then nothing may be given anew.
// REQUIRES: not on the executor.
Result<KnownCards> known_at_api_server(kube::Transport& transport, const NodeName& node,
                                       const Contract& contract);

}  // namespace mgpu::plugin
