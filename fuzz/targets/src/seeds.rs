//! The first inputs of the committed corpora: packets of our own encoders, and inputs that have
//! broken other routers.
//!
//! Fuzzers start from these inputs. The ordinary tests check that `fuzz/corpus` contains them.

use namely_messages::{
    Block, ChannelStatus, Command, ControlParameters, ControlResponse, Counter, CsDiskStatus, CsInfo, CsList,
    CsListQuery, CsPacket, Dataset, EventRequest, FaceEventKind, FaceEventNotification, FacePersistency,
    FaceQueryFilter, FaceScope, FaceStatus, FibEntry, GeneralStatus, LinkType, NextHop, RibEntry, Route,
    RouteOrigin, Scope, StrategyChoice, encode_blocks, status_code,
};
use namely_security::{HmacKey, Manifest, ManifestHash, Signer, sha256, sign_data};
use namely_wire::rdr::{ListingEntry, Metadata, encode_listing, metadata_name};
use namely_wire::tlv::Writer;
use namely_wire::types::*;
use namely_wire::{
    Announcement, Component, ContentType, DataBuilder, InterestBuilder, LpFraming, LpHeaders, NackReason,
    Name, PitToken, SignatureInfo, SignatureType, ValidityPeriod, build_certificate, encode_lp_header,
    encode_lp_packet, encode_safe_bag,
};

use crate::group::Group;
use crate::security::{NOW_NS, anchor, key, key_name};

/// One file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The target of the corpus.
    pub target: &'static str,
    /// The file's name.
    pub name: &'static str,
    /// The input.
    pub octets: Vec<u8>,
}

/// Every seed.
pub fn seeds() -> Vec<Seed> {
    let groups: [(&str, Group); 19] = [
        ("interest", interests()),
        ("data", datas()),
        ("lp", link_packets()),
        ("name_uri", names()),
        ("management", management()),
        ("metadata", metadata()),
        ("certificate", certificates()),
        ("dissect", dissections()),
        ("link", frames()),
        ("forwarder", crate::forwarder::seeds()),
        ("stream", streams()),
        ("verifier", packets_to_verify()),
        ("security_files", files()),
        ("config", configurations()),
        ("memif_messages", crate::memif::message_seeds()),
        ("memif_rings", crate::memif::ring_seeds()),
        ("byte_range", crate::cms::range_seeds()),
        ("catalogue", crate::cms::catalogue_seeds()),
        ("vip", crate::vip::seeds()),
    ];
    let seed = |target, (name, octets)| Seed { target, name, octets };
    groups.into_iter().flat_map(|(target, group)| group.into_iter().map(move |s| seed(target, s))).collect()
}

fn name(uri: &str) -> Name {
    uri.parse().expect("a name in this file")
}

fn written(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    fill(&mut w);
    w.into_vec()
}

fn full_interest() -> Vec<u8> {
    InterestBuilder::new(name("/a/b"))
        .can_be_prefix()
        .must_be_fresh()
        .forwarding_hint(name("/isp/1"))
        .forwarding_hint(name("/isp/2"))
        .nonce([1, 2, 3, 4])
        .lifetime_ms(6000)
        .hop_limit(64)
        .build()
}

fn signed_interest() -> Vec<u8> {
    let info = SignatureInfo {
        nonce: Some([7; 8]),
        time_ms: Some(NOW_NS / 1_000_000),
        ..SignatureInfo::digest_sha256()
    };
    let sign = |parts: &[&[u8]]| Ok::<_, ()>(sha256(&parts.concat()).to_vec());
    InterestBuilder::new(name("/a")).build_signed(b"x", &info, sign, sha256).expect("a digest does not fail")
}

fn interests() -> Group {
    let digest = Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &[9; 32] };
    vec![
        ("plain", InterestBuilder::new(name("/a")).build()),
        ("full", full_interest()),
        ("parameters", InterestBuilder::new(name("/a/v=1")).build_with_parameters(b"parameters", sha256)),
        ("signed", signed_interest()),
        ("implicit-digest", InterestBuilder::new(name("/a").join(digest)).build()),
        ("unknown-elements", vec![5, 16, 7, 3, 8, 1, b'a', 200, 0, 33, 0, 202, 1, 7, 12, 2, 1, 0]),
        ("no-digest", vec![5, 7, 7, 3, 8, 1, b'a', 36, 0]),
        (
            "components-129",
            written(|w| {
                w.nested(INTEREST, |w| {
                    w.tlv(NAME, &[8, 0].repeat(129));
                });
            }),
        ),
        ("length-2-to-40", vec![5, 255, 0, 0, 1, 0, 0, 0, 0, 0, 7, 3, 8, 1, b'a']),
        ("long-form-type", vec![253, 0, 5, 5, 7, 3, 8, 1, b'a']),
    ]
}

