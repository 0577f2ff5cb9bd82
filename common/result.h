// A value, or why there is none.
//
// Errors carry one sentence a user can act on: it names the field, the value found and what was
// expected. "Does not fit" is not an error; it is an answer (extender/placement/reason.h).
#pragma once

#include <boost/system/result.hpp>
#include <string>
#include <utility>

namespace mgpu {

struct Error {
  std::string message;
};

template <class T>
using Result = boost::system::result<T, Error>;

inline Error error(std::string message) {
  return Error{std::move(message)};
}

[[noreturn]] void throw_exception_from_error(const Error& error,
                                             const boost::source_location& where);

}  // namespace mgpu
