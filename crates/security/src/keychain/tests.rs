use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use namely_testkit::{Need, name, skip};
use namely_wire::DataBuilder;
use tempfile::TempDir;

use super::files::FILE_OCTETS_MAX;
use super::*;
use crate::crypto::CryptoError;
use crate::signer::sign_data;
use crate::trust::TrustPolicy;
use crate::validity;
use crate::verifier::{Verdict, Verifier};

const NOW_NS: u64 = 1_800_000_000_000_000_000;

fn generate(key_chain: &KeyChain, identity: &str, passphrase: Option<&Passphrase>) -> KeyEntry {
    generate_of(key_chain, identity, KeyType::Ed25519, passphrase)
}

fn generate_of(
    key_chain: &KeyChain,
    identity: &str,
    key_type: KeyType,
    passphrase: Option<&Passphrase>,
) -> KeyEntry {
    let identity = name(identity);
    let new = NewKey {
        identity: identity.as_name(),
        key_type,
        validity: validity::days_from(NOW_NS, 30),
        version: 1,
        passphrase,
    };
    key_chain.generate(&new).unwrap()
}

fn on_disk() -> (TempDir, KeyChain) {
    let folder = TempDir::new().unwrap();
    let key_chain = KeyChain::open(folder.path().join("keys")).unwrap();
    (folder, key_chain)
}

/// The same key chain, read again from its files.
fn again(folder: &TempDir) -> KeyChain {
    KeyChain::open(folder.path().join("keys")).unwrap()
}

fn key_path(folder: &TempDir, key: &KeyEntry) -> PathBuf {
    folder.path().join("keys").join(key_folder(key.name.as_name()))
}

fn assert_signs(key_chain: &KeyChain, which: Option<&Name>, passphrase: Option<&Passphrase>) {
    let entry = key_chain.key(which.map(Name::as_name)).unwrap();
    let signer = key_chain.signer(which.map(Name::as_name), passphrase).unwrap();
    let data_name = Name::from(entry.identity()).join_generic("x");
    let data = sign_data(&DataBuilder::new(data_name.as_name()), b"c", &signer).unwrap();
    let mut policy = TrustPolicy::hierarchical();
    policy.add_anchor(entry.certificates[0].clone());
    assert!(matches!(Verifier::new(policy).verify(data, NOW_NS), Verdict::Verified(_)));
}

#[test]
fn every_key_type_signs_after_reloading() {
    for key_type in [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::Rsa] {
        let (folder, key_chain) = on_disk();
        let key = generate_of(&key_chain, "/p", key_type, None);
        assert_eq!(key.key_type(), Some(key_type));
        assert_signs(&key_chain, None, None);
        assert_signs(&again(&folder), Some(&key.name), None);
    }
}

#[test]
fn an_in_memory_key_chain_behaves_alike() {
    let (_folder, disk) = on_disk();
    for key_chain in [disk, KeyChain::in_memory()] {
        assert!(matches!(key_chain.signer(None, None), Err(KeyChainError::Empty)));
        let first = generate(&key_chain, "/p/a", None);
        let second = generate(&key_chain, "/p/a", None);
        let other = generate(&key_chain, "/p/b", None);
        assert_eq!(key_chain.list().unwrap().keys.len(), 3);
        assert_eq!(key_chain.key(None).unwrap().identity(), name("/p/a").as_name());
        for key in [&first, &second] {
            key_chain.set_default(key.name.as_name()).unwrap();
            let found = key_chain.key(Some(name("/p/a").as_name())).unwrap();
            assert_eq!(found.name, key.name);
            assert!(found.default_of_identity && found.of_default_identity);
        }
        key_chain.set_default(name("/p/b").as_name()).unwrap();
        assert_eq!(key_chain.key(None).unwrap().name, other.name);
        assert_signs(&key_chain, Some(&first.name), None);
        assert_signs(&key_chain, Some(&first.certificates[0].name().to_name()), None);

        key_chain.delete(name("/p/a").as_name()).unwrap();
        let left = key_chain.list().unwrap();
        assert_eq!(left.keys.len(), 1);
        assert!(left.problems.is_empty());
        let gone = key_chain.signer(Some(first.name.as_name()), None).unwrap_err();
        assert!(matches!(gone, KeyChainError::NotFound(missing) if missing == first.name));
    }
}

