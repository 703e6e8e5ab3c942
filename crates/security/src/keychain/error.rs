//! Errors of a key chain.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use namely_wire::Name;

use crate::certificate::CertificateError;
use crate::crypto::CryptoError;

/// An error of a key chain.
#[derive(Debug, thiserror::Error)]
pub enum KeyChainError {
    /// Environment: no home folder is known.
    #[error("no place for keys: set NAMELY_HOME (or XDG_DATA_HOME, or HOME) to a folder")]
    NoHome,
    /// Environment: a file cannot be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// Environment: a file cannot be written, as in a read-only key chain.
    #[error("cannot write {path}: {1}{advice}", path = .0.display(), advice = advice(.1))]
    Write(PathBuf, #[source] io::Error),
    /// Caller: others can read a private key; its mode is given.
    #[error(
        "others can read the private key {path} (mode {1:04o}): run `chmod 600 {path}`, and make \
         a new key if anybody may have read it",
        path = .0.display()
    )]
    TooOpen(PathBuf, u32),
    /// Caller: the folder belongs to another user, given by its number.
    #[error(
        "the key chain {path} belongs to uid {1}, who may change its keys and anchors: use one of \
         your own by setting NAMELY_HOME",
        path = .0.display()
    )]
    OtherOwner(PathBuf, u32),
    /// Caller: others can write into the folder; its mode is given.
    #[error(
        "others can write into the key chain {path} (mode {1:04o}): run `chmod go-w {path}`, and \
         look at its keys and anchors",
        path = .0.display()
    )]
    Writable(PathBuf, u32),
    /// Environment: a file has invalid content, for the given reason. Other files are not affected.
    #[error("{path} is damaged: {1}; restore it from a backup, or remove it", path = .0.display())]
    Corrupted(PathBuf, String),
    /// Environment: a key chain of another version, with the content of its `format` file.
    #[error("{path} has the format \"{1}\", unknown to this program: update it", path = .0.display())]
    UnknownFormat(PathBuf, String),
    /// Caller: there is no key yet.
    #[error("the key chain has no key: make one with `namely key new NAME`")]
    Empty,
    /// Caller: no identity, key or certificate in the key chain has this name.
    #[error("the key chain has no {0}: `namely key list` lists its keys")]
    NotFound(Name),
    /// Caller: a key of this name exists already.
    #[error("the key chain has a key {0} already")]
    Exists(Name),
    /// Caller: this certificate does not certify the key of that name in the key chain.
    #[error("the certificate is not for the key {0} that is in the key chain")]
    OtherKey(Name),
    /// Caller: this key cannot be used, for instance because its passphrase is wrong.
    #[error("key {0}: {1}")]
    Key(Name, #[source] CryptoError),
    /// Environment: no key could be made.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// Caller: a certificate cannot be used or made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// Caller: the octets are not a SafeBag.
    #[error("not a SafeBag (as `ndnsec export` writes), raw or base64")]
    NotASafeBag,
}

/// Advice about a key chain that cannot be written.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; the key chain can be read but not changed: use one of your own by setting NAMELY_HOME"
        }
        _ => "",
    }
}
