#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvern::bench {

/// Reads `data` once, front to back, with the widest loads of this machine; returns something that depends on all of
/// it.
std::uint64_t read_all(std::span<const std::byte> data);

/// Runs `rounds` rounds of independent int8 multiply-adds in registers; returns how many operations (a multiply and an
/// addition are two) that were, or 0 where the machine has no such instruction.
std::int64_t int8_peak(std::int64_t rounds);

/// The same of float multiply-adds.
std::int64_t float_peak(std::int64_t rounds);

}  // namespace kvern::bench