fn digest_data(uri: &str, content_type: ContentType, content: &[u8]) -> Vec<u8> {
    let name = name(uri);
    let builder = DataBuilder::new(name.as_name()).content_type(content_type).freshness_ms(1000);
    sign_data(&builder, content, &Signer::digest_sha256()).expect("a digest does not fail")
}

fn announcement() -> Vec<u8> {
    let validity = Some(ValidityPeriod { not_before_s: 1, not_after_s: 2_000_000_000 });
    Announcement { prefix: name("/p"), version: 1, expiration_period_ms: 60_000, validity, cost: Some(3) }
        .build(&SignatureInfo::digest_sha256())
        .finish(&[0; 32])
}

fn datas() -> Group {
    let last = name("/seg=9");
    let object = name("/a/v=1/seg=0");
    let mut builder = DataBuilder::new(object.as_name()).freshness_ms(10);
    if let Some(component) = last.as_name().last() {
        builder = builder.final_block_id(component);
    }
    let located = SignatureInfo {
        seq_num: Some(1),
        time_ms: Some(2),
        ..SignatureInfo::new(SignatureType::Ed25519, Some(key_name()))
    };
    vec![
        ("plain", digest_data("/a", ContentType::Blob, b"hello")),
        ("segment", builder.build(b"segment", &located).finish(&[1; 64])),
        ("link", digest_data("/l", ContentType::Link, &[7, 3, 8, 1, b'x'])),
        ("nack", digest_data("/n", ContentType::Nack, b"")),
        ("certificate", anchor().wire().to_vec()),
        ("announcement", announcement()),
        ("key-digest", vec![6, 20, 7, 3, 8, 1, b'a', 22, 11, 27, 1, 3, 28, 6, 29, 4, 1, 2, 3, 4, 23, 0]),
        ("unknown-elements", vec![6, 16, 7, 3, 8, 1, b'a', 200, 0, 22, 3, 27, 1, 0, 202, 0, 23, 0]),
        ("no-signature", vec![6, 5, 7, 3, 8, 1, b'a']),
    ]
}

fn full_headers() -> LpHeaders {
    LpHeaders {
        pit_token: PitToken::new(&[1; 32]),
        nack: Some(NackReason::NoRoute),
        incoming_face_id: Some(300),
        next_hop_face_id: Some(1),
        cache_policy: Some(1),
        congestion_mark: Some(1),
        non_discovery: true,
    }
}

fn frame(headers: &LpHeaders, framing: &LpFraming, fragment: Option<&[u8]>) -> Vec<u8> {
    let mut wire = Vec::new();
    encode_lp_header(headers, framing, None, fragment.map(<[u8]>::len), &mut wire);
    wire.extend_from_slice(fragment.unwrap_or_default());
    wire
}

fn fragment(sequence: u64, frag_index: u64, frag_count: u64, octets: &[u8]) -> Vec<u8> {
    let framing = LpFraming { sequence: Some(sequence), frag_index, frag_count, ..Default::default() };
    frame(&LpHeaders::default(), &framing, Some(octets))
}

fn nested_link_packets(levels: usize) -> Vec<u8> {
    (0..levels).fold(full_interest(), |inner, _| {
        written(|w| {
            w.nested(LP_PACKET, |w| {
                w.tlv(LP_FRAGMENT, &inner);
            });
        })
    })
}

