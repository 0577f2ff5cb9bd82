// kubectl mgpu cordon-card and uncordon-card
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "common/base/text.h"
#include "common/contract/contract.h"
#include "common/contract/quantity.h"
#include "common/kube/objects/object_json.h"
#include "extender/kubectl/extender_access.h"
#include "extender/kubectl/gpu_pods.h"
#include "extender/kubectl/limits.h"
#include "extender/kubectl/verb.h"

namespace mgpu::kubectl {
namespace {

constexpr int kConflictStatus = 409;

std::optional<CardIndex> card_index(const std::string& text) {
  const auto index = parse_number<std::int32_t>(text);
  if (!index || *index < 0 || *index > kCardIndexMax) return std::nullopt;
  return CardIndex(*index);
}

// Errors: the node has no such card, or its cards cannot be read.
Result<void> check_card(const kube::Node& node, CardIndex card, const Contract& contract) {
  const auto annotation = node.metadata.annotations.find(contract.node_cards);
  if (annotation == node.metadata.annotations.end()) {
    // Without the annotation the number of cards comes from the capacity.
    const auto core = node.capacity.find(contract.core_resource);
    const auto amount = core == node.capacity.end()
                            ? Result<std::int64_t>(std::int64_t{0})
                            : parse_whole_quantity(contract.core_resource, core->second);
    if (amount && card.value() < *amount / kWholeCard.value()) return {};
    return error(fmt::format("node {} has no card {}", node.metadata.name, card.value()));
  }
  const auto cards = parse_node_cards(annotation->second);
  if (!cards) {
    return error(fmt::format("node {}: annotation {}: {}", node.metadata.name, contract.node_cards,
                             cards.error().message));
  }
  const bool has_it =
      std::ranges::any_of(*cards, [&](const CardFacts& one) { return one.index == card; });
  if (has_it) return {};
  return error(fmt::format("node {} has no card {}", node.metadata.name, card.value()));
}

Result<std::vector<CardIndex>> cordoned_cards(const kube::Node& node, const Contract& contract) {
  const auto annotation = node.metadata.annotations.find(contract.cordoned_cards);
  if (annotation == node.metadata.annotations.end()) return std::vector<CardIndex>();
  auto cards = parse_card_indices(annotation->second);
  if (cards) return cards;
  return error(fmt::format("node {}: annotation {}: {}; kubectl annotate node {} {}- removes it",
                           node.metadata.name, contract.cordoned_cards, cards.error().message,
                           node.metadata.name, contract.cordoned_cards));
}

// Sets the annotation, or removes it if it has no value, if the node still has the
// resourceVersion of `read`; else the API server answers 409.
kube::Request change_annotation(const kube::Node& read, const std::string& key,
                                const std::optional<std::string>& value) {
  Json metadata = {{"resourceVersion", read.metadata.resource_version}};
  metadata["annotations"][key] = value ? Json(*value) : Json(nullptr);
  kube::Request request = kube::get_node(NodeName(read.metadata.name));
  request.method = kube::Method::kPatch;
  request.content_type = "application/merge-patch+json";
  request.body = json_text({{"metadata", metadata}});
  return request;
}

class CordonVerb {
 public:
  explicit CordonVerb(bool cordons) : cordons_(cordons) {}

  void add_flags(Options& options) {
    options.add_words("NODE INDEX", words_, 2, 2);
    add_domain_flag(options, domain_);
    add_cluster_flags(options, access_);
    options.check([this] {
      remove_kind("node", words_);
      return check_name("NODE", words_.front());
    });
    options.check([this]() -> Result<void> {
      if (card_index(words_.back())) return {};
      return error(fmt::format("INDEX must be a whole number from 0 to {}, found {}", kCardIndexMax,
                               in_quotes(words_.back())));
    });
  }
  Result<int> run(Console& console) {
    const auto cluster = Cluster::connect(access_);
    if (!cluster) return cluster.error();
    const auto outcome = change((*cluster)->api());
    if (!outcome) return outcome.error();
    console.print(fmt::format("node/{} card {} {}\n", words_.front(), words_.back(), *outcome));
    return kSucceeded;
  }

 private:
  // "cordoned", or "already cordoned". Another writer may change the node in between, such as
  // kubelet: then it is read again.
  Result<std::string> change(Api& api) {
    const Contract contract = *Contract::for_domain(domain_);
    const CardIndex card = *card_index(words_.back());
    const std::string outcome = cordons_ ? "cordoned" : "uncordoned";
    for (int attempt = 0; attempt < kChangeAttemptsMax; ++attempt) {
      const auto body =
          api.get(kube::get_node(NodeName(words_.front())).target, "get node " + words_.front());
      if (!body.known()) return error(body.problem());
      const auto node = kube::read_node(body.value());
      if (!node) return error(fmt::format("node {}: {}", words_.front(), node.error().message));
      if (cordons_) {
        if (auto checked = check_card(*node, card, contract); !checked) return checked.error();
      }
      auto cards = cordoned_cards(*node, contract);
      if (!cards) return cards.error();
      const bool is_cordoned = std::ranges::find(*cards, card) != cards->end();
      if (is_cordoned == cordons_) return "already " + outcome;
      std::erase(*cards, card);
      if (cordons_) cards->push_back(card);
      std::ranges::sort(*cards);
      const auto value =
          cards->empty() ? std::optional<std::string>() : format_card_indices(*cards);
      const kube::Response response =
          api.call(change_annotation(*node, contract.cordoned_cards, value));
      if (response.ok()) return outcome;
      if (response.status != kConflictStatus)
        return error(body_of(response, "annotate node " + words_.front()).problem());
    }
    return error(fmt::format("node {} was changed by others {} times meanwhile; try again",
                             words_.front(), kChangeAttemptsMax));
  }

  const bool cordons_;
  ClusterFlags access_;
  std::vector<std::string> words_;
  std::string domain_ = std::string(kDefaultResourceDomain);
};

}  // namespace

Run add_cordon_card(Options& options) {
  return add_command(options, std::make_shared<CordonVerb>(true));
}

Run add_uncordon_card(Options& options) {
  return add_command(options, std::make_shared<CordonVerb>(false));
}

}  // namespace mgpu::kubectl
