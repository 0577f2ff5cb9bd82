#include "extender/verbs/named_cards.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "extender/placement/card_model.h"

namespace mgpu::extender {
namespace {

// A message of kube-scheduler has at most 1,024 bytes.
constexpr std::size_t kModelsShown = 8;

using Models = std::set<std::string, ModelLess>;

// Most cards have the model of the card before.
void add_model(Models& models, const std::string& model, std::string_view& last) {
  if (model.empty() || model == last) return;
  last = *models.insert(model).first;
}

// "a, b and c"
std::string listed(std::vector<std::string> words) {
  const std::string last = words.empty() ? "" : words.back();
  if (words.size() < 2) return last;
  words.pop_back();
  return fmt::format("{} and {}", fmt::join(words, ", "), last);
}

std::string text_of(const Models& models) {
  std::vector<std::string> shown(models.begin(), models.end());
  if (shown.size() > kModelsShown) {
    shown.resize(kModelsShown);
    shown.push_back(fmt::format("{} more", models.size() - kModelsShown));
  }
  return listed(std::move(shown));
}

// The names of one annotation for which no card was found yet.
struct NameList {
  const std::string& annotation;
  std::vector<std::string> left;

  template <class Has>
  void remove_if(Has has) {
    if (!left.empty()) std::erase_if(left, has);
  }
  std::string text() const {
    std::vector<std::string> quoted;
    std::ranges::transform(left, std::back_inserter(quoted), in_quotes);
    return fmt::format("annotation {} names {}", annotation, listed(std::move(quoted)));
  }
};

}  // namespace

std::string models_of(const LedgerReader& ledger) {
  Models models;
  std::string_view last;
  ledger.visit_in_steps([&](const Node& node) {
    for (const Card& card : node.cards) add_model(models, card.model, last);
  });
  return text_of(models);
}

std::string unmatched_names(const LedgerReader& ledger, const CardSelector& selector,
                            const Contract& contract) {
  if (selector.empty()) return {};
  NameList models[] = {{contract.gpu_model, selector.models},
                       {contract.gpu_model_exclude, selector.models_excluded}};
  NameList uuids[] = {{contract.gpu_uuid, selector.uuids},
                      {contract.gpu_uuid_exclude, selector.uuids_excluded}};
  Models all;
  std::string_view last;
  ledger.visit_in_steps([&](const Node& node) {
    for (const Card& card : node.cards) {
      add_model(all, card.model, last);
      for (NameList& list : uuids) {
        list.remove_if([&](const std::string& uuid) { return uuid == card.uuid.str(); });
      }
    }
  });
  for (NameList& list : models) {
    list.remove_if([&](const std::string& name) {
      return std::ranges::any_of(all, [&](const auto& model) { return names_model(name, model); });
    });
  }
  std::vector<std::string> lists;
  for (const NameList& list : {models[0], models[1], uuids[0], uuids[1]}) {
    if (!list.left.empty()) lists.push_back(list.text());
  }
  if (lists.empty() || all.empty()) return {};
  return fmt::format("{}, and no card of the cluster has such a name; their models are {}",
                     fmt::join(lists, "; "), text_of(all));
}

}  // namespace mgpu::extender
