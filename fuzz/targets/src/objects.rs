//! Metadata, directory listings, certificates, exported keys.

use namely_wire::rdr::{Metadata, encode_listing, listing};
use namely_wire::{
    CertificateView, NameRef, SafeBagView, SignatureInfo, build_certificate, encode_safe_bag, encode_time,
    key_name_of_locator, parse_time,
};

use crate::inside::inside;

/// A metadata packet's Content, and a directory listing.
pub(crate) fn metadata(octets: &[u8]) {
    if let Ok(metadata) = Metadata::decode(octets) {
        assert!(!(metadata.is_directory() && metadata.is_regular_file()));
        assert_eq!(Metadata::decode(&metadata.to_vec()), Ok(metadata));
    }
    let entries: Result<Vec<_>, _> = listing(octets).collect();
    if let Ok(entries) = entries {
        for entry in &entries {
            assert!(!matches!(entry.name, b"" | b"." | b".."));
            assert!(!entry.name.contains(&b'/') && !entry.name.contains(&0));
        }
        assert_eq!(encode_listing(entries), octets);
    }
}

/// A certificate, a SafeBag, a name of a key, a time.
pub(crate) fn certificate(octets: &[u8]) {
    if let Ok(view) = CertificateView::parse(octets) {
        let name = view.name;
        assert!(name.identity().is_prefix_of(name.key_name()) && name.key_name().is_prefix_of(name.name()));
        assert_eq!(name.identity().len() + 4, name.name().len());
        assert!(inside(octets, view.public_key_der()));
        let _ = (view.descriptions(), view.is_self_signed());
        let again = build_certificate(
            name.key_name(),
            name.issuer_id(),
            1,
            view.public_key_der(),
            &view.validity,
            SignatureInfo::digest_sha256(),
        )
        .finish(&[]);
        let again = CertificateView::parse(&again).expect("what is built is valid");
        assert_eq!((again.validity, again.name.key_name()), (view.validity, name.key_name()));
    }
    if let Ok(view) = SafeBagView::parse(octets) {
        let bag = encode_safe_bag(view.certificate.data.wire, view.encrypted_key);
        assert_eq!(SafeBagView::parse(&bag), Ok(view));
    }
    if let Ok(name) = NameRef::parse_value(octets)
        && let Ok(key_name) = key_name_of_locator(name)
    {
        assert!(key_name.is_prefix_of(name) && key_name.len() >= 2);
    }
    if let Ok(text) = <&[u8; 15]>::try_from(octets)
        && let Ok(unix_s) = parse_time(text)
        && unix_s > 0
    {
        assert_eq!(encode_time(unix_s), *text);
    }
}
