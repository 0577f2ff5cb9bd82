// Feeds a page of a list to Watcher and to the reader of its objects.
//
// Properties: an answer that is not a complete page brings no event, and another request follows;
// the objects of a page are JSON objects, between the begin of a relist and its end; an object that
// cannot be read is named in one sentence.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/kube/objects/object_json.h"
#include "common/kube/watch/reflector.h"
#include "common/kube/watch/watcher.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {
namespace {

using nlohmann::json;
using Action = kube::WatchAction::Kind;
using Event = kube::WatchEvent::Kind;

// The reader of a page does not check what it skips, so the second one may find that it is not
// JSON.
void expect_objects(const kube::WatchStep& step, std::string_view input) {
  const json page = json::parse(input, nullptr, false);
  if (page.is_discarded()) return;
  json objects = json::array();
  for (const kube::WatchEvent& event : step.events) {
    if (event.kind != Event::kRelistObject) continue;
    objects.push_back(json::parse(event.object, nullptr, false));
  }
  expect(objects == page["items"] || (objects.empty() && page["items"].is_null()),
         "a page has the objects that a second reader finds");
}

void expect_page(const kube::WatchStep& step) {
  expect(step.problem.empty(), "a page has events or a problem");
  expect(step.events.front().kind == Event::kRelistBegin, "a page begins a relist");
  const bool ends = step.events.back().kind == Event::kRelistEnd;
  expect(step.action.kind == (ends ? Action::kWatch : Action::kList),
         "the last page is followed by a watch, and another one by a list");
  for (std::size_t i = 1; i + (ends ? 1 : 0) < step.events.size(); ++i) {
    const kube::WatchEvent& event = step.events[i];
    expect(event.kind == Event::kRelistObject, "a page has objects");
    expect(event.object.starts_with('{'), "an object has its text");
    const auto pod = kube::read_pod(event.object);
    if (!pod) expect_sentence(kube::unreadable_object(event, pod.error()));
  }
}

}  // namespace

MGPU_FUZZER(list_page) {
  kube::Watcher watcher(kube::all_pods());
  const auto start = watcher.start();
  expect(start.action.kind == Action::kList, "the first action is a list");
  const auto step = watcher.on_list(
      {.status = 200, .body = std::string(input), .retry_after = {}, .failure = {}}, {}, 0.5);
  if (!step.events.empty()) {
    expect_page(step);
    return expect_objects(step, input);
  }
  expect_sentence(step.problem);
  expect(step.action.kind == Action::kWait, "a page that cannot be read is requested again");
  expect(!watcher.synced(), "nothing is synced without a page");
}

}  // namespace mgpu::fuzz
