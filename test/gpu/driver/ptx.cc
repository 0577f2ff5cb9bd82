#include "test/gpu/driver/ptx.h"

#include <cctype>
#include <cstdlib>
#include <sstream>

namespace mgpu::fake_gpu {
namespace {

// The bytes of ".b8", ".u32" or ".f64"; 0 if it is no type.
std::uint64_t bytes_of_type(const std::string& word) {
  if (word.size() < 3 || word[0] != '.') return 0;
  if (std::string("bsuf").find(word[1]) == std::string::npos) return 0;
  char* end = nullptr;
  const std::uint64_t bits = std::strtoull(word.c_str() + 2, &end, 10);
  return *end == '\0' ? bits / 8 : 0;
}

// "g[100]" or "g[2][3]": the name and the product.
PtxVariable read_variable(const std::string& word, std::uint64_t bytes) {
  const std::size_t bracket = word.find('[');
  PtxVariable variable{word.substr(0, bracket), bytes};
  for (std::size_t at = bracket; at != std::string::npos; at = word.find('[', at + 1)) {
    variable.bytes *= std::strtoull(word.c_str() + at + 1, nullptr, 10);
  }
  return variable;
}

// Where a kernel of this name begins; npos if there is none.
std::size_t find_entry(const std::string& text, const std::string& name) {
  const std::string entry = ".entry " + name;
  for (std::size_t at = 0; (at = text.find(entry, at)) != std::string::npos; ++at) {
    const char next = text.c_str()[at + entry.size()];
    if (std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_') return at;
  }
  return std::string::npos;
}

}  // namespace

std::vector<PtxVariable> ptx_variables(const std::string& text, const std::string& space) {
  std::vector<PtxVariable> variables;
  std::istringstream statements(text);
  for (std::string statement; std::getline(statements, statement, ';');) {
    // A statement of a kernel is after its brace; an instruction such as ld.global is one word.
    std::istringstream words(statement);
    bool is_there = false;
    bool is_extern = false;
    std::uint64_t bytes = 0;
    for (std::string word; words >> word;) {
      is_extern = is_extern || word == ".extern";
      if (word == space) is_there = true;
      if (!is_there || is_extern) continue;
      if (bytes != 0) {
        variables.push_back(read_variable(word, bytes));
        break;
      }
      bytes = bytes_of_type(word);
    }
  }
  return variables;
}

bool has_entry(const std::string& text, const std::string& name) {
  return find_entry(text, name) != std::string::npos;
}

std::uint64_t ptx_local_bytes(const std::string& text, const std::string& name) {
  const std::size_t at = find_entry(text, name);
  if (at == std::string::npos) return 0;
  const std::size_t end = text.find(".entry", at + 1);
  std::uint64_t bytes = 0;
  for (const PtxVariable& local : ptx_variables(text.substr(at, end - at), ".local")) {
    bytes += local.bytes;
  }
  return bytes;
}

}  // namespace mgpu::fake_gpu