fn link_packets() -> Group {
    let framing = LpFraming {
        sequence: Some(u64::MAX),
        frag_index: 1,
        frag_count: 3,
        tx_sequence: Some(5),
        acks: &[1, 2, 3],
        padding_octets: 0,
    };
    let token_of =
        |n: u8| [vec![100, n + 8, 98, n], vec![7; usize::from(n)], vec![80, 4, 5, 2, 7, 0]].concat();
    vec![
        ("bare", full_interest()),
        ("full", frame(&full_headers(), &framing, Some(b"fragment"))),
        (
            "nack",
            encode_lp_packet(
                &LpHeaders { nack: Some(NackReason::Congestion), ..Default::default() },
                &full_interest(),
            ),
        ),
        ("idle", vec![100, 0]),
        ("acks", frame(&LpHeaders::default(), &LpFraming { acks: &[9; 4], ..Default::default() }, None)),
        ("token-1", token_of(1)),
        ("token-6", token_of(6)),
        ("token-33", token_of(33)),
        ("frag-count-2-to-28", fragment(1, 0, 1 << 28, b"x")),
        ("frag-count-2-to-60", fragment(1, 0, 1 << 60, b"x")),
        ("frag-count-max", fragment(u64::MAX, u64::MAX, u64::MAX, b"x")),
        ("nested", nested_link_packets(60)),
        ("unknown-field", vec![100, 9, 253, 3, 84, 1, 0, 80, 2, 5, 0]),
        ("unknown-critical-field", vec![100, 9, 253, 3, 85, 1, 0, 80, 2, 5, 0]),
    ]
}

fn names() -> Group {
    let pair = written(|w| {
        w.raw(&[7]).raw(&[8, 2, b'a', b'b', 8, 1, b'c']).raw(&[8, 2, b'a', b'b', 50, 1, 0]);
    });
    vec![
        ("uri", b"ndn:/a/b%20c/.../....".to_vec()),
        ("typed", b"/32=metadata/v=5/seg=0/t=1/off=9/seq=18446744073709551615/300=x".to_vec()),
        ("digest", format!("/a/sha256digest={}", "0f".repeat(32)).into_bytes()),
        ("periods", b"/a/../b".to_vec()),
        ("octets", name("/a/32=ls/v=1").as_bytes().to_vec()),
        ("two-octet-length", name(&format!("/{}", "a".repeat(253))).as_bytes().to_vec()),
        ("pair", pair),
        ("components-129", [8, 0].repeat(129)),
    ]
}

fn parameters() -> ControlParameters {
    ControlParameters {
        name: Some(name("/p")),
        face_id: Some(300),
        uri: Some("udp4://192.0.2.1:6363".into()),
        local_uri: Some("dev://eth0".into()),
        origin: Some(RouteOrigin::CLIENT),
        cost: Some(10),
        capacity: Some(65_536),
        count: Some(5),
        flags: Some(1),
        mask: Some(3),
        strategy: Some(name("/localhost/nfd/strategy/best-route/v=5")),
        expiration_period_ms: Some(3_600_000),
        face_persistency: Some(FacePersistency::Permanent),
        base_congestion_marking_interval_ns: Some(100_000_000),
        default_congestion_threshold_octets: Some(65_536),
        mtu: Some(1400),
        cs_policy: Some("arc".into()),
        cs_disk_octets: Some(1 << 30),
        cs_disk_admission: Some("hit".into()),
        cs_disk_threshold: Some(64),
        cs_disk_queue: Some("fifo".into()),
        trace_id: None,
    }
}

fn face_status() -> FaceStatus {
    FaceStatus {
        face_id: 260,
        uri: "tcp4://192.0.2.1:6363".into(),
        local_uri: "tcp4://192.0.2.2:50000".into(),
        expiration_period_ms: Some(5),
        face_scope: FaceScope::NonLocal,
        face_persistency: FacePersistency::OnDemand,
        link_type: LinkType::PointToPoint,
        base_congestion_marking_interval_ns: Some(1),
        default_congestion_threshold_octets: Some(2),
        mtu: Some(3),
        in_interests: 1,
        in_data: 2,
        in_nacks: 3,
        out_interests: 4,
        out_data: 5,
        out_nacks: 6,
        in_octets: 7,
        out_octets: 8,
        flags: 3,
        details: None,
    }
}

fn face_event() -> FaceEventNotification {
    let status = face_status();
    FaceEventNotification {
        kind: FaceEventKind::Created,
        face_id: status.face_id,
        uri: status.uri,
        local_uri: status.local_uri,
        face_scope: status.face_scope,
        face_persistency: status.face_persistency,
        link_type: status.link_type,
        flags: status.flags,
    }
}

fn fib() -> Vec<u8> {
    let next_hops = vec![NextHop { face_id: 1, cost: 2 }, NextHop { face_id: 3, cost: 4 }];
    encode_blocks(&[
        FibEntry { prefix: name("/"), next_hops: Vec::new() },
        FibEntry { prefix: name("/p"), next_hops },
    ])
}

