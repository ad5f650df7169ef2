#pragma once

#include <string_view>

namespace sluice::graph::file_format {

inline constexpr std::string_view k_format = "sluice graph";
/// What stands before the digits of the checksum, but for the version's number.
inline constexpr std::string_view k_head = "{\n \"format\": \"sluice graph\",\n \"version\": ";
inline constexpr std::string_view k_checksum = ",\n \"checksum\": \"";
/// Of a device: the one that the program runs on.
inline constexpr std::string_view k_here = "here";

inline constexpr const char* k_grad_reqs[] = {"null", "write", "add"};

}  // namespace sluice::graph::file_format
