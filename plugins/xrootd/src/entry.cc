// What the server calls after it loaded the library: `ofs.osslib` and `ofs.ckslib`.

#include <exception>

#include <XrdCks/XrdCks.hh>
#include <XrdOss/XrdOss.hh>
#include <XrdSys/XrdSysError.hh>
#include <XrdVersion.hh>

#include "checksums.hh"
#include "settings.hh"
#include "storage.hh"

// The server compares these with its own version, and refuses what was built for another one.
XrdVERSIONINFO(XrdOssGetStorageSystem2, namely);
XrdVERSIONINFO(XrdCksInit, namely);

extern "C" {

// The storage, or null: then the log says why, and the server does not start.
XrdOss *XrdOssGetStorageSystem2(XrdOss *, XrdSysLogger *logger, const char *, const char *words, XrdOucEnv *) {
    XrdSysError log(logger, "namely_");
    try {
        namely::Settings settings;
        std::string wrong = namely::read_settings(words, settings);
        if (wrong.empty()) {
            auto storage = std::make_unique<namely::Storage>(logger, settings);
            wrong = storage->bind();
            if (wrong.empty()) {
                log.Say("++++++ namely: files below ", settings.prefix.c_str(), " are read by name");
                namely::the_storage = storage.get();
                return storage.release();
            }
        }
        log.Emsg("Config", "namely:", wrong.c_str());
    } catch (const std::exception &error) {
        log.Emsg("Config", "namely:", error.what());
    }
    return nullptr;
}

XrdCks *XrdCksInit(XrdSysError *log, const char *, const char *words) {
    if (words != nullptr && *words != '\0') {
        log->Emsg("Config", "namely: ofs.ckslib takes no parameters, and has", words);
        return nullptr;
    }
    return new namely::Checksums(log);
}
}