fn command(command: Command) -> Vec<u8> {
    let sign = |parts: &[&[u8]]| Ok::<_, ()>(sha256(&parts.concat()).to_vec());
    let builder = InterestBuilder::new(command.name(Scope::Localhost, &parameters()));
    builder.build_signed(&[], &SignatureInfo::digest_sha256(), sign, sha256).expect("a digest does not fail")
}

fn management() -> Group {
    let route =
        Route { face_id: 1, origin: RouteOrigin::NLSR, cost: 2, flags: 3, expiration_period_ms: Some(4) };
    let filter = FaceQueryFilter {
        face_id: Some(1),
        uri_scheme: Some("udp4".into()),
        uri: Some("x".into()),
        local_uri: Some("y".into()),
        face_scope: Some(FaceScope::Local),
        face_persistency: Some(FacePersistency::Persistent),
        link_type: Some(LinkType::AdHoc),
    };
    let ask = |name: Name| InterestBuilder::new(name).can_be_prefix().must_be_fresh().build();
    let choice = StrategyChoice { prefix: name("/"), strategy: name("/s") };
    let announce = InterestBuilder::new(Command::RibAnnounce.prefix(Scope::Localhop));
    vec![
        ("parameters", parameters().to_vec()),
        ("parameters-unknown", vec![104, 7, 200, 0, 105, 1, 1, 201, 0]),
        ("response", ControlResponse::ok(&parameters()).to_vec()),
        ("response-refused", ControlResponse::new(status_code::UNAUTHORIZED, "no").to_vec()),
        ("faces", encode_blocks(&[face_status(), face_status()])),
        ("channels", ChannelStatus { local_uri: "unix:///run/x".into() }.to_vec()),
        ("fib", fib()),
        ("rib", RibEntry { prefix: name("/p"), routes: vec![route, route] }.to_vec()),
        ("strategies", encode_blocks(&[choice.clone(), choice])),
        (
            "cs",
            CsInfo {
                capacity: 1,
                flags: 3,
                entries: 0,
                hits: 300,
                misses: 70_000,
                policy: Some("arc".into()),
            }
            .to_vec(),
        ),
        ("cs-disk", cs_disk().to_vec()),
        ("cs-list", cs_list().to_vec()),
        ("cs-list-query", ask(CsListQuery { prefix: name("/p"), from: 300 }.name(Scope::Localhost))),
        ("status", GeneralStatus { version: "namely".into(), start_ms: 1, ..Default::default() }.to_vec()),
        ("filter", filter.to_vec()),
        ("event", face_event().to_vec()),
        ("command", command(Command::RibRegister)),
        ("announce", announce.build_with_parameters(&announcement(), sha256)),
        ("dataset", ask(Dataset::FacesList.prefix(Scope::Localhost).join_version(1).join_segment(2))),
        ("query", ask(filter.name(Scope::Localhost))),
        ("events", ask(EventRequest::name(Scope::Localhost, 7))),
    ]
}

fn cs_list() -> CsList {
    let packet = CsPacket { name: name("/p/1"), octets: 300, fresh_ms: 70_000 };
    CsList { next: Some(256), packets: vec![packet.clone(), packet] }
}

fn cs_disk() -> CsDiskStatus {
    CsDiskStatus {
        folder: "/var/lib/namely/cs".into(),
        engine: "io_uring".into(),
        trouble: Some("full".into()),
        admission: "hit".into(),
        queue: "fifo".into(),
        threshold: 64,
        octets_max: 1 << 30,
        octets: 1 << 20,
        pinned: vec![name("/p"), name("/q")],
        counters: vec![Counter::new("reads", 7)],
        ..CsDiskStatus::default()
    }
}

fn file_metadata() -> Metadata {
    Metadata {
        last_segment: Some(300),
        segment_size_octets: Some(6144),
        size_octets: Some(1_844_000),
        mode: Some(0o100_644),
        atime_ns: Some(1),
        btime_ns: Some(2),
        ctime_ns: Some(3),
        mtime_ns: Some(1_636_050_600_000_000_000),
        ..Metadata::new(name("/p/f/v=1636050600000000000"))
    }
}

