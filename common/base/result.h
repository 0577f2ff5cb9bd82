// A value or an error.
//
// An error is one sentence for the user: it names the field, the value that was found and what was
// expected. An expected outcome, such as that a pod does not fit, is a value and not an error.
#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace mgpu {

// Only error() makes one. Nothing converts to it, so that Result<std::string> is not ambiguous.
class Error {
 public:
  std::string message;

  Error() = default;  // boost::system::result needs it

 private:
  struct Key {};
  Error(Key, std::string sentence) : message(std::move(sentence)) {}
  friend Error error(std::string message);
};

inline Error error(std::string message) {
  return Error(Error::Key{}, std::move(message));
}

template <class T>
using Result = boost::system::result<T, Error>;

// Called by value() on an error, which is a bug of the caller.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location&) {
  check_failed("result has a value", error.message.c_str(), std::source_location::current());
}

}  // namespace mgpu
