#include "test/plugin/share/share_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mgpu::share {

ShareFolder::ShareFolder() : path_("/dev/shm/mgpu-share-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) std::abort();
}

ShareFolder::~ShareFolder() {
  std::filesystem::remove_all(path_);
}

void ShareFolder::limit(std::uint64_t bytes) const {
  PageValues values{.limit_bytes = bytes, .context_bytes = 0};
  std::ranges::copy(kCard, values.uuid);
  ASSERT_EQ(make_pages(path_.c_str(), values), nullptr);
}

void ShareFolder::overwrite(const std::string& file, std::int64_t offset,
                            const std::string& bytes) const {
  std::fstream stream(path_ + "/" + file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(offset);
  stream << bytes;
}

pid_t start_child(const std::function<int()>& program) {
  const pid_t child = fork();
  if (child == 0) _exit(program());
  return child;
}

int end_of(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

pid_t start_until(const std::function<void(const std::function<void()>& reached)>& program) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = start_child([&] {
    program([&] {
      if (write(ends[1], "r", 1) != 1) _exit(1);
      while (true) pause();
    });
    return 1;
  });
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 1) << "the child has ended";
  close(ends[0]);
  return child;
}

}  // namespace mgpu::share