fn metadata() -> Group {
    let directory =
        Metadata { mode: Some(0o040_755), mtime_ns: Some(9), ..Metadata::new(name("/p/32=ls/v=9")) };
    let entries = [(&b"a.txt"[..], false), (b"sub", true)];
    let entries =
        entries.into_iter().filter_map(|(name, is_directory)| ListingEntry::new(name, is_directory));
    vec![
        ("file", file_metadata().to_vec()),
        ("directory", directory.to_vec()),
        ("plain", Metadata::new(name("/a/v=1")).to_vec()),
        ("listing", encode_listing(entries)),
        ("listing-that-leaves", b"..\0../etc\0/etc/passwd\0".to_vec()),
        ("listing-cut", b"a.txt\0b".to_vec()),
    ]
}

fn certificates() -> Group {
    let info = SignatureInfo {
        descriptions: vec![("fullname".into(), "A".into()), ("group".into(), "B".into())],
        ..SignatureInfo::new(SignatureType::Sha256WithEcdsa, Some(name("/ca/KEY/1/self/v=1")))
    };
    let validity = ValidityPeriod { not_before_s: 1_700_000_000, not_after_s: 1_800_000_000 };
    let issued =
        build_certificate(key_name().as_name(), Component::generic(b"ca"), 5, b"key", &validity, info)
            .finish(&[3; 70]);
    let certificate = anchor().wire().to_vec();
    vec![
        ("bag", encode_safe_bag(&certificate, b"encrypted")),
        ("self-signed", certificate),
        ("issued", issued),
        ("key-name", key_name().as_bytes().to_vec()),
        ("time", b"20240229T235959".to_vec()),
        ("no-such-day", b"20230229T235959".to_vec()),
    ]
}

fn dissections() -> Group {
    let metadata = digest_data(
        &metadata_name(name("/f").as_name(), 1).to_string(),
        ContentType::Blob,
        &file_metadata().to_vec(),
    );
    let dataset = Dataset::FibList.prefix(Scope::Localhost).join_version(1).join_segment(0);
    vec![
        ("link-packet", encode_lp_packet(&full_headers(), &full_interest())),
        ("nested", nested_link_packets(60)),
        ("command", command(Command::FacesCreate)),
        (
            "announce",
            InterestBuilder::new(Command::RibAnnounce.prefix(Scope::Localhost))
                .build_with_parameters(&announcement(), sha256),
        ),
        ("dataset", digest_data(&dataset.to_string(), ContentType::Blob, &fib())),
        ("metadata", metadata),
        (
            "manifest",
            digest_data(
                "/a/v=1/32=manifest/seg=1",
                ContentType::Manifest,
                &manifest().encode(object().as_name()),
            ),
        ),
        ("certificate", anchor().wire().to_vec()),
        ("several", [full_interest(), vec![6, 0], vec![5, 200]].concat()),
        ("text", b"GET / HTTP/1.1\r\n".to_vec()),
    ]
}

/// Frames of at most 255 octets. One octet before each is its length.
fn prefixed(frames: &[Vec<u8>]) -> Vec<u8> {
    let length = |frame: &Vec<u8>| u8::try_from(frame.len()).expect("the frames in this file are short");
    frames.iter().flat_map(|frame| [&[length(frame)], &frame[..]].concat()).collect()
}

fn frames() -> Group {
    let packet = digest_data("/a", ContentType::Blob, &[9; 60]);
    let parts: Vec<Vec<u8>> = packet.chunks(50).map(<[u8]>::to_vec).collect();
    let count = parts.len() as u64;
    let pieces: Vec<Vec<u8>> =
        parts.iter().zip(0u64..).map(|(part, i)| fragment(90 + i, i, count, part)).collect();
    let reversed: Vec<Vec<u8>> = pieces.iter().rev().cloned().collect();
    let reliable = LpFraming { tx_sequence: Some(1), acks: &[4, 3], ..Default::default() };
    vec![
        ("bare", prefixed(&[full_interest(), packet.clone()])),
        ("fragments", prefixed(&pieces)),
        ("fragments-reversed", prefixed(&reversed)),
        ("fragments-repeated", prefixed(&[pieces.clone(), pieces.clone()].concat())),
        ("first-fragments", prefixed(&(0..20).map(|i| fragment(i * 5, 0, 3, &[1; 40])).collect::<Vec<_>>())),
        (
            "frag-count-changes",
            prefixed(&[fragment(9, 0, 3, b"a"), fragment(10, 1, 4, b"b"), fragment(11, 2, 3, b"c")]),
        ),
        ("frag-count-2-to-60", prefixed(&[fragment(9, 0, 1 << 60, b"a"), fragment(8, 7, 7, b"b")])),
        ("reliable", prefixed(&[frame(&LpHeaders::default(), &reliable, Some(&full_interest()))])),
        ("nack", prefixed(&[encode_lp_packet(&full_headers(), &full_interest())])),
        ("nested", prefixed(&[nested_link_packets(30)])),
        ("noise-between", prefixed(&[full_interest(), b"noise".to_vec(), Vec::new(), full_interest()])),
    ]
}

