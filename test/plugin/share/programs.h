// Runs programs, and reads the symbols of libraries.
#pragma once

#include <string>
#include <vector>

namespace mgpu::share {

struct Output {
  int status;
  std::string text;
};

// Runs a command of the shell, with its standard error in the text.
Output run(const std::string& command);

std::vector<std::string> lines_of_symbols(const std::string& library);

// Fails where a library needs more than a C library of 2012.
void expect_old_c_library(const std::string& library);

}  // namespace mgpu::share
