//! Tests of packets as text: the exact output for known packets, and some output for every input.

use namely_dissect::{DEPTH_MAX, NODES_MAX, Node, OCTETS_SHOWN_MAX, dissect, summary, to_text};
use namely_messages::{
    Block, Command, ControlParameters, ControlResponse, Dataset, FaceQueryFilter, FibEntry, NextHop, Scope,
};
use namely_wire::rdr::{self, Metadata};
use namely_wire::tlv::Writer;
use namely_wire::types::*;
use namely_wire::{
    Announcement, ContentType, DataBuilder, InterestBuilder, LpHeaders, NackReason, Name, PitToken,
    SignatureInfo, SignatureType, encode_lp_packet,
};
use proptest::prelude::*;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn data(name: &Name, content_type: ContentType, content: &[u8]) -> Vec<u8> {
    DataBuilder::new(name.as_name())
        .content_type(content_type)
        .build(content, &SignatureInfo::digest_sha256())
        .finish(&[0xab; 4])
}

/// Returns the lines of the text that are nested below the first line with the start `from`,
/// without their common indentation.
fn part(octets: &[u8], from: &str) -> String {
    let text = to_text(octets);
    let start =
        text.lines().position(|l| l.trim_start().starts_with(from)).unwrap_or_else(|| panic!("{text}"));
    let indent = |l: &str| l.len() - l.trim_start().len();
    let lines: Vec<&str> = text.lines().skip(start).collect();
    let outer = indent(lines[0]);
    let inner = lines.iter().skip(1).take_while(|l| indent(l) > outer);
    inner.map(|l| format!("{}\n", &l[outer + 2..])).collect()
}

#[test]
fn an_interest_in_a_link_packet_is_dissected() {
    let interest =
        InterestBuilder::new(name("/a/b")).must_be_fresh().nonce([1, 2, 3, 4]).lifetime_ms(500).build();
    let headers = LpHeaders {
        pit_token: PitToken::new(&[0xff, 1]),
        nack: Some(NackReason::NoRoute),
        ..Default::default()
    };
    let text = "\
LpPacket (100), 37 octets
  PitToken (98), 2 octets: ff01
  Nack (800), 5 octets
    NackReason (801), 1 octet: NoRoute (150)
  Fragment (80), 22 octets
    Interest (5), 20 octets
      Name (7), 6 octets: /a/b
      MustBeFresh (18), 0 octets
      Nonce (10), 4 octets: 01020304
      InterestLifetime (12), 2 octets: 500 ms
";
    assert_eq!(to_text(&encode_lp_packet(&headers, &interest)), text);
}

#[test]
fn a_data_with_a_key_locator_is_dissected() {
    let info = SignatureInfo {
        time_ms: Some(1_700_000_000_000),
        ..SignatureInfo::new(SignatureType::Ed25519, Some(name("/k/KEY/1")))
    };
    let mut packet = Writer::new();
    packet.nested(DATA, |w| {
        name("/a/seg=5").as_name().encode(w);
        w.tlv(META_INFO, &[25, 1, 9, 26, 3, 50, 1, 7]).tlv(200, b"new").tlv(CONTENT, b"line\n");
        info.encode(SIGNATURE_INFO, w);
        w.tlv(SIGNATURE_VALUE, &[1; 2]);
    });
    let text = "\
Data (6), 64 octets
  Name (7), 6 octets: /a/seg=5
  MetaInfo (20), 8 octets
    FreshnessPeriod (25), 1 octet: 9 ms
    FinalBlockId (26), 3 octets: seg=7
  TYPE 200, 3 octets: \"new\"
  Content (21), 5 octets: \"line\\n\"
  SignatureInfo (22), 28 octets
    SignatureType (27), 1 octet: SignatureEd25519 (5)
    KeyLocator (28), 13 octets
      Name (7), 11 octets: /k/KEY/1
    SignatureTime (40), 8 octets: 1700000000000 ms (20231114T221320 UTC)
  SignatureValue (23), 2 octets: 0101
";
    assert_eq!(to_text(packet.as_bytes()), text);
}

