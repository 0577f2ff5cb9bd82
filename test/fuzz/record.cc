// Feeds a record of the device plugin to its reader.
//
// Properties: a record that is written again is read as equal; it has cards if and only if it has
// an owner, and its id is that of its devices; shares and indices are within the limits.
#include "common/contract/limits.h"
#include "plugin/state/record_json.h"
#include "test/fuzz/fuzz.h"

namespace mgpu::fuzz {

MGPU_FUZZER(record) {
  const auto record = plugin::parse_record(input);
  if (!record) return expect_sentence(record.error().message);
  expect(plugin::valid(record->id), "an id is valid");
  expect(record->id.str().starts_with(record->devices.hash()), "an id is of the devices");
  expect(record->bound() != record->cards.empty(), "an owner has cards");
  for (const plugin::CardGrant& card : record->cards) {
    expect(card.share.core <= kWholeCard, "a share has up to 100 percent");
    expect(card.share.memory <= MiB(kCardMemoryMiBMax), "a share has up to 16 TiB");
    expect(card.index.value() >= 0 && card.index.value() <= kCardIndexMax, "an index is in range");
  }
  const auto again = plugin::parse_record(plugin::record_json(*record));
  expect(again && *again == *record, "a record is read as it is written");
}

}  // namespace mgpu::fuzz
