#include "common/base/result.h"

#include "common/base/check.h"

namespace mgpu {

// Reached only when value() is called on an error, which is a mistake of the caller.
void throw_exception_from_error(const Error& error, const boost::source_location&) {
  check_failed("result has a value", error.message.c_str(), std::source_location::current());
}

}  // namespace mgpu