fn streams() -> Group {
    vec![
        ("packets", [full_interest(), digest_data("/a", ContentType::Blob, b"x"), vec![100, 0]].concat()),
        ("cut", full_interest()[..20].to_vec()),
        ("length-2-to-40", [full_interest(), vec![6, 255, 0, 0, 1, 0, 0, 0, 0, 0]].concat()),
        ("largest", vec![100, 253, 0x24, 0x5c]),
        ("one-too-long", vec![100, 253, 0x24, 0x5d]),
        ("noise", vec![0xff; 40]),
    ]
}

fn packets_to_verify() -> Group {
    let signer = Signer::new(key_name(), key());
    let shared = Signer::hmac(name("/h/KEY/1"), HmacKey::new(b"shared"));
    let signed = |uri: &str, signer: &Signer| {
        let name = name(uri);
        sign_data(&DataBuilder::new(name.as_name()), b"content", signer).expect("signing with a good key")
    };
    let mut forged = signed("/a/x", &signer);
    if let Some(last) = forged.last_mut() {
        *last ^= 1;
    }
    let info =
        SignatureInfo { nonce: Some([1; 8]), time_ms: Some(NOW_NS / 1_000_000), ..signer.signature_info() };
    let command = InterestBuilder::new(name("/a/command"))
        .build_signed(&[], &info, |parts| signer.sign(parts), sha256)
        .expect("signing with a good key");
    vec![
        ("signed", signed("/a/x", &signer)),
        ("shared-key", signed("/h/x", &shared)),
        ("forged", forged),
        ("digest", signed("/a/x", &Signer::digest_sha256())),
        ("null", signed("/a/x", &Signer::null())),
        ("elsewhere", signed("/b/x", &signer)),
        ("certificate", anchor().wire().to_vec()),
        ("command", command),
    ]
}

/// The object of the seeds' manifest, number 1.
pub(crate) fn object() -> Name {
    name("/a/v=1")
}

fn manifest() -> Manifest {
    let mut manifest = Manifest::new(1, ManifestHash::Sha256);
    manifest.push([1; 32]);
    manifest.push([2; 32]);
    manifest
}

fn files() -> Group {
    let policy = "depth_max = 3\nhierarchical = true\nanchors = [\"root.cert\"]\nrevoked = [\"/a/KEY/2\"]\n\n\
        [[rule]]\ndata = \"/a/<>\"\nkey = \"/a/KEY/<>\"\n";
    vec![
        ("pem", anchor().to_pem().into_bytes()),
        ("base64", anchor().to_base64().into_bytes()),
        ("raw", anchor().wire().to_vec()),
        ("policy", policy.as_bytes().to_vec()),
        ("manifest", manifest().encode(object().as_name())),
        ("manifest-empty", Manifest::new(1, ManifestHash::Blake3).encode(object().as_name())),
    ]
}

fn configurations() -> Group {
    let full = "[faces]\nlisten = [\"unix:///run/namely/namely.sock\", \"udp://0.0.0.0:6363\"]\n\
        congestion_threshold_octets = \"64KiB\"\n[[faces.multicast]]\ninterface = \"eth0\"\n[tables]\n\
        cs_octets_max = \"256MiB\"\n[strategy]\n\"/live\" = \"multicast\"\n[[face]]\n\
        remote = \"udp://router.example.net:6363\"\nmtu = 1400\nroutes = [\"/\"]\n[[route]]\nprefix = \"/a\"\n\
        to = \"tcp://archive.example.net:6363\"\n[[autoreg]]\nprefixes = [\"/e\"]\nfrom = [\"2001:db8::/32\"]\n\
        [[authorization.user]]\nuser = \"*\"\nregister = [\"/\"]\n";
    vec![
        ("full", full.as_bytes().to_vec()),
        ("unknown-key", b"[faces]\nlistn = []\n".to_vec()),
        ("wrong-type", b"[faces]\nlisten = 5\n".to_vec()),
        ("not-toml", b"[[[\n".to_vec()),
    ]
}
