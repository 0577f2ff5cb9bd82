// Open files that one process sends to another, as programs do with exported memory.
#pragma once

#include <sys/socket.h>

#include <cstring>

namespace mgpu::fake_gpu {

// A message of one byte with a file beside it.
class FileMessage {
 public:
  FileMessage() {
    message_.msg_iov = &data_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_;
    message_.msg_controllen = sizeof control_;
  }
  FileMessage(const FileMessage&) = delete;
  FileMessage& operator=(const FileMessage&) = delete;

  bool send(int to, int file) {
    cmsghdr* const header = CMSG_FIRSTHDR(&message_);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(header), &file, sizeof file);
    return ::sendmsg(to, &message_, 0) == 1;
  }
  int receive(int from) {
    int file = -1;
    if (::recvmsg(from, &message_, 0) != 1 || message_.msg_controllen == 0) return -1;
    std::memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message_)), sizeof file);
    return file;
  }

 private:
  char byte_ = '.';
  iovec data_{&byte_, 1};
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
  msghdr message_{};
};

inline bool send_file(int to, int file) {
  return FileMessage().send(to, file);
}

// -1 if there is no file.
inline int receive_file(int from) {
  return FileMessage().receive(from);
}

}  // namespace mgpu::fake_gpu
