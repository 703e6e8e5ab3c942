//! The error numbers that all bindings share (docs/sockets.md, Errors).

use rustix::io::Errno;

macro_rules! errnos {
    ($($name:ident = $text:literal),* $(,)?) => {
        $(pub(crate) const $name: i32 = Errno::$name.raw_os_error();)*

        /// Returns the symbol of an errno that sockets return, such as `"ETIMEDOUT"`; none for
        /// others.
        pub fn errno_name(errno: i32) -> Option<&'static str> {
            match errno {
                $(self::$name => Some($text),)*
                _ => None,
            }
        }
    };
}

errnos! {
    ACCESS = "EACCES", ADDRINUSE = "EADDRINUSE", ADDRNOTAVAIL = "EADDRNOTAVAIL", AGAIN = "EAGAIN", BADFD = "EBADFD",
    BADMSG = "EBADMSG", CANCELED = "ECANCELED", CONNREFUSED = "ECONNREFUSED", EXIST = "EEXIST", FBIG = "EFBIG", INTR = "EINTR",
    INVAL = "EINVAL", IO = "EIO", ISDIR = "EISDIR", KEYEXPIRED = "EKEYEXPIRED", KEYREJECTED = "EKEYREJECTED", KEYREVOKED = "EKEYREVOKED",
    MFILE = "EMFILE", MSGSIZE = "EMSGSIZE", NAMETOOLONG = "ENAMETOOLONG", NETUNREACH = "ENETUNREACH",
    NODATA = "ENODATA",
    NOBUFS = "ENOBUFS", NOENT = "ENOENT", NOKEY = "ENOKEY", NOPROTOOPT = "ENOPROTOOPT", NOSPC = "ENOSPC",
    NOTCONN = "ENOTCONN", TIMEDOUT = "ETIMEDOUT",
}