#[test]
fn an_issued_certificate_becomes_the_default() {
    let key_chain = KeyChain::in_memory();
    let root = generate(&key_chain, "/p", None);
    let site = generate(&key_chain, "/p/site", None);
    let issuer = key_chain.signer(Some(root.name.as_name()), None).unwrap();
    let request = &site.certificates[0];
    let valid = validity::days_from(NOW_NS, 1);
    let issued =
        Certificate::issue(request.key_name(), request.public_key(), &issuer, "root", valid, 2).unwrap();
    key_chain.add_certificate(&issued).unwrap();
    let signer = key_chain.signer(Some(site.name.as_name()), None).unwrap();
    assert_eq!(signer.key_name().map(Name::as_name), Some(issued.name()));
    key_chain.set_default(request.name()).unwrap();
    let signer = key_chain.signer(Some(site.name.as_name()), None).unwrap();
    assert_eq!(signer.key_name().map(Name::as_name), Some(request.name()));
    key_chain.delete(issued.name()).unwrap();
    assert_eq!(key_chain.key(Some(site.name.as_name())).unwrap().certificates, std::slice::from_ref(request));

    let foreign =
        Certificate::issue(site.name.as_name(), root.certificates[0].public_key(), &issuer, "x", valid, 3)
            .unwrap();
    assert!(matches!(key_chain.add_certificate(&foreign), Err(KeyChainError::OtherKey(_))));
}

#[test]
fn publishing_prefers_the_issuers_later_certificate() {
    let key_chain = KeyChain::in_memory();
    let root = generate(&key_chain, "/p", None);
    let site = generate(&key_chain, "/p/site", None);
    let issuer = key_chain.signer(Some(root.name.as_name()), None).unwrap();
    let request = &site.certificates[0];
    let issue = |version, not_after_s| {
        let valid = ValidityPeriod { not_before_s: 0, not_after_s };
        let key = request.public_key();
        Certificate::issue(request.key_name(), key, &issuer, "root", valid, version).unwrap()
    };
    let (long, longer, short) = (issue(2, 2_000), issue(3, 3_000), issue(4, 1_000));
    for certificate in [&long, &longer, &short] {
        key_chain.add_certificate(certificate).unwrap();
    }
    let first = |unix_s| {
        let entry = key_chain.key(Some(site.name.as_name())).unwrap();
        let certificates = entry.certificates_at(unix_s);
        assert_eq!(certificates.len(), 4);
        certificates[0].name().to_name()
    };
    assert_eq!(first(1_000).as_name(), short.name());
    assert_eq!(first(1_001).as_name(), longer.name());
    // The self-signed certificate is still valid, but it has another issuer.
    assert!(request.validity().contains(NOW_NS / 1_000_000_000));
    assert_eq!(first(NOW_NS / 1_000_000_000).as_name(), short.name());
    key_chain.set_default(request.name()).unwrap();
    assert_eq!(first(NOW_NS / 1_000_000_000).as_name(), request.name());
}

#[test]
fn only_the_owner_can_read_key_files() {
    let (folder, key_chain) = on_disk();
    generate(&key_chain, "/p", None);
    key_chain.trust(&key_chain.key(None).unwrap().certificates[0]).unwrap();
    let mut folders = vec![folder.path().join("keys")];
    let mut files = 0;
    while let Some(path) = folders.pop() {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700, "{path:?}");
        for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
                assert_eq!(mode, 0o600, "{:?}", entry.path());
                files += 1;
            }
        }
    }
    assert_eq!(files, 6);
}

#[test]
fn a_readable_private_key_is_refused() {
    let (folder, key_chain) = on_disk();
    let key = generate(&key_chain, "/p", None);
    let path = key_path(&folder, &key).join("private.pem");
    for mode in [0o640, 0o604, 0o620] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let message = key_chain.signer(None, None).unwrap_err().to_string();
        assert!(message.contains(&format!("chmod 600 {}", path.display())), "{message}");
        assert_eq!(key_chain.list().unwrap().problems.len(), 1);
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_signs(&key_chain, None, None);
}

