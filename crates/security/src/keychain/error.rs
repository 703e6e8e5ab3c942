//! What can go wrong with a key chain.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use namely_wire::Name;

use crate::certificate::CertificateError;
use crate::crypto::CryptoError;

/// Why a key chain could not do what it was asked.
#[derive(Debug)]
pub enum KeyChainError {
    /// Environment: no home folder is known.
    NoHome,
    /// Environment: a file cannot be read.
    Read(PathBuf, io::Error),
    /// Environment: a file cannot be written, as in a read-only key chain.
    Write(PathBuf, io::Error),
    /// Caller: others can read a private key; its mode is given.
    TooOpen(PathBuf, u32),
    /// Caller: the folder belongs to another user, whose number is given.
    OtherOwner(PathBuf, u32),
    /// Caller: others can write into the folder; its mode is given.
    Writable(PathBuf, u32),
    /// Environment: a file does not hold what it should, and why. Other files are not affected.
    Corrupted(PathBuf, String),
    /// Environment: a key chain of another version; what its `format` file says is given.
    UnknownFormat(PathBuf, String),
    /// Caller: there is no key yet.
    Empty,
    /// Caller: nothing in the key chain has this name.
    NotFound(Name),
    /// Caller: a key of this name is there already.
    Exists(Name),
    /// Caller: this certificate is not of the key of that name in the key chain.
    OtherKey(Name),
    /// Caller: this key cannot be used, for instance because its passphrase is wrong.
    Key(Name, CryptoError),
    /// Environment: no key could be made.
    Crypto(CryptoError),
    /// Caller: a certificate cannot be used or made.
    Certificate(CertificateError),
    /// Caller: octets that are no SafeBag.
    NotASafeBag,
}

impl fmt::Display for KeyChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyChainError::NoHome => {
                f.write_str("no place for keys: set NAMELY_HOME (or XDG_DATA_HOME, or HOME) to a folder")
            }
            KeyChainError::Read(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            KeyChainError::Write(path, e) => {
                write!(f, "cannot write {}: {e}", path.display())?;
                match e.kind() {
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => f.write_str(
                        "; the key chain can be read but not changed: use one of your own by setting NAMELY_HOME",
                    ),
                    _ => Ok(()),
                }
            }
            KeyChainError::TooOpen(path, mode) => {
                let path = path.display();
                write!(
                    f,
                    "others can read the private key {path} (mode {mode:04o}): run `chmod 600 {path}`, and make a \
                     new key if anybody may have read it"
                )
            }
            KeyChainError::OtherOwner(path, uid) => write!(
                f,
                "the key chain {} belongs to uid {uid}, who may change its keys and anchors: use one of your own by \
                 setting NAMELY_HOME",
                path.display()
            ),
            KeyChainError::Writable(path, mode) => {
                let path = path.display();
                write!(
                    f,
                    "others can write into the key chain {path} (mode {mode:04o}): run `chmod go-w {path}`, and look \
                     at its keys and anchors"
                )
            }
            KeyChainError::Corrupted(path, why) => {
                write!(f, "{} is damaged: {why}; restore it from a backup, or remove it", path.display())
            }
            KeyChainError::UnknownFormat(path, found) => {
                write!(f, "{} says \"{found}\", which this program does not know: update it", path.display())
            }
            KeyChainError::Empty => {
                f.write_str("the key chain has no key: make one with `namely key new NAME`")
            }
            KeyChainError::NotFound(name) => {
                write!(f, "the key chain has no {name}: `namely key list` shows what it has")
            }
            KeyChainError::Exists(name) => write!(f, "the key chain has a key {name} already"),
            KeyChainError::OtherKey(name) => {
                write!(f, "the certificate is not for the key {name} that is in the key chain")
            }
            KeyChainError::Key(name, e) => write!(f, "key {name}: {e}"),
            KeyChainError::Crypto(e) => e.fmt(f),
            KeyChainError::Certificate(e) => e.fmt(f),
            KeyChainError::NotASafeBag => {
                f.write_str("not a SafeBag (as `ndnsec export` writes), raw or base64")
            }
        }
    }
}

impl std::error::Error for KeyChainError {}

impl From<CryptoError> for KeyChainError {
    fn from(e: CryptoError) -> Self {
        KeyChainError::Crypto(e)
    }
}

impl From<CertificateError> for KeyChainError {
    fn from(e: CertificateError) -> Self {
        KeyChainError::Certificate(e)
    }
}
