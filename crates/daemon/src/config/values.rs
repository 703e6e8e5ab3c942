//! Parses single values. An invalid value is refused with a message that contains the valid ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use namely_host::Subnet;
use namely_messages::FacePersistency;
use namely_wire::{Endpoint, FaceUri, Name};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, SeqAccess, Unexpected, Visitor};

use namely_dataplane::ListenSpec;

/// A name URI.
pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    NameText::deserialize(deserializer).map(|text| text.0)
}

/// A list of name URIs.
pub(super) fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Name>, D::Error> {
    Ok(Vec::<NameText>::deserialize(deserializer)?.into_iter().map(|text| text.0).collect())
}

/// A table whose keys are name URIs.
pub(super) fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Name, String>, D::Error> {
    let table = BTreeMap::<NameText, String>::deserialize(deserializer)?;
    Ok(table.into_iter().map(|(name, value)| (name.0, value)).collect())
}

/// Text with a fixed set of values; the error lists them.
pub(super) fn text<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: std::str::FromStr<Err: std::fmt::Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|error| D::Error::custom(format!("`{text}`: {error}")))
}

/// A list of networks.
pub(super) fn subnets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Subnet>, D::Error> {
    Ok(Vec::<SubnetText>::deserialize(deserializer)?.into_iter().map(|text| text.0).collect())
}

/// The address and port of a listener.
pub(super) fn socket_address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SocketAddr>, D::Error> {
    parsed(deserializer, "text such as \"127.0.0.1:9464\"", parse_socket_address).map(Some)
}

/// Parses an address and a port.
///
/// # Errors
/// A message with examples.
pub(crate) fn parse_socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an address and a port, as 127.0.0.1:9464 or [::1]:9464".into())
}

/// A rate in Mbit/s.
pub(super) fn mbit_s<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        mbit_s @ 0..=MBIT_S_MAX => Ok(mbit_s),
        mbit_s => Err(D::Error::custom(format!("{mbit_s} Mbit/s: use at most {MBIT_S_MAX}"))),
    }
}

/// The highest rate that can be set, Mbit/s.
const MBIT_S_MAX: u64 = 1_000_000;

/// Octets: a number, or text with a unit.
pub(super) fn octets<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(OctetsVisitor)
}

/// A number of workers.
pub(super) fn workers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    check_workers(usize::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Refuses more workers than supported.
pub(crate) fn check_workers(workers: usize) -> Result<usize, String> {
    let max = namely_io::WORKERS_MAX;
    if workers <= max { Ok(workers) } else { Err(format!("{workers} workers: use at most {max}")) }
}

/// URIs that a router can listen on.
pub(super) fn listen_uris<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FaceUri>, D::Error> {
    let admit: Admit<ListenText> = |before, uri| match before.contains(uri) {
        true => Err(format!("`{}` is named twice", uri.0)),
        false => Ok(()),
    };
    Ok(list(deserializer, admit)?.into_iter().map(|text| text.0).collect())
}

/// URIs of any kind.
pub(super) fn uris<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<FaceUri>, D::Error> {
    Ok(Vec::<UriText>::deserialize(deserializer)?.into_iter().map(|text| text.0).collect())
}

/// Checks an entry of a list against the entries before it.
pub(super) type Admit<T> = fn(&[T], &T) -> Result<(), String>;

/// A list. An entry that `admit` refuses is reported with its own position.
pub(super) fn list<'de, D, T>(deserializer: D, admit: Admit<T>) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(ListVisitor(admit))
}

/// Octets that a worker reads from a stream in a round. The minimum is several whole packets; the
/// maximum keeps the waiting time of other faces short.
pub(super) fn read_octets_per_turn<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match octets(deserializer)? {
        octets @ 0x8000..=0x40_0000 => Ok(octets),
        octets => Err(D::Error::custom(format!("{octets} octets: use 32KiB to 4MiB"))),
    }
}

/// Datagrams that a worker reads in a round.
pub(super) fn read_datagrams_per_turn<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        datagrams @ 1..=4096 => Ok(datagrams),
        datagrams => Err(D::Error::custom(format!("{datagrams} datagrams: use 1 to 4096"))),
    }
}

/// The duration of busy polling.
pub(super) fn busy_poll_us<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        us @ 0..=10_000 => Ok(us),
        us => Err(D::Error::custom(format!("{us} us: use at most 10000"))),
    }
}

