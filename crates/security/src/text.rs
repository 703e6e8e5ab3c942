//! Certificate files: raw, base64 (as `ndnsec cert-dump` writes), and PEM (as NDNd writes).

use std::io;
use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding};
use namely_host::disk::read_named;
use namely_wire::types::DATA;

use crate::certificate::{Certificate, CertificateError};

/// Octets of a certificate file.
///
/// # Limit
/// The file is refused.
/// - Value: 64 KiB
/// - Tests: `an_oversized_certificate_file_is_refused`
pub(crate) const CERTIFICATE_FILE_OCTETS_MAX: u64 = 64 << 10;

const PEM_LABEL: &str = "NDN CERT";
const LINE_CHARACTERS: usize = 64;

impl Certificate {
    /// Decodes the certificate in `octets`: raw, base64 or PEM.
    ///
    /// # Errors
    /// [`CertificateError::NotText`] if `octets` has none of these forms; otherwise those of
    /// [`Certificate::parse`].
    pub fn from_file_octets(octets: &[u8]) -> Result<Self, CertificateError> {
        Self::parse(&data_from_file_octets(octets).ok_or(CertificateError::NotText)?)
    }

    /// Returns base64 in lines of 64 characters, as `ndnsec cert-dump` prints it.
    pub fn to_base64(&self) -> String {
        to_base64(self.wire())
    }

    /// Returns PEM with the label `NDN CERT`.
    pub fn to_pem(&self) -> String {
        format!("-----BEGIN {PEM_LABEL}-----\n{}-----END {PEM_LABEL}-----\n", self.to_base64())
    }
}

/// Reads the certificate file at `path`, in any of the three forms.
///
/// # Errors
/// [`CertificateFileError`]: the file cannot be read, or contains no certificate.
pub fn read_certificate(path: &Path) -> Result<Certificate, CertificateFileError> {
    let octets = read_named(path, CERTIFICATE_FILE_OCTETS_MAX)
        .map_err(|e| CertificateFileError::Read(path.to_owned(), e.into()))?;
    Certificate::from_file_octets(&octets).map_err(|e| CertificateFileError::Content(path.to_owned(), e))
}

/// Base64 in lines of 64 characters.
pub(crate) fn to_base64(octets: &[u8]) -> String {
    let text = Base64::encode_string(octets);
    let mut lines = String::with_capacity(text.len() + text.len() / LINE_CHARACTERS + 1);
    for (i, character) in text.chars().enumerate() {
        if i > 0 && i % LINE_CHARACTERS == 0 {
            lines.push('\n');
        }
        lines.push(character);
    }
    lines.push('\n');
    lines
}

/// Decodes base64 and ignores white space in it.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let packed: String = text.split_ascii_whitespace().collect();
    Base64::decode_vec(&packed).ok().filter(|octets| !octets.is_empty())
}

/// Returns the octets of the Data in a raw, base64 or PEM file. A raw file begins with the TYPE of
/// Data, an octet with which neither base64 nor PEM begins.
fn data_from_file_octets(octets: &[u8]) -> Option<Vec<u8>> {
    if octets.first().copied().map(u32::from) == Some(DATA) {
        return Some(octets.to_vec());
    }
    let text = std::str::from_utf8(octets).ok()?;
    match text.split_once("-----BEGIN NDN CERT-----") {
        Some((_, rest)) => from_base64(&without_headers(rest.split_once("-----END NDN CERT-----")?.0)),
        None => from_base64(text),
    }
}

/// Removes the `Name: ...` headers that NDNd writes above the base64.
fn without_headers(body: &str) -> String {
    body.lines().filter(|line| !line.contains(':')).collect::<Vec<_>>().join("\n")
}

/// The reason why a certificate file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFileError {
    /// Environment: the file cannot be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// Caller: the content of the file is not a certificate.
    #[error("{path}: {1}", path = .0.display())]
    Content(PathBuf, #[source] CertificateError),
}