#[test]
fn a_command_and_its_response_are_dissected() {
    let parameters = ControlParameters { name: Some(name("/p")), cost: Some(7), ..Default::default() };
    let command = Command::RibRegister.name(Scope::Localhost, &parameters);
    let shown = "\
ControlParameters (104), 8 octets
  Name (7), 3 octets: /p
  Cost (106), 1 octet: 7
";
    assert_eq!(part(&InterestBuilder::new(command.clone()).build(), "Name"), shown);
    let response = ControlResponse::ok(&parameters).to_vec();
    let answer = data(&command, ContentType::Blob, &response);
    assert_eq!(part(&answer, "StatusText"), "");
    assert_eq!(part(&answer, "ControlResponse").lines().next(), Some("StatusCode (102), 1 octet: 200"));

    let query = FaceQueryFilter { face_id: Some(5), ..Default::default() }.name(Scope::Localhost);
    let shown = "FaceQueryFilter (150), 3 octets\n  FaceId (105), 1 octet: 5\n";
    assert_eq!(part(&InterestBuilder::new(query).build(), "Name"), shown);
}

#[test]
fn content_is_shown_by_its_names_type() {
    let fib = FibEntry { prefix: name("/p"), next_hops: vec![NextHop { face_id: 9, cost: 1 }] };
    let dataset = Dataset::FibList.prefix(Scope::Localhost).join_version(1).join_segment(0);
    let shown = "\
FibEntry (128), 13 octets
  Name (7), 3 octets: /p
  NextHopRecord (129), 6 octets
    FaceId (105), 1 octet: 9
    Cost (106), 1 octet: 1
";
    assert_eq!(part(&data(&dataset, ContentType::Blob, &fib.to_vec()), "Content (21)"), shown);

    let metadata =
        Metadata { mode: Some(0o100_644), mtime_ns: Some(5_000_000_000), ..Metadata::new(name("/f/v=1")) };
    let packet = data(&rdr::metadata_name(name("/f").as_name(), 3), ContentType::Blob, &metadata.to_vec());
    let shown = "\
Name (7), 6 octets: /f/v=1
Mode (62724), 2 octets: 0o100644
Mtime (62732), 8 octets: 5000000000 ns (19700101T000005 UTC)
";
    assert_eq!(part(&packet, "Content (21)"), shown);

    let listing = rdr::listing_name(name("/d").as_name()).join_version(1).join_segment(0);
    let text = to_text(&data(&listing, ContentType::Blob, b"a.txt\0sub/\0"));
    assert!(text.contains("Content (21), 11 octets: a.txt, sub/\n"), "{text}");

    let link = data(&name("/l"), ContentType::Link, &[7, 3, 8, 1, b'x']);
    assert_eq!(part(&link, "Content (21)"), "Name (7), 3 octets: /x\n");
}

#[test]
fn an_announcement_in_parameters_is_dissected() {
    let announcement =
        Announcement { prefix: name("/p"), version: 1, expiration_period_ms: 60, validity: None, cost: None }
            .build(&SignatureInfo::digest_sha256())
            .finish(&[0; 32]);
    let wire = InterestBuilder::new(Command::RibAnnounce.prefix(Scope::Localhost))
        .build_with_parameters(&announcement, |_| [0; 32]);
    assert_eq!(part(&wire, "Content (21)"), "ExpirationPeriod (109), 1 octet: 60 ms\n");
}

#[test]
fn a_refused_packet_shows_the_reason() {
    let first = |octets: &[u8]| to_text(octets).lines().next().unwrap().to_string();
    assert_eq!(first(&[5, 2, 33, 0]), "Interest (5), 2 octets: invalid: element of TYPE 7 is missing");
    assert_eq!(
        first(&[100, 2, 98, 0]),
        "LpPacket (100), 2 octets: invalid: element of TYPE 98 has a wrong length"
    );
    let certificate = data(&name("/KEY/k/i"), ContentType::Key, b"");
    assert!(first(&certificate).ends_with("invalid: the name is not of the form that this packet asks for"));
    assert_eq!(to_text(&[5, 200, 1]), "not an element, 3 octets: the input ends inside an element: 05c801\n");
    assert_eq!(to_text(&[]), "");
}

#[test]
fn unreadable_values_are_shown_as_octets() {
    let text = to_text(&[5, 10, 7, 3, 8, 1, b'a', 12, 3, 1, 2, 3]);
    let line = "InterestLifetime (12), 3 octets: invalid: an integer is not 1, 2, 4 or 8 octets long: 010203";
    assert_eq!(text.lines().last().map(str::trim), Some(line));
}

#[test]
fn consecutive_packets_show_their_offsets() {
    let nodes = dissect(&[5, 5, 7, 3, 8, 1, b'a', 6, 0, 0xff]);
    let seen: Vec<_> = nodes.iter().map(|n| (n.typ, n.name, n.offset, n.length)).collect();
    assert_eq!(seen, [(5, "Interest", 0, 5), (6, "Data", 7, 0), (0, "not an element", 9, 1)]);
    assert_eq!((nodes[0].children[0].typ, nodes[0].children[0].offset), (7, 2));
}

