//! Certificates of TLS servers, made by openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Need, succeeds_or_skip};

/// The files of a certificate for a server, which signs itself, in PEM.
#[derive(Clone, Debug)]
pub struct SelfSigned {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key, of mode 0600.
    pub key: PathBuf,
}

impl SelfSigned {
    /// Makes `cert.pem` and `key.pem` in `folder` for the server `host`, or replaces them. Without
    /// openssl it skips the test and returns `None`.
    ///
    /// # Panics
    /// As [`skip`](crate::skip) does.
    #[track_caller]
    pub fn make(folder: &Path, host: &str) -> Option<Self> {
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        command.args(["-days", "3650", "-subj", &format!("/CN={host}")]);
        command.args(["-addext", &format!("subjectAltName=DNS:{host}")]);
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        succeeds_or_skip(Need::Openssl, &mut command).then_some(SelfSigned { certificate, key })
    }
}