#[test]
fn a_key_file_needs_its_passphrase() {
    let (folder, key_chain) = on_disk();
    let passphrase = Passphrase::new("correct horse");
    let key = generate(&key_chain, "/p", Some(&passphrase));
    assert!(key.encrypted);
    let pem = fs::read_to_string(key_path(&folder, &key).join("private.pem")).unwrap();
    assert!(pem.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n"), "{pem}");
    assert_signs(&again(&folder), None, Some(&passphrase));
    let error = |passphrase| match key_chain.signer(None, passphrase).unwrap_err() {
        KeyChainError::Key(of, e) => {
            assert_eq!(of, key.name);
            e
        }
        other => panic!("{other}"),
    };
    assert_eq!(error(None), CryptoError::PassphraseNeeded);
    assert_eq!(error(Some(&Passphrase::new("wrong"))), CryptoError::WrongPassphrase);
}

#[test]
fn a_damaged_key_file_is_named() {
    let (folder, key_chain) = on_disk();
    let good = generate(&key_chain, "/good", None);
    let damage: [(&str, &[u8]); 4] = [
        ("private.pem", b"junk"),
        ("name", b"/elsewhere/KEY/x"),
        ("name", b"\xff\xfe"),
        ("private.pem", b"\xff"),
    ];
    for (i, (file, octets)) in damage.into_iter().enumerate() {
        let bad = generate(&key_chain, &format!("/bad/{i}"), None);
        let path = key_path(&folder, &bad).join(file);
        fs::write(&path, octets).unwrap();
        let message = key_chain.signer(Some(bad.name.as_name()), None).unwrap_err().to_string();
        assert!(message.contains(&path.display().to_string()), "{message}");
        assert!(message.contains("is damaged"), "{message}");
        assert_signs(&key_chain, Some(&good.name), None);
        fs::remove_dir_all(key_path(&folder, &bad)).unwrap();
    }
    let bad = generate(&key_chain, "/bad", None);
    fs::remove_file(key_path(&folder, &bad).join("private.pem")).unwrap();
    assert!(key_chain.signer(Some(bad.name.as_name()), None).is_err());
    assert_signs(&key_chain, Some(&good.name), None);
}

#[test]
fn a_damaged_certificate_leaves_its_key_usable() {
    let (folder, key_chain) = on_disk();
    let key = generate(&key_chain, "/p", None);
    let path = key_path(&folder, &key);
    fs::write(path.join("0123.ndncert"), "junk").unwrap();
    fs::write(path.join("default-certificate"), "%%").unwrap();
    let listing = key_chain.list().unwrap();
    assert_eq!(listing.keys.len(), 1);
    let problems: Vec<String> = listing.problems.iter().map(ToString::to_string).collect();
    assert!(problems[0].contains("0123.ndncert"), "{problems:?}");
    assert!(problems[1].contains("default-certificate"), "{problems:?}");
    assert_signs(&key_chain, None, None);
}

#[test]
fn a_private_key_of_another_name_is_detected() {
    let (folder, key_chain) = on_disk();
    let (a, b) = (generate(&key_chain, "/a", None), generate(&key_chain, "/b", None));
    fs::copy(key_path(&folder, &a).join("private.pem"), key_path(&folder, &b).join("private.pem")).unwrap();
    let message = key_chain.signer(Some(b.name.as_name()), None).unwrap_err().to_string();
    assert!(message.contains("it is not the private key of /b/KEY/"), "{message}");
}

#[test]
fn leftovers_of_an_interrupted_write_are_skipped() {
    let (folder, key_chain) = on_disk();
    generate(&key_chain, "/p", None);
    let left = folder.path().join("keys/keys/.new-0123");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("private.pem"), "half").unwrap();
    fs::create_dir_all(folder.path().join("keys/anchors")).unwrap();
    fs::write(folder.path().join("keys/anchors/.new-4567"), "half").unwrap();
    let listing = again(&folder).list().unwrap();
    assert_eq!((listing.keys.len(), listing.problems.len()), (1, 0));
    let (anchors, problems) = key_chain.anchors().unwrap();
    assert_eq!((anchors.len(), problems.len()), (0, 0));
}

