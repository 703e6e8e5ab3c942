// An open directory, with the entries that its listing had when it was opened.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <XrdOss/XrdOss.hh>

#include "listing.hh"
#include "storage.hh"

namespace namely {

class Directory : public XrdOssDF {
  public:
    Directory(Storage &storage, const char *tident)
        : XrdOssDF(tident, DF_isDir), storage_(storage), client_(client_of(tident)) {}

    int Opendir(const char *path, XrdOucEnv &env) override;
    int Readdir(char *buff, int blen) override;
    int StatRet(struct stat *buff) override;
    int Close(long long *size = nullptr) override;

  private:
    struct Entry {
        std::string name;
        Told told;
        int found; // 0, or -errno
    };

    int open(const char *path);
    int read(int object, const char *path);
    void look_ahead();

    Storage &storage_;
    const std::string client_;
    bool is_open_ = false;
    std::string path_;
    // The listing stays in memory, and charged, until the directory is closed.
    std::optional<Taken> charged_;
    Listing listing_;
    // The next entries, with their properties if the server requested those.
    std::vector<Entry> entries_;
    size_t next_ = 0;
    struct stat *stat_ = nullptr;
};

} // namespace namely
