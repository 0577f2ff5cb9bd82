// The picture as an SVG image; deploy/demo.svg is the one of the embedded example.
#pragma once

#include <string>

#include "bench/sim/picture.h"

namespace mgpu::sim {

// Equal pictures give equal bytes. Text that is too long for its column is shortened.
std::string draw_svg(const Picture& picture);

}  // namespace mgpu::sim
