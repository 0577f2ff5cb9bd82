// A value, or why there is none.
//
// Errors carry one sentence a user can act on: it names the field, the value found and what was
// expected. "Does not fit" is not an error; it is an answer (extender/placement/reason.h).
#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <utility>

namespace mgpu {

// Made by error() only: nothing converts to it, so that a Result<std::string> has one reading.
class Error {
 public:
  std::string message;

  Error() = default;  // boost::system::result wants one; it says nothing

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

[[noreturn]] void throw_exception_from_error(const Error& error,
                                             const boost::source_location& where);

}  // namespace mgpu
