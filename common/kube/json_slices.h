// Finds the text of members and elements in JSON without building anything: lists and watch lines
// are cut into objects this way, and only the objects are read in full. Pure; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "common/result.h"

namespace mgpu::kube {

struct JsonMember {
  std::string_view name;   // between the quotes, escapes as written
  std::string_view value;  // without white space around it
};

// The members of the object that `text` is, in their order. Errors: its own structure is not JSON,
// or a value has no end; anything but white space after the object. What is inside of values, how
// deep it is nested, and how numbers and escapes are spelled, is left to who reads them. Views
// point into `text`; linear in its size, without recursion.
Result<std::vector<JsonMember>> json_members(std::string_view text);

// The same for the elements of an array.
Result<std::vector<std::string_view>> json_elements(std::string_view text);

// The value of the last member called `name`, as Go reads it; empty where there is none.
std::string_view json_member(const std::vector<JsonMember>& members, std::string_view name);

}  // namespace mgpu::kube