/// The URI of a neighbor.
pub(super) fn remote_uri<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FaceUri, D::Error> {
    check_remote_uri(uri(deserializer)?).map_err(D::Error::custom)
}

/// The persistency of a face that this router makes: only peers make on-demand faces.
pub(super) fn persistency<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FacePersistency, D::Error> {
    let choices = [FacePersistency::Persistent, FacePersistency::Permanent].map(|p| (p.as_str(), p));
    choice(deserializer, &choices)
}

/// One of a few words.
pub(super) fn choice<'de, D: Deserializer<'de>, T: Copy>(
    deserializer: D,
    choices: &[(&str, T)],
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<String> = choices.iter().map(|(word, _)| format!("`{word}`")).collect();
        D::Error::custom(format!("unknown variant `{text}`, expected one of {}", words.join(", ")))
    })
}

/// The URI of a network interface.
pub(super) fn device_uri<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<FaceUri>, D::Error> {
    match uri(deserializer)? {
        uri @ FaceUri::Device(_) => Ok(Some(uri)),
        uri => Err(D::Error::custom(format!("`{uri}` is not an interface of ether faces: use dev://eth0"))),
    }
}

/// The URI of a multicast group.
pub(super) fn multicast_uri<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FaceUri, D::Error> {
    match uri(deserializer)? {
        uri @ FaceUri::Udp(Endpoint::Address(_)) if uri.address().is_some_and(|a| a.ip().is_multicast()) => {
            Ok(uri)
        }
        FaceUri::Ether(address) if address.is_group() => Ok(FaceUri::Ether(address)),
        uri => Err(D::Error::custom(format!(
            "`{uri}` is no multicast group: write udp://224.0.23.170:56363 or ether://[01:00:5e:00:17:aa]"
        ))),
    }
}

/// The mode of a socket's file.
pub(super) fn file_mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        mode @ 0..=0o777 => Ok(mode),
        mode => Err(D::Error::custom(format!("0o{mode:o} is not a file mode: write 0o666 or 0o660"))),
    }
}

/// A filter of `tracing`.
pub(super) fn log_filter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    check_log_filter(&text).map_err(D::Error::custom)?;
    Ok(text)
}

/// Checks that `text` is a level or a list of `target=level` directives.
pub(crate) fn check_log_filter(text: &str) -> Result<(), String> {
    // A bare word that is no level would be parsed as a target and disable all other targets.
    let is_level = |word: &str| word.parse::<tracing_subscriber::filter::LevelFilter>().is_ok();
    let words_fit = text.split(',').all(|word| word.contains('=') || is_level(word.trim()));
    match text.parse::<tracing_subscriber::filter::Targets>() {
        Ok(_) if words_fit => Ok(()),
        _ => Err(format!(
            "`{text}` is no log level: write error, warn, info, debug or trace, or target=level pairs"
        )),
    }
}

/// Returns `uri` if a router can listen on it.
///
/// # Errors
/// A message with the valid URIs.
pub(crate) fn check_listen_uri(uri: FaceUri) -> Result<FaceUri, String> {
    check_socket_path(&uri)?;
    if ListenSpec::new(&uri, 0).is_some() {
        return Ok(uri);
    }
    if let Some(feature) = ListenSpec::missing_feature(&uri) {
        return Err(format!(
            "cannot listen on `{uri}`: this router was built without the feature `{feature}`"
        ));
    }
    let uris = ListenSpec::URIS;
    Err(format!(
        "cannot listen on `{uri}`: write {uris} (numeric; multicast groups go under faces.multicast)"
    ))
}

/// Octets of the path of a Unix or memif socket (unix(7): 108 with the NUL at the end).
///
/// # Limit
/// A listener or neighbor with a longer path is refused.
/// - Tests: `a_socket_path_has_107_octets`
const SOCKET_PATH_OCTETS_MAX: usize = 107;

/// Refuses a path that no socket can have.
fn check_socket_path(uri: &FaceUri) -> Result<(), String> {
    match uri {
        FaceUri::Unix(path) | FaceUri::Memif { path, .. } if path.len() > SOCKET_PATH_OCTETS_MAX => {
            Err(format!(
                "the path of `{uri}` has {} octets, and a socket's has at most {SOCKET_PATH_OCTETS_MAX}: use a \
                 shorter one",
                path.len()
            ))
        }
        _ => Ok(()),
    }
}