#[test]
fn another_key_chain_version_is_refused() {
    let (folder, key_chain) = on_disk();
    generate(&key_chain, "/p", None);
    fs::write(folder.path().join("keys/format"), "namely key chain 2\n").unwrap();
    let message = KeyChain::open(folder.path().join("keys")).unwrap_err().to_string();
    assert!(message.contains("namely key chain 2"), "{message}");
}

#[test]
fn anchors_persist_until_distrusted() {
    let (folder, key_chain) = on_disk();
    let anchor = generate(&key_chain, "/p", None).certificates[0].clone();
    key_chain.trust(&anchor).unwrap();
    key_chain.trust(&anchor).unwrap();
    assert_eq!(again(&folder).anchors().unwrap().0, std::slice::from_ref(&anchor));
    fs::write(folder.path().join("keys/anchors/bad.ndncert"), "junk").unwrap();
    let (anchors, problems) = key_chain.anchors().unwrap();
    assert_eq!(anchors, std::slice::from_ref(&anchor));
    assert!(problems[0].to_string().contains("anchors/bad.ndncert"));
    key_chain.distrust(anchor.name()).unwrap();
    assert!(key_chain.anchors().unwrap().0.is_empty());
    assert!(matches!(key_chain.distrust(anchor.name()), Err(KeyChainError::NotFound(_))));
}

#[test]
fn an_unwritable_key_file_is_named() {
    let folder = TempDir::new().unwrap();
    let blocker = folder.path().join("file");
    fs::write(&blocker, "").unwrap();
    let key_chain = KeyChain { files: Files::Folder(blocker.join("keys")) };
    let error = key_chain.trust(&generate(&KeyChain::in_memory(), "/p", None).certificates[0]).unwrap_err();
    assert!(error.to_string().contains(&blocker.display().to_string()), "{error}");
    let read_only = KeyChainError::Write("/k/format".into(), std::io::ErrorKind::ReadOnlyFilesystem.into());
    assert!(read_only.to_string().contains("can be read but not changed"), "{read_only}");
}

#[test]
fn an_oversized_key_file_is_named() {
    let (folder, key_chain) = on_disk();
    let key = generate(&key_chain, "/p", None);
    let path = key_path(&folder, &key).join("0123.ndncert");
    let mut text = key.certificates[0].to_base64();
    text.push_str(&" ".repeat(FILE_OCTETS_MAX as usize - text.len()));
    fs::write(&path, &text).unwrap();
    assert!(key_chain.list().unwrap().problems.is_empty());
    text.push(' ');
    fs::write(&path, &text).unwrap();
    let problems = key_chain.list().unwrap().problems;
    assert!(problems[0].to_string().contains("0123.ndncert"), "{problems:?}");
    assert_signs(&key_chain, None, None);
}

/// Runs the test `read_only_child` again in a mount namespace where the key chain's folder is
/// read-only. File modes would not restrict root as they restrict a user.
#[test]
fn a_read_only_key_chain_still_signs() {
    let (folder, key_chain) = on_disk();
    generate(&key_chain, "/p", None);
    let script = "mount --bind \"$NAMELY_TEST_KEYS\" \"$NAMELY_TEST_KEYS\" \
                  && mount -o remount,ro,bind \"$NAMELY_TEST_KEYS\" || exit 77; \
                  exec \"$0\" --ignored --exact keychain::tests::read_only_child";
    let output = std::process::Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("NAMELY_TEST_KEYS", folder.path().join("keys"))
        .output();
    match output {
        Ok(output) if output.status.code() == Some(77) => skip(Need::Mount, "mounting is not allowed here"),
        Ok(output) if output.status.code() == Some(1) => skip(Need::Mount, "namespaces are not allowed here"),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(e) => skip(Need::Mount, format_args!("unshare does not run here ({e})")),
    }
}

