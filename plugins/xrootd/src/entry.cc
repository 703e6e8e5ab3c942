// The functions that the server calls after it has loaded the library: `ofs.osslib`, `ofs.ckslib`.

#include <exception>

#include <XrdCks/XrdCks.hh>
#include <XrdOss/XrdOss.hh>
#include <XrdSys/XrdSysError.hh>
#include <XrdVersion.hh>

#include "checksums.hh"
#include "settings.hh"
#include "storage.hh"

// The server compares these with its own version, and refuses a library for another version.
XrdVERSIONINFO(XrdOssGetStorageSystem2, namely);
XrdVERSIONINFO(XrdCksInit, namely);

extern "C" {

// Returns the storage. If it returns null, the log has the reason and the server does not start.
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
