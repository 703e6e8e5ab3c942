// Checksums of whole files. A sum comes from the catalogue, or is computed by reading the file:
// once for each version, and for all clients that request it meanwhile.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>

#include <XrdCks/XrdCks.hh>
#include <XrdSys/XrdSysError.hh>

#include "once.hh"

namespace namely {

class File;
class Storage;

class Checksums : public XrdCks {
  public:
    explicit Checksums(XrdSysError *log) : XrdCks(log) {}

    int Calc(const char *path, XrdCksData &sum, int set = 1) override;
    int Get(const char *path, XrdCksData &sum) override;
    int Ver(const char *path, XrdCksData &sum) override;
    int Del(const char *, XrdCksData &) override;
    int Set(const char *, XrdCksData &, int = 0) override;
    int Config(const char *, char *) override { return 1; }
    int Init(const char *, const char *) override { return 1; }
    char *List(const char *path, char *buff, int blen, char separator = ' ') override;
    const char *Name(int number = 0) override;
    int Size(const char *name = nullptr) override;

  private:
    using Values = std::array<uint32_t, 2>;
    struct Known {
        std::string path;
        uint64_t version;
        Values values;
    };

    static int index_of(const char *name);
    int calculate(const char *path, XrdCksData &sum);
    int compute(Storage &storage, File &file, const char *path, Values &values);
    static int ask(Storage &storage, const char *path, const std::string &client);
    bool known(const char *path, uint64_t version, Known &found);
    void keep(const Known &computed);
    static void fill(XrdCksData &sum, int index, const Known &known, int64_t changed_ns);

    Once<Values> computing_;
    std::mutex mutex_;
    std::list<Known> known_; // the most recently used first
};

} // namespace namely
