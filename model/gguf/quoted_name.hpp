#pragma once

#include <string>
#include <string_view>

namespace kvern {

/// A name out of a file, fit for a message: in single quotes, printable ASCII only (other bytes as \xNN), at most 100
/// bytes of it.
std::string quoted_name(std::string_view name);

}  // namespace kvern
