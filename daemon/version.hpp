#pragma once

namespace kvern {

/// Of the project, from CMakeLists.txt.
inline constexpr const char* version = KVERN_VERSION;

}  // namespace kvern
