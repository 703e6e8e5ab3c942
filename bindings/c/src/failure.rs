//! The error of a call: an errno of docs/sockets.md, and a sentence for a person.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString};

use namely_wire::text::Plain;

/// Octets of the sentence that `icn_lasterror` returns.
///
/// # Limit
/// A longer sentence is cut.
/// - Tests: `failure_sentences_are_escaped_and_bounded`
const SENTENCE_OCTETS_MAX: usize = 1000;

/// The reason for which a call failed, as a number of errno.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

/// An error: the number, and a sentence.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) errno: i32,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn new(errno: i32, sentence: impl Into<String>) -> Self {
        Failure { errno, sentence: sentence.into() }
    }

    /// A bug of the library: the call failed, the process continues.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let said = panic.downcast_ref::<&str>().copied();
        let said =
            said.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no more is known");
        Failure::new(libc::EIO, format!("a bug in libnamely, please report it: {said}"))
    }
}

impl From<Errno> for Failure {
    fn from(Errno(errno): Errno) -> Self {
        Failure::new(errno, meaning(errno).to_string_lossy())
    }
}

macro_rules! failures {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                let failure = namely_socket::Failure::from(error);
                Failure::new(failure.errno(), failure.to_string())
            }
        })*
    };
}

failures!(
    namely_socket::BindError,
    namely_socket::CallError,
    namely_socket::FetchError,
    namely_socket::OptionError,
    namely_socket::PublishError,
    namely_socket::PushError,
    namely_socket::RecvError,
    namely_socket::SendError,
);

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Stores the sentence for this thread's `icn_lasterror`. It is escaped to one line, because
/// programs print it unchanged, and because it contains names and texts of others.
pub(crate) fn remember(failure: &Failure) {
    let mut octets = String::from(Plain::new(&failure.sentence)).into_bytes();
    octets.truncate(SENTENCE_OCTETS_MAX);
    // A thread that is ending has no stored sentence any more, and no reader for it.
    let _ = LAST.try_with(|last| *last.borrow_mut() = CString::new(octets).unwrap_or_default());
}

/// Calls `with` with this thread's last sentence.
pub(crate) fn last<R>(with: impl FnOnce(&CStr) -> R) -> R {
    LAST.with(|last| with(&last.borrow()))
}

/// The meaning of an errno on a socket of names (docs/sockets.md, Errors). Any other errno has a
/// text that says so.
pub(crate) fn meaning(errno: i32) -> &'static CStr {
    match errno {
        0 => c"no error",
        libc::ECONNREFUSED => c"no router answers there",
        libc::ENOTCONN => c"the socket is not bound yet",
        libc::EADDRINUSE => c"the prefix overlaps a bound one, or another producer has the store",
        libc::EACCES => c"the router refuses the prefix",
        libc::EADDRNOTAVAIL => c"the name is outside the socket's prefix",
        libc::ENAMETOOLONG => c"the prefix or name is too long",
        libc::EMSGSIZE => c"the datagram does not fit a packet",
        libc::EFBIG => c"the object is larger than the option object_octets_max",
        libc::ENETUNREACH => c"no route to the name, here or behind a next hop",
        libc::ENOENT => c"the producer denies that it exists",
        libc::EISDIR => c"the name is that of a directory",
        libc::ETIMEDOUT => c"no answer in time",
        libc::ENODATA => c"a segment was lost; the next call goes on behind it",
        libc::ENOKEY => c"a certificate is missing",
        libc::EKEYREJECTED => c"the key is not trusted for the name",
        libc::EKEYEXPIRED => c"the certificate has expired",
        libc::EKEYREVOKED => c"the certificate was revoked",
        libc::EBADMSG => c"a segment or manifest does not fit its signature or digest",
        libc::EAGAIN => c"the call would wait",
        libc::EINTR => c"a signal came",
        libc::ECANCELED => c"the socket was closed meanwhile",
        libc::ENOBUFS => c"a queue is full",
        libc::ENOSPC => c"the disk or the store is full",
        libc::EMFILE => c"too many sockets or descriptors",
        libc::EBADFD => c"the process forked after the socket was made: only the parent may use it",
        libc::EBADF => c"there is no such socket, or it was closed",
        libc::EINVAL => c"a value that cannot be",
        libc::EFAULT => c"a null pointer where a value must be",
        libc::EAFNOSUPPORT => c"the family is not AF_ICN",
        libc::EPROTOTYPE => c"the protocol is not of this type of socket",
        libc::EPROTONOSUPPORT => c"there is no such type or protocol",
        libc::ENOPROTOOPT => c"there is no such option",
        libc::EOPNOTSUPP => c"the socket's role or protocol has no such call",
        libc::EISCONN => c"the socket is bound already",
        libc::EIO => c"a bug in libnamely, or a failure of the system",
        _ => c"no error of a socket of names",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_sentences_are_escaped_and_bounded() {
        remember(&Failure::new(libc::EIO, format!("a\0b\x1b\n{}", "x".repeat(2 * SENTENCE_OCTETS_MAX))));
        last(|sentence| {
            assert!(sentence.to_bytes().starts_with(b"a\\u{0}b\\u{1b}\\nx"), "{sentence:?}");
            assert_eq!(sentence.to_bytes().len(), SENTENCE_OCTETS_MAX);
        });
    }

    #[test]
    fn a_panic_becomes_an_error_with_its_message() {
        let panic = std::panic::catch_unwind(|| panic!("lost {}", 7)).unwrap_err();
        let failure = Failure::panicked(panic.as_ref());
        assert_eq!(failure.errno, libc::EIO);
        assert!(failure.sentence.ends_with("lost 7"), "{}", failure.sentence);
    }
}
