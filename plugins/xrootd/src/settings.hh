// The settings in the words after `ofs.osslib /…/libXrdOssNamely.so` (docs/xrootd.md).
#pragma once

#include <cstddef>
#include <string>

namespace namely {

struct Settings {
    std::string router; // empty: the usual places
    std::string trust_router_of;
    std::string prefix = "/";
    std::string trust;
    std::string keychain;
    std::string congestion;
    std::string catalogue; // empty: every sum is computed
    size_t memory_octets = size_t(512) << 20;
    size_t read_ahead_octets = size_t(8) << 20;
    // Octets that are read in a day to compute the sums of one client.
    size_t sum_octets = size_t(256) << 30;
    long timeout_ms = 30'000;
    // Age of cached metadata that opens a file whose source does not answer.
    long stale_s = 86'400;
    // Time between two lines with figures in the log; 0: none.
    long report_s = 300;
};

// Reads `words` into `settings`. Returns the first mistake in them, or an empty text.
std::string read_settings(const char *words, Settings &settings);

constexpr size_t memory_octets_min = size_t(16) << 20;
constexpr size_t memory_octets_max = size_t(1) << 40;
constexpr size_t read_ahead_octets_min = size_t(64) << 10;
constexpr size_t read_ahead_octets_max = size_t(1) << 30;
constexpr size_t sum_octets_max = size_t(1) << 50;
constexpr long timeout_s_max = 3600;
constexpr long stale_s_max = 366L * 86'400;
constexpr long report_s_max = 86'400;

} // namespace namely
