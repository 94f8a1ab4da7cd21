//! Certificates for servers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::server::User;

/// A certificate with its key, in PEM. It is its own authority: clients trust the certificate itself.
#[derive(Clone)]
pub struct Certificate {
    pub pem: String,
    pub key: String,
}

impl Certificate {
    /// A certificate for a host name or address.
    pub fn of(host: &str) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([host.to_owned()])?;
        Ok(Self { pem: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }

    /// Writes `cert.pem` and `key.pem` in a folder. Returns their paths.
    pub fn write(&self, folder: &Path) -> Result<[PathBuf; 2]> {
        let [certificate, key] = [folder.join("cert.pem"), folder.join("key.pem")];
        std::fs::write(&certificate, &self.pem)?;
        std::fs::write(&key, &self.key)?;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600))?;
        Ok([certificate, key])
    }

    /// Writes the files into the data folder of a database, which must be able to read them.
    pub(crate) fn install(&self, user: Option<User>, data: &Path) -> Result<()> {
        self.write(data)?.iter().try_for_each(|file| User::give(user, file))
    }
}