#[test]
#[ignore = "started by a_read_only_key_chain_still_signs"]
fn read_only_child() {
    let Some(folder) = std::env::var_os("NAMELY_TEST_KEYS") else { return };
    let key_chain = KeyChain::open(folder).unwrap();
    assert_signs(&key_chain, None, None);
    let certificate = key_chain.key(None).unwrap().certificates[0].clone();
    let errors = [
        key_chain.trust(&certificate).unwrap_err(),
        key_chain.set_default(name("/p").as_name()).unwrap_err(),
        key_chain.delete(name("/p").as_name()).unwrap_err(),
        key_chain.add_certificate(&certificate).unwrap_err(),
    ];
    for error in errors {
        let message = error.to_string();
        assert!(message.contains("can be read but not changed"), "{message}");
        assert!(message.contains("NAMELY_HOME"), "{message}");
    }
    assert_signs(&key_chain, None, None);
}

#[test]
fn the_first_variable_selects_the_folder() {
    let folder = |set: &[(&str, &str)]| {
        default_folder(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    };
    let all = [("NAMELY_HOME", "/n"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
    assert_eq!(folder(&all).unwrap(), Path::new("/n/keys"));
    assert_eq!(folder(&all[1..]).unwrap(), Path::new("/x/namely/keys"));
    assert_eq!(folder(&all[2..]).unwrap(), Path::new("/h/.local/share/namely/keys"));
    assert_eq!(folder(&[("NAMELY_HOME", ""), ("HOME", "/h")]).unwrap(), folder(&all[2..]).unwrap());
    assert!(folder(&[]).unwrap_err().to_string().contains("NAMELY_HOME"));
}

#[test]
fn keychain_types_print_no_secret() {
    let key_chain = KeyChain::in_memory();
    let key = generate(&key_chain, "/p", None);
    let private = key_chain.private_key(key.name.as_name(), None).unwrap();
    let secret = private.to_pkcs8().unwrap();
    let signer = key_chain.signer(None, None).unwrap();
    let printed = format!("{key_chain:?} {key:?} {private:?} {signer:?} {:?}", Passphrase::new("hunter2"));
    assert!(!printed.contains("hunter2") && !printed.contains("PRIVATE"), "{printed}");
    let tail = &secret[secret.len() - 8..];
    let as_hex: String = tail.iter().map(|b| format!("{b:02x}")).collect();
    let as_list = format!("{tail:?}");
    assert!(!printed.contains(&as_hex) && !printed.contains(as_list.trim_matches(['[', ']'])), "{printed}");
}

mod safe_bags {
    use super::*;

    fn fixture(file: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
        fs::read_to_string(path).unwrap()
    }

    #[test]
    fn foreign_safe_bags_are_imported() {
        for file in ["ndnsec-ecdsa.safebag", "ndnsec-rsa.safebag", "3des.safebag", "scrypt.safebag"] {
            let key_chain = KeyChain::in_memory();
            let bag = fixture(file);
            let wrong = key_chain.import_safe_bag(bag.as_bytes(), &Passphrase::new("hunter3"), None);
            assert!(matches!(wrong, Err(KeyChainError::Key(_, CryptoError::WrongPassphrase))), "{file}");
            assert!(key_chain.list().unwrap().keys.is_empty());
            let certificate =
                key_chain.import_safe_bag(bag.as_bytes(), &Passphrase::new("hunter2"), None).unwrap();
            assert!(certificate.is_self_signed());
            assert_signs(&key_chain, None, None);
            let again = key_chain.import_safe_bag(bag.as_bytes(), &Passphrase::new("hunter2"), None);
            assert_eq!(again.unwrap(), certificate, "{file}");
            assert_eq!(key_chain.list().unwrap().keys.len(), 1, "{file}");
        }
    }

    #[test]
    fn a_second_import_confirms_the_same_key() {
        let (store, bag) = (Passphrase::new("store"), Passphrase::new("bag"));
        let from = KeyChain::in_memory();
        let key = generate(&from, "/p", None);
        let exported = from.export_safe_bag(None, None, &bag).unwrap();
        let plain = KeyChain::in_memory();
        let encrypted = KeyChain::in_memory();
        for (to, passphrase) in [(&plain, None), (&encrypted, Some(&store))] {
            to.import_safe_bag(exported.as_bytes(), &bag, passphrase).unwrap();
            to.import_safe_bag(exported.as_bytes(), &bag, passphrase).unwrap();
            assert_signs(to, Some(&key.name), passphrase);
        }
        // The key is there, but not as the import would store it.
        for (to, passphrase) in [(&plain, Some(&store)), (&encrypted, None)] {
            let refused = to.import_safe_bag(exported.as_bytes(), &bag, passphrase);
            assert!(matches!(refused, Err(KeyChainError::Exists(name)) if name == key.name));
        }
        let other = encrypted.import_safe_bag(exported.as_bytes(), &bag, Some(&bag));
        assert!(matches!(other, Err(KeyChainError::Key(_, CryptoError::WrongPassphrase))));
    }

    #[test]
    fn a_safe_bag_adds_a_newer_certificate() {
        let bag = Passphrase::new("bag");
        let (from, to) = (KeyChain::in_memory(), KeyChain::in_memory());
        let key = generate(&from, "/p", None);
        let first = from.export_safe_bag(None, None, &bag).unwrap();
        to.import_safe_bag(first.as_bytes(), &bag, None).unwrap();
        let issuer = from.signer(None, None).unwrap();
        let request = &key.certificates[0];
        let valid = validity::days_from(NOW_NS, 60);
        let newer =
            Certificate::issue(request.key_name(), request.public_key(), &issuer, "root", valid, 2).unwrap();
        from.add_certificate(&newer).unwrap();
        let second = from.export_safe_bag(None, None, &bag).unwrap();
        to.import_safe_bag(second.as_bytes(), &bag, None).unwrap();
        let there = to.key(None).unwrap();
        assert_eq!(there.certificates, [newer, request.clone()]);
    }

    #[test]
    fn a_key_moves_to_another_key_chain() {
        let (store, bag) = (Passphrase::new("store"), Passphrase::new("bag"));
        for key_type in [KeyType::Ed25519, KeyType::EcdsaP256, KeyType::Rsa] {
            let (from, to) = (KeyChain::in_memory(), KeyChain::in_memory());
            let key = generate_of(&from, "/p", key_type, Some(&store));
            let exported = from.export_safe_bag(None, Some(&store), &bag).unwrap();
            to.import_safe_bag(exported.as_bytes(), &bag, None).unwrap();
            assert_signs(&to, Some(&key.name), None);
            let text = KeyChain::in_memory();
            text.import_safe_bag(exported.to_base64().as_bytes(), &bag, None).unwrap();
        }
    }

    #[test]
    fn an_invalid_safe_bag_is_refused() {
        let key_chain = KeyChain::in_memory();
        let bag = fixture("ndnsec-ecdsa.safebag");
        let raw = crate::text::from_base64(&bag).unwrap();
        for octets in [&b""[..], b"\xff", b"hello", &raw[..raw.len() - 1], &[128, 0], b"\x80"] {
            let outcome = key_chain.import_safe_bag(octets, &Passphrase::new("hunter2"), None);
            assert!(matches!(outcome, Err(KeyChainError::NotASafeBag)), "{octets:?}");
        }
    }
}

#[test]
fn a_key_folder_others_can_write_is_refused() {
    let (folder, key_chain) = on_disk();
    generate(&key_chain, "/a", None);
    let open = || KeyChain::open(folder.path().join("keys"));
    for (inside, mode) in [("", 0o720), ("keys", 0o702), ("anchors", 0o777)] {
        let path = folder.path().join("keys").join(inside);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let error = open().unwrap_err();
        assert!(matches!(error, KeyChainError::Writable(..)), "{error}");
        assert!(error.to_string().contains("chmod go-w"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        open().unwrap();
    }
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped in part: only root can give folders away");
    }
    std::os::unix::fs::chown(folder.path().join("keys"), Some(65_534), None).unwrap();
    let error = open().unwrap_err();
    assert!(matches!(error, KeyChainError::OtherOwner(_, 65_534)), "{error}");
}

#[test]
fn the_local_secret_is_private_and_created_once() {
    let (folder, key_chain) = on_disk();
    let secret = key_chain.local_secret().unwrap();
    assert_eq!(again(&folder).local_secret().unwrap(), secret);
    assert_ne!(on_disk().1.local_secret().unwrap(), secret);
    let path = folder.path().join("keys/local-secret");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(again(&folder).local_secret(), Err(KeyChainError::TooOpen(..))));
    fs::write(&path, "short").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(again(&folder).local_secret(), Err(KeyChainError::Corrupted(..))));
}

#[test]
fn concurrent_programs_share_one_local_secret() {
    for _ in 0..20 {
        let (folder, _) = on_disk();
        let start = std::sync::Barrier::new(4);
        let secrets: Vec<_> = std::thread::scope(|scope| {
            let program = || {
                let keys = again(&folder);
                start.wait();
                keys.local_secret().unwrap()
            };
            let programs: Vec<_> = (0..4).map(|_| scope.spawn(program)).collect();
            programs.into_iter().map(|program| program.join().unwrap()).collect()
        });
        assert!(secrets.iter().all(|secret| *secret == secrets[0]));
    }
}

/// Runs `work`, which must not block.
fn within_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    is_done.recv_timeout(namely_testkit::PATIENCE).expect("it waits")
}

fn pipe(path: &Path) {
    let _ = fs::remove_file(path);
    let (mode, fifo) = (rustix::fs::Mode::from_raw_mode(0o600), rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0).unwrap();
}

#[test]
fn pipes_in_a_key_folder_are_errors() {
    let (folder, key_chain) = on_disk();
    let key = generate(&key_chain, "/a", None);
    let secret = key_chain.local_secret().unwrap();
    let keys = folder.path().join("keys");
    let at = keys.clone();
    for file in ["format", "local-secret"] {
        let path = keys.join(file);
        let kept = fs::read(&path).unwrap();
        pipe(&path);
        let at = at.clone();
        let opened = within_time(move || KeyChain::open(at).and_then(|keys| keys.local_secret()));
        assert!(opened.unwrap_err().to_string().contains(file));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let at = keys.clone();
        let opened = within_time(move || KeyChain::open(at).and_then(|keys| keys.local_secret()));
        assert!(opened.unwrap_err().to_string().contains(file));
        fs::remove_file(&path).unwrap();
        fs::write(&path, kept).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert_eq!(again(&folder).local_secret().unwrap(), secret);
    assert_signs(&again(&folder), Some(&key.name), None);
}

#[test]
fn a_pipe_as_a_policy_is_an_error() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pipe");
    pipe(&path);
    let at = path.clone();
    assert!(within_time(move || crate::read_certificate(&at).is_err()));
    assert!(within_time(move || TrustPolicy::load(&path).is_err()));
}

#[test]
fn a_key_that_is_taken_back_leaves_nothing() {
    let (folder, key_chain) = on_disk();
    let first = generate(&key_chain, "/a", None);
    key_chain.take_back(&first).unwrap();
    assert!(again(&folder).list().unwrap().keys.is_empty());
    assert_eq!(again(&folder).default_identity().unwrap(), None);
    let kept = generate(&key_chain, "/b", None);
    key_chain.take_back(&generate(&key_chain, "/c", None)).unwrap();
    assert_eq!(again(&folder).key(None).unwrap().name, kept.name);
    // A key that cannot be read stays the default one.
    fs::write(key_path(&folder, &kept).join("name"), "damaged").unwrap();
    key_chain.take_back(&generate(&key_chain, "/c", None)).unwrap();
    assert_eq!(again(&folder).default_identity().unwrap(), Some(name("/b")));
    assert_eq!(key_chain.folder(), Some(&*folder.path().join("keys")));
    assert_eq!(KeyChain::in_memory().folder(), None);
}
