// The files of the web page, which are compiled in (page/).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/http/message.h"

namespace mgpu::extender {

struct StaticFile {
  std::string_view name;  // "index.html"
  std::string_view text;
};

// All files, of assets.cc.in.
std::span<const StaticFile> web_files();

// Returns the type by the extension of the name.
std::string_view content_type_of(std::string_view name);
// Adds headers that exclude other sites, script in the page, eval, frames and types that a browser
// guesses.
http::Response with_web_headers(http::Response response);
// Returns 200 with an ETag, or 304 if If-None-Match has it.
http::Response file_response(const StaticFile& file, const http::Request& request);

}  // namespace mgpu::extender