/// Returns `uri` if it can be the URI of a neighbor.
pub(crate) fn check_remote_uri(uri: FaceUri) -> Result<FaceUri, String> {
    check_socket_path(&uri)?;
    match uri {
        FaceUri::Tcp(_) | FaceUri::Udp(_) | FaceUri::Memif { .. } => Ok(uri),
        FaceUri::Ether(address) if !address.is_group() => Ok(uri),
        _ => Err(format!(
            "`{uri}` is not a neighbor: write udp://host:port, tcp://host:port, ether://[address] or memif:///path"
        )),
    }
}

/// Reads `"256MiB"`: a number and one of B, KiB, MiB, GiB.
///
/// # Errors
/// A message with the valid sizes.
pub fn parse_octets(text: &str) -> Result<u64, String> {
    let refuse = || format!("`{text}` is not a size: write a number of octets, or 64KiB, 256MiB, 2GiB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(refuse()),
    };
    let number: u64 = number.parse().map_err(|_| refuse())?;
    number.checked_mul(1 << shift).ok_or_else(refuse)
}

fn uri<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FaceUri, D::Error> {
    UriText::deserialize(deserializer).map(|text| text.0)
}

/// A name in a configuration or an option. It must begin with a slash, so that a misplaced word or
/// file is not parsed as a name.
///
/// # Errors
/// The error in the name, as text.
pub fn parse_name(text: &str) -> Result<Name, String> {
    if !text.starts_with('/') && !text.starts_with("ndn:/") {
        return Err(format!("`{text}` is not a name: a name begins with a slash, as `/{text}` does"));
    }
    text.parse().map_err(|error| format!("`{text}` is not a name: {error}"))
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NameText(Name);

impl<'de> Deserialize<'de> for NameText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer, "a name such as \"/lab/data\"", |text| parse_name(text).map(NameText))
    }
}

/// A URI of any kind.
struct UriText(FaceUri);

impl<'de> Deserialize<'de> for UriText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer, URI, |text| parse_uri(text).map(UriText))
    }
}

/// A URI that a router can listen on.
#[derive(PartialEq, Eq)]
struct ListenText(FaceUri);

impl<'de> Deserialize<'de> for ListenText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer, URI, |text| check_listen_uri(parse_uri(text)?).map(ListenText))
    }
}

/// A network.
struct SubnetText(Subnet);

impl<'de> Deserialize<'de> for SubnetText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| match text.parse::<Subnet>() {
            Ok(subnet) => Ok(SubnetText(subnet)),
            Err(error) => Err(format!("{error}")),
        };
        parsed(deserializer, "a network such as \"192.0.2.0/24\"", parse)
    }
}

/// The expected text of a URI.
const URI: &str = "a URI such as \"udp://192.0.2.1:6363\"";

fn parse_uri(text: &str) -> Result<FaceUri, String> {
    text.parse().map_err(|error| format!("`{text}`: {error}"))
}

/// Parses text. An error has the position of the text, in a list, too.
pub(super) fn parsed<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &'static str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    deserializer.deserialize_str(TextVisitor { expected, parse })
}

struct TextVisitor<T> {
    expected: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<T> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

struct ListVisitor<T>(Admit<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element_seed(ListEntry { before: &list, admit: self.0 })? {
            list.push(entry);
        }
        Ok(list)
    }
}

/// An entry of a list. It is read as a newtype, because the parser adds the position of a newtype
/// to an error without one.
struct ListEntry<'a, T> {
    before: &'a [T],
    admit: Admit<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for ListEntry<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_newtype_struct("ListEntry", self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListEntry<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an entry of a list")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        let entry = T::deserialize(deserializer)?;
        (self.admit)(self.before, &entry).map_err(D::Error::custom)?;
        Ok(entry)
    }
}

struct OctetsVisitor;

impl Visitor<'_> for OctetsVisitor {
    type Value = u64;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number of octets, or text such as \"256MiB\"")
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<u64, E> {
        u64::try_from(n).map_err(|_| E::invalid_value(Unexpected::Signed(n), &self))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        parse_octets(text).map_err(E::custom)
    }
}
