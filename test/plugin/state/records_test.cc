#include "plugin/state/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "common/base/files.h"
#include "plugin/state/record_json.h"
#include "test/support/scratch_folder.h"

namespace mgpu::plugin {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Record allocated(const std::vector<std::string>& ids, const char* nonce = "aa") {
  Record record;
  record.devices = DeviceSet::of(ids).value();
  record.id = allocation_id(record.devices, nonce);
  return record;
}

Record bound(const std::vector<std::string>& ids, const char* nonce = "aa") {
  Record record = allocated(ids, nonce);
  record.owner = Owner{{"a", "x"}, PodUid("u"), "app", ContainerKind::kSidecar, 3};
  record.cards = {{CardIndex(0), CardUuid("GPU-a"), {Percent(30), MiB(1024)}},
                  {CardIndex(7), CardUuid("GPU-b"), {Percent(30), MiB(1024)}}};
  return record;
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(RecordJson, ReadsBackItsOwnText) {
  for (const Record& record : {allocated({"c0"}), bound({"c0", "c1"})}) {
    EXPECT_EQ(parse_record(record_json(record)).value(), record);
  }
}

TEST(RecordJson, RefusesInvalidRecords) {
  const std::string good = record_json(bound({"c0", "c1"}));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const struct {
    std::string text;
    const char* sentence;
  } cases[] = {{"", ""},
               {"[]", "must be an object"},
               {with("\"version\": 1", "\"version\": 2"), "\"version\" must be 1"},
               {with("\"c1\"", "\"c2\""), "the id must be of the devices"},
               {with("sidecar", "other"), "must be init, sidecar or app"},
               {with("\"core\": 30", "\"core\": 101"), "must be 0 to 100"},
               {with("\"memoryMiB\": 1024", "\"memoryMiB\": -1"), "out of range"},
               {with("\"index\": 7", "\"index\": 5000"), "out of range"},
               {with("GPU-a", ""), "must have a uuid"},
               {with("\"index\": 0", "\"index\": 7"), "must be ascending by index, none twice"},
               {with("\"index\": 0", "\"index\": 8"), "must be ascending by index, none twice"},
               {with("\"cards\"", "\"other\""), "must be there together"}};
  for (const auto& c : cases) {
    const auto parsed = parse_record(c.text);
    ASSERT_FALSE(parsed) << c.text;
    EXPECT_THAT(parsed.error().message, HasSubstr(c.sentence));
  }
}

Record some_record(std::mt19937& random) {
  const auto number = [&](unsigned below) { return static_cast<std::int32_t>(random() % below); };
  std::vector<std::string> ids(static_cast<std::size_t>(1 + number(40)));
  for (std::string& id : ids) id = core_device_id(number(6400));
  Record record = allocated(ids, number(2) == 0 ? "n0nce" : "0123456789abcdef");
  if (number(3) == 0) return record;
  record.owner = Owner{{"name-space", "pod \"of\" \\ \u00e9"},
                       PodUid("uid-" + std::to_string(number(9))),
                       "container",
                       static_cast<ContainerKind>(number(3)),
                       number(64)};
  for (std::int32_t index = number(4); index < 16 || record.cards.empty(); index += 1 + number(9)) {
    record.cards.push_back({CardIndex(index),
                            CardUuid("GPU-" + std::to_string(index)),
                            {Percent(number(101)), MiB(number(1 << 24))}});
  }
  return record;
}

TEST(RecordJson, ReadsBackRandomRecords) {
  std::mt19937 random(7);
  std::vector<Record> all;
  for (int round = 0; round < 300; ++round) {
    all.push_back(some_record(random));
    const auto read = parse_record(record_json(all.back()));
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(*read, all.back());
    ASSERT_EQ(record_json(*read), record_json(all.back()));
  }
}

// A damaged record is either valid or refused, and never ends the process.
TEST(RecordJson, RefusesDamagedText) {
  const std::string good = record_json(bound({"c0", "c1"}));
  std::mt19937 random(20261121);
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    text[random() % text.size()] = static_cast<char>(random() % 256);
    if (random() % 4 == 0) text.resize(random() % text.size());
    const auto parsed = parse_record(text);
    if (parsed) {
      EXPECT_TRUE(valid(parsed->id));
      EXPECT_TRUE(parsed->id.str().starts_with(parsed->devices.hash()));
      EXPECT_EQ(std::ranges::adjacent_find(parsed->cards, std::ranges::greater_equal{},
                                           &CardGrant::index),
                parsed->cards.end());
      EXPECT_EQ(parse_record(record_json(*parsed)).value(), *parsed);
    }
  }
}

TEST(Records, OutliveTheProcess) {
  const test::ScratchFolder folder;
  {
    Records records(folder.path("allocations"));
    ASSERT_THAT(records.load().value(), IsEmpty());
    for (const Record& record : {allocated({"c0"}), bound({"c1"})}) {
      ASSERT_TRUE(records.keep(record));
      ASSERT_TRUE(records.save(record, Durability::kMachine));
    }
  }
  Records again(folder.path("allocations"));
  EXPECT_THAT(again.load().value(), IsEmpty());
  EXPECT_EQ(again.all().size(), 2U);
  EXPECT_THAT(again.bound(), ElementsAre(bound({"c1"})));
  EXPECT_EQ(again.find(allocated({"c0"}).id), allocated({"c0"}));
}

// The limit of the size of files stands for a full disk.
TEST(Records, AreNotWrittenAgain) {
  const test::ScratchFolder folder;
  const Records records(folder.path());
  const Record record = bound({"c1"});
  ASSERT_TRUE(records.save(record, Durability::kMachine));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  EXPECT_TRUE(records.save(record, Durability::kMachine));
  EXPECT_FALSE(records.save(bound({"c2"}), Durability::kMachine));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
}

TEST(Records, AreFoundByTheirDevices) {
  const test::ScratchFolder folder;
  Records records(folder.path());
  for (const Record& record :
       {allocated({"c0"}, "aa"), allocated({"c0"}, "bb"), allocated({"c1"})}) {
    ASSERT_TRUE(records.keep(record));
  }
  EXPECT_EQ(records.with(DeviceSet::of(std::vector<std::string>{"c0"}).value()).size(), 2U);
}

TEST(Records, RenameInvalidFilesAndReadTheOthers) {
  const test::ScratchFolder folder;
  const Record good = bound({"c1"});
  write_text(folder.path(good.id.str() + ".json"), record_json(good));
  write_text(folder.path("0123456789abcdef-aa.json"), "{\"version\": 1, ");
  write_text(folder.path("0123456789abcdef-bb.json"), record_json(good));
  write_text(folder.path("0123456789abcdef-cc.json.part"), "half");
  Records records(folder.path());
  EXPECT_EQ(records.load().value().size(), 2U);
  EXPECT_THAT(records.all(), ElementsAre(good));
  EXPECT_TRUE(std::filesystem::exists(folder.path("0123456789abcdef-aa.json.broken")));
  EXPECT_THAT(records.load().value(), IsEmpty()) << "reported once";
}

TEST(Records, AreRemovedFromDiskToo) {
  const test::ScratchFolder folder;
  Records records(folder.path());
  const Record record = bound({"c1"});
  ASSERT_TRUE(records.keep(record));
  ASSERT_TRUE(records.save(record, Durability::kProcess));
  records.remove(record.id);
  records.remove(record.id);
  EXPECT_THAT(records.all(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder.path(record.id.str() + ".json")));
}

TEST(Records, FailToLoadFromAnUnusableFolder) {
  const test::ScratchFolder folder;
  write_text(folder.path("file"), "");
  EXPECT_THAT(Records(folder.path("file")).load().error().message, HasSubstr("cannot use"));
}

TEST(DurableFiles, KeepTheOldFileIfTheNewOneCannotBeWritten) {
  const test::ScratchFolder folder;
  const std::string name(250, 'x');  // too long with what is added to it
  write_text(folder.path(name), "old");
  EXPECT_THAT(write_file(folder.path(name), "new", Durability::kMachine).error().message,
              HasSubstr("cannot create " + folder.path(name)));
  EXPECT_EQ(read_file(folder.path(name), 100).value(), "old");
}

TEST(DurableFiles, HaveAnyNumberOfWriters) {
  const test::ScratchFolder folder;
  const auto write = [&](char letter) {
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(write_file(folder.path("x"), std::string(100'000, letter), Durability::kProcess));
    }
  };
  std::thread other([&] { write('a'); });
  std::thread reader([&] {
    for (int i = 0; i < 200; ++i) {
      const auto text = read_file(folder.path("x"), 100'000);
      if (!text) continue;  // not yet
      EXPECT_EQ(text->size(), 100'000U);
      EXPECT_EQ(text->find_first_not_of(text->front()), text->npos) << "half a file";
    }
  });
  write('b');
  other.join();
  reader.join();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(DurableFiles, TheRemainsOfAKilledProcessAreRemoved) {
  const test::ScratchFolder folder;
  const auto age = [&](const char* name, std::chrono::minutes minutes) {
    write_text(folder.path(name), "half");
    std::filesystem::last_write_time(folder.path(name),
                                     std::filesystem::file_time_type::clock::now() - minutes);
  };
  age("a.json.Xy12Zz.part", std::chrono::minutes(10));
  age("a.json.part", std::chrono::minutes(10));
  age("a.json", std::chrono::minutes(10));
  age("b.json.Xy12Zz.part", std::chrono::minutes(10));
  age("a.json.Xy12Za.part", std::chrono::minutes(0));
  remove_unfinished(folder.path("a.json"));
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    left.insert(entry.path().filename());
  }
  EXPECT_THAT(left, ElementsAre("a.json", "a.json.Xy12Za.part", "b.json.Xy12Zz.part"));
}

}  // namespace
}  // namespace mgpu::plugin
