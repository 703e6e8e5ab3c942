#include "settings.hh"

#include <cstdint>
#include <sstream>

namespace namely {

namespace {

// A number with a unit of k, m, g or t (powers of 1024), or without.
bool octets_of(const std::string &text, size_t &octets) {
    size_t digits = 0;
    uint64_t number = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
        if (number > UINT64_MAX / 10 - 1)
            return false;
        number = number * 10 + uint64_t(text[digits++] - '0');
    }
    const std::string unit = text.substr(digits);
    const std::string units = "kmgt";
    unsigned shift = 0;
    if (unit.size() == 1 && units.find(unit[0]) != std::string::npos)
        shift = 10 * unsigned(units.find(unit[0]) + 1);
    else if (!unit.empty())
        return false;
    if (digits == 0 || number > (UINT64_MAX >> shift))
        return false;
    octets = size_t(number << shift);
    return true;
}

std::string octets_between(const std::string &value, size_t min, size_t max, size_t &octets) {
    size_t read = 0;
    if (octets_of(value, read) && read >= min && read <= max) {
        octets = read;
        return {};
    }
    std::ostringstream wrong;
    wrong << "takes octets from " << min << " to " << max << ", such as 512m";
    return wrong.str();
}

std::string seconds_between(const std::string &value, long min, long max, long &seconds) {
    size_t read = 0;
    if (octets_of(value, read) && value.back() >= '0' && value.back() <= '9' && read >= size_t(min) &&
        read <= size_t(max)) {
        seconds = long(read);
        return {};
    }
    return "takes seconds from " + std::to_string(min) + " to " + std::to_string(max);
}

std::string set_timeout(const std::string &value, Settings &settings) {
    long seconds = settings.timeout_ms / 1000;
    const std::string wrong = seconds_between(value, 1, timeout_s_max, seconds);
    settings.timeout_ms = seconds * 1000;
    return wrong;
}

std::string set(const std::string &key, const std::string &value, Settings &settings) {
    if (value.empty())
        return "has no value";
    if (key == "memory")
        return octets_between(value, memory_octets_min, memory_octets_max, settings.memory_octets);
    if (key == "readahead")
        return octets_between(value, read_ahead_octets_min, read_ahead_octets_max, settings.read_ahead_octets);
    if (key == "sums")
        return octets_between(value, 0, sum_octets_max, settings.sum_octets);
    if (key == "timeout")
        return set_timeout(value, settings);
    if (key == "stale")
        return seconds_between(value, 0, stale_s_max, settings.stale_s);
    if (key == "report")
        return seconds_between(value, 0, report_s_max, settings.report_s);
    std::string *text = key == "router"            ? &settings.router
                        : key == "trust_router_of" ? &settings.trust_router_of
                        : key == "prefix"          ? &settings.prefix
                        : key == "trust"           ? &settings.trust
                        : key == "keychain"        ? &settings.keychain
                        : key == "congestion"      ? &settings.congestion
                        : key == "catalogue"       ? &settings.catalogue
                                                   : nullptr;
    if (text == nullptr)
        return "is no parameter (there are router, trust_router_of, prefix, trust, keychain, congestion, memory, "
               "readahead, catalogue, sums, stale, report and timeout)";
    *text = value;
    return {};
}

} // namespace

std::string read_settings(const char *words, Settings &settings) {
    std::istringstream rest(words == nullptr ? "" : words);
    std::string word;
    while (rest >> word) {
        const size_t is = word.find('=');
        if (is == std::string::npos)
            return "'" + word + "' is no parameter: they are written name=value";
        const std::string key = word.substr(0, is);
        const std::string wrong = set(key, word.substr(is + 1), settings);
        if (!wrong.empty())
            return "'" + key + "' " + wrong;
    }
    // A file that reads ahead has as many octets again under way.
    if (2 * settings.read_ahead_octets > settings.memory_octets / 2)
        settings.read_ahead_octets = settings.memory_octets / 4;
    return {};
}

} // namespace namely
