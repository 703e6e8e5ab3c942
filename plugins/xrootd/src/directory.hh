// An open directory: what its listing said when it was opened.
#pragma once

#include <string>
#include <vector>

#include <XrdOss/XrdOss.hh>

#include "storage.hh"

namespace namely {

class Directory : public XrdOssDF {
  public:
    Directory(Storage &storage, const char *tident) : XrdOssDF(tident, DF_isDir), storage_(storage) {}

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

    void look_ahead(size_t from);

    Storage &storage_;
    bool is_open_ = false;
    std::string path_;
    std::vector<Entry> entries_;
    size_t next_ = 0;
    size_t looked_ = 0; // entries before this one were asked for
    struct stat *stat_ = nullptr;
};

} // namespace namely
