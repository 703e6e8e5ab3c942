//! The page's certificate and its private key, in files that the operator renews.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use namely_host::disk::{OpenError, read_named, read_named_secret};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};
use zeroize::Zeroizing;

/// Octets of a file of a dashboard's certificate or key.
///
/// # Limit
/// The certificate is not used.
/// - Tests: `oversized_certificate_files_are_refused`
pub const CERTIFICATE_OCTETS_MAX: u64 = 64 * 1024;

/// Checks in a row that find the same fault before it is reported. A renewal replaces one file
/// after the other, and a check between the two finds a certificate with another key.
const FAULTY_CHECKS: u32 = 2;

/// The files of a certificate, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, then those of its issuers.
    pub certificate: PathBuf,
    /// The private key, without a passphrase. No other user may have a permission for the file.
    pub key: PathBuf,
}

/// The reason for which a certificate is not used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// Environment: a file cannot be read; or caller: others own it, or may open the key.
    #[error("cannot read {}: {}", .0.display(), .1)]
    Read(PathBuf, #[source] OpenError),
    /// Caller: the file has no certificate.
    #[error("{} has no certificate in PEM", .0.display())]
    NoCertificate(PathBuf),
    /// Caller: the file has no private key, or one with a passphrase.
    #[error("{} has no private key in PEM without a passphrase", .0.display())]
    NoKey(PathBuf),
    /// Caller: the key is of another certificate.
    #[error("the key in {} is not that of the certificate in {}", .key.display(), .certificate.display())]
    OtherKey {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// Caller: the certificate or its key is malformed, or of an unsupported kind.
    #[error("the certificate in {} cannot be used: {}", .0.display(), .1)]
    Unusable(PathBuf, #[source] Error),
}

/// A certificate as users compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// The SHA-256 of the certificate, in hexadecimal digits.
    pub sha256: String,
    /// Its host names, without wildcards.
    pub names: Vec<String>,
}

/// The content of the files.
struct FileOctets {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl CertificateFiles {
    fn read(&self) -> Result<FileOctets, CertificateError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| CertificateError::Read(path, error)
        };
        let key = read_named_secret(&self.key, CERTIFICATE_OCTETS_MAX)
            .map(Zeroizing::new)
            .map_err(failed(&self.key))?;
        let certificate =
            read_named(&self.certificate, CERTIFICATE_OCTETS_MAX).map_err(failed(&self.certificate))?;
        Ok(FileOctets { certificate, key })
    }

    fn parse(
        &self,
        octets: &FileOctets,
        provider: &CryptoProvider,
    ) -> Result<CertifiedKey, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&octets.certificate).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| CertificateError::NoCertificate(self.certificate.clone()))?;
        let key = PrivateKeyDer::from_pem_slice(&octets.key)
            .map_err(|_| CertificateError::NoKey(self.key.clone()))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                CertificateError::OtherKey { certificate: self.certificate.clone(), key: self.key.clone() }
            }
            error => CertificateError::Unusable(self.certificate.clone(), error),
        })
    }
}

impl FileOctets {
    fn hash(&self) -> blake3::Hash {
        let parts = [blake3::hash(&self.certificate), blake3::hash(&self.key)];
        blake3::hash(parts.map(|part| *part.as_bytes()).as_flattened())
    }
}

/// The certificate in use, for the handshakes. It stays in use until the files have a valid one.
#[derive(Debug)]
pub(crate) struct CertificateStore {
    files: CertificateFiles,
    provider: Arc<CryptoProvider>,
    used: RwLock<UsedCertificate>,
    /// The fault that the last check found, and the number of checks in a row that found it.
    fault: Mutex<Option<(String, u32)>>,
}

#[derive(Debug)]
struct UsedCertificate {
    /// The hash of both files.
    hash: blake3::Hash,
    key: Arc<CertifiedKey>,
    summary: CertificateSummary,
}

impl CertificateStore {
    pub(crate) fn open(
        files: CertificateFiles,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, CertificateError> {
        let octets = files.read()?;
        let used = RwLock::new(use_files(&files, &octets, &provider)?);
        Ok(CertificateStore { files, provider, used, fault: Mutex::new(None) })
    }

    pub(crate) fn summary(&self) -> CertificateSummary {
        self.used.read().unwrap_or_else(PoisonError::into_inner).summary.clone()
    }

    /// Reads the files again. Returns the certificate if it is another one. A fault is returned
    /// once, after it was found by [`FAULTY_CHECKS`] checks.
    pub(crate) fn renew(&self) -> Result<Option<CertificateSummary>, CertificateError> {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let error = match self.read_changed() {
            Ok(changed) => {
                *fault = None;
                return Ok(changed);
            }
            Err(error) => error,
        };
        let text = error.to_string();
        let checks = match fault.take() {
            Some((last, checks)) if last == text => checks.saturating_add(1),
            _ => 1,
        };
        *fault = Some((text, checks));
        if checks == FAULTY_CHECKS { Err(error) } else { Ok(None) }
    }

    fn read_changed(&self) -> Result<Option<CertificateSummary>, CertificateError> {
        let octets = self.files.read()?;
        if self.used.read().unwrap_or_else(PoisonError::into_inner).hash == octets.hash() {
            return Ok(None);
        }
        let used = use_files(&self.files, &octets, &self.provider)?;
        let summary = used.summary.clone();
        *self.used.write().unwrap_or_else(PoisonError::into_inner) = used;
        Ok(Some(summary))
    }
}

impl ResolvesServerCert for CertificateStore {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.used.read().unwrap_or_else(PoisonError::into_inner).key.clone())
    }
}

fn use_files(
    files: &CertificateFiles,
    octets: &FileOctets,
    provider: &CryptoProvider,
) -> Result<UsedCertificate, CertificateError> {
    let key = files.parse(octets, provider)?;
    let unusable = |error| CertificateError::Unusable(files.certificate.clone(), error);
    let certificate = key.end_entity_cert().map_err(unusable)?;
    let sha256 = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
    let sha256 = sha256.as_ref().iter().map(|octet| format!("{octet:02x}")).collect();
    let parsed = webpki::EndEntityCert::try_from(certificate);
    let parsed = parsed.map_err(|_| unusable(rustls::CertificateError::BadEncoding.into()))?;
    // A wildcard would permit names that the operator does not know.
    let names = parsed.valid_dns_names().filter(|name| !name.contains('*')).map(str::to_owned).collect();
    Ok(UsedCertificate {
        hash: octets.hash(),
        key: Arc::new(key),
        summary: CertificateSummary { sha256, names },
    })
}