#[test]
fn a_fragment_is_shown_as_octets() {
    let mut w = Writer::new();
    w.nested(LP_PACKET, |w| {
        w.tlv(LP_SEQUENCE, &[0; 8]).nni(LP_FRAG_COUNT, 2).tlv(LP_FRAGMENT, &[5, 5, 7]);
    });
    assert!(to_text(w.as_bytes()).ends_with("  Fragment (80), 3 octets: 050507\n"));
    assert_eq!(summary(w.as_bytes()), "fragment 0 of 2, 3 octets");
}

#[test]
fn a_summary_is_one_line() {
    let interest = InterestBuilder::new(name("/a")).can_be_prefix().must_be_fresh().build();
    assert_eq!(summary(&interest), "Interest /a CanBePrefix MustBeFresh");
    let nack =
        LpHeaders { nack: Some(NackReason::Duplicate), congestion_mark: Some(1), ..Default::default() };
    assert_eq!(
        summary(&encode_lp_packet(&nack, &interest)),
        "Nack Duplicate, Interest /a CanBePrefix MustBeFresh, marked"
    );
    assert_eq!(
        summary(&data(&name("/d"), ContentType::Blob, b"xyz")),
        "Data /d, 3 octets of content, DigestSha256"
    );
    assert_eq!(summary(&[100, 4, 80, 2, 7, 0]), "TYPE 7, 2 octets");
    assert_eq!(summary(&[100, 4, 80, 2, 5, 0]), "invalid: element of TYPE 7 is missing");
}

fn depth(node: &Node) -> usize {
    1 + node.children.iter().map(depth).max().unwrap_or(0)
}

fn count(nodes: &[Node]) -> usize {
    nodes.iter().map(|n| 1 + count(&n.children)).sum()
}

#[test]
fn shown_nesting_is_limited() {
    let nested = |levels: usize| {
        (0..levels).fold(vec![5, 5, 7, 3, 8, 1, b'a'], |inner, _| {
            let mut w = Writer::new();
            w.nested(LP_PACKET, |w| {
                w.tlv(LP_FRAGMENT, &inner);
            });
            w.into_vec()
        })
    };
    // Each link packet has two levels, and the Interest with its name has two more.
    let deepest = (DEPTH_MAX - 2) / 2;
    let seen = |levels| depth(&dissect(&nested(levels))[0]);
    assert_eq!(seen(deepest), DEPTH_MAX);
    assert_eq!(seen(deepest + 1), DEPTH_MAX);
    assert_eq!(seen(1000), DEPTH_MAX);
    assert!(to_text(&nested(deepest)).contains("/a"));
    assert!(!to_text(&nested(deepest + 1)).contains("/a"));
}

#[test]
fn shown_elements_and_octets_are_limited() {
    let nodes = |n: usize| dissect(&[200, 0].repeat(n));
    assert_eq!(nodes(NODES_MAX).last().map(|n| n.typ), Some(200));
    let one_more = nodes(NODES_MAX + 1);
    let last = one_more.last().unwrap();
    assert_eq!((last.typ, last.name, last.length), (0, "more elements", 2));
    assert_eq!(count(&nodes(NODES_MAX * 2)), NODES_MAX + 1);

    let shown = |n: usize| {
        let mut w = Writer::new();
        w.tlv(200, &vec![0xab; n]);
        dissect(w.as_bytes())[0].text.clone()
    };
    assert_eq!(shown(OCTETS_SHOWN_MAX), "ab".repeat(OCTETS_SHOWN_MAX));
    assert_eq!(shown(OCTETS_SHOWN_MAX + 1), "ab".repeat(OCTETS_SHOWN_MAX) + "…");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_octets_can_be_dissected(octets in prop::collection::vec(any::<u8>(), 0..60)) {
        to_text(&octets);
        summary(&octets);
    }

    #[test]
    fn a_damaged_packet_can_be_dissected(at: prop::sample::Index, to: u8) {
        let parameters = ControlParameters { name: Some(name("/p")), uri: Some("udp4://x".into()), ..Default::default() };
        let command = InterestBuilder::new(Command::FacesCreate.name(Scope::Localhost, &parameters)).build();
        let headers = LpHeaders { pit_token: PitToken::new(&[1; 32]), cache_policy: Some(1), ..Default::default() };
        let mut wire = encode_lp_packet(&headers, &command);
        let at = at.index(wire.len());
        wire[at] = to;
        let nodes = dissect(&wire);
        prop_assert!(nodes.iter().map(|n| n.offset + n.length).all(|end| end <= wire.len()));
        summary(&wire);
    }
}
