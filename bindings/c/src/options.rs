//! Options by number: the option of `namely-socket` for each `ICN_OPT_…`, and the values in the
//! form of C.

use libc::c_int;
use namely_socket::OptionSpec;
use namely_socket::options::{Kind, OPTIONS};

use crate::failure::{Errno, Failure};
use crate::socket::{SocketState, find};
use crate::types::*;

/// The number of each option, which never changes, and its name in the other bindings.
const NUMBERS: &[(c_int, &str)] = &[
    (ICN_OPT_ROUTER, "router"),
    (ICN_OPT_TRUST_ROUTER_OF, "trust_router_of"),
    (ICN_OPT_KEYCHAIN, "keychain"),
    (ICN_OPT_IDENTITY, "identity"),
    (ICN_OPT_TRUST, "trust"),
    (ICN_OPT_CONGESTION, "congestion"),
    (ICN_OPT_WINDOW_MAX, "window_max"),
    (ICN_OPT_RATE_MAX, "rate_max"),
    (ICN_OPT_LIFETIME_MS, "lifetime_ms"),
    (ICN_OPT_RETRIES, "retries"),
    (ICN_OPT_STALE_S, "stale_s"),
    (ICN_OPT_TIMEOUT_MS, "timeout_ms"),
    (ICN_OPT_OBJECT_OCTETS_MAX, "object_octets_max"),
    (ICN_OPT_MANIFEST, "manifest"),
    (ICN_OPT_PACKET_OCTETS_MAX, "packet_octets_max"),
    (ICN_OPT_MTU, "mtu"),
    (ICN_OPT_PATH_OCTETS, "path_octets"),
    (ICN_OPT_CERTIFICATE_ENDS_S, "certificate_ends_s"),
    (ICN_OPT_FRESHNESS_MS, "freshness_ms"),
    (ICN_OPT_RELIABLE, "reliable"),
    (ICN_OPT_SUITE, "suite"),
    (ICN_OPT_BUFFER_OCTETS, "buffer_octets"),
    (ICN_OPT_BUFFER_POLICY, "buffer_policy"),
    (ICN_OPT_STORE, "store"),
    (ICN_OPT_STORE_OCTETS, "store_octets"),
    (ICN_OPT_REQUESTS_MAX, "requests_max"),
    (ICN_OPT_PENDING_MS, "pending_ms"),
    (ICN_OPT_SEGMENT_OCTETS, "segment_octets"),
    (ICN_OPT_ANNOUNCE, "announce"),
    (ICN_OPT_ON_BAD_SEGMENT, "on_bad_segment"),
    (ICN_OPT_REVOCATION, "revocation"),
    (ICN_OPT_BACKLOG_SEGMENTS, "backlog_segments"),
    (ICN_OPT_BACKLOG_OCTETS, "backlog_octets"),
    (ICN_OPT_VERIFY_THREADS, "verify_threads"),
    (ICN_OPT_MUST_BE_FRESH, "must_be_fresh"),
    (ICN_OPT_CAN_BE_PREFIX, "can_be_prefix"),
    (ICN_OPT_READ_AHEAD_OCTETS, "read_ahead_octets"),
];

/// `icn_setsockopt`.
pub(crate) fn set(number: c_int, level: c_int, option: c_int, value: &[u8]) -> Result<(), Failure> {
    let spec = spec(level, option)?;
    let text = text_of(spec.kind, value)?;
    let socket = find(number)?;
    let mut state = socket.state();
    match &mut *state {
        SocketState::NewConsumer(options) => options.set(spec.name, &text)?,
        SocketState::NewProducer(options) => options.set(spec.name, &text)?,
        SocketState::Consumer(consumer) => consumer.set_option(spec.name, &text)?,
        SocketState::Producer(producer) => producer.set_option(spec.name, &text)?,
    }
    Ok(())
}

/// `icn_getsockopt`. Returns the number of octets that the value takes in `room`.
pub(crate) fn get(number: c_int, level: c_int, option: c_int, room: &mut [u8]) -> Result<usize, Failure> {
    let spec = spec(level, option)?;
    let socket = find(number)?;
    let text = match &*socket.state() {
        SocketState::NewConsumer(options) => options.get(spec.name)?,
        SocketState::NewProducer(options) => options.get(spec.name)?,
        SocketState::Consumer(consumer) => consumer.option(spec.name)?,
        SocketState::Producer(producer) => producer.option(spec.name)?,
    };
    let value = octets_of(spec.kind, &text, room.len())?;
    let short =
        || Failure::new(libc::EINVAL, format!("the value of {} takes {} octets", spec.name, value.len()));
    room.get_mut(..value.len()).ok_or_else(short)?.copy_from_slice(&value);
    Ok(value.len())
}

fn spec(level: c_int, option: c_int) -> Result<&'static OptionSpec, Failure> {
    let name = NUMBERS.iter().find(|(number, _)| level == SOL_ICN && *number == option);
    let spec = name.and_then(|(_, name)| OPTIONS.iter().find(|spec| spec.name == *name));
    spec.ok_or_else(|| {
        Failure::new(libc::ENOPROTOOPT, format!("there is no option {option} at level {level:#x}"))
    })
}

/// Converts a value of C to the text that options take.
fn text_of(kind: Kind, value: &[u8]) -> Result<String, Failure> {
    let number = || match value.len() {
        4 => value.try_into().ok().map(|octets| i64::from(c_int::from_ne_bytes(octets))),
        8 => value.try_into().ok().map(i64::from_ne_bytes),
        _ => None,
    };
    let wrong = |what| Failure::new(libc::EINVAL, format!("the value must be {what}"));
    match kind {
        Kind::Number { .. } | Kind::ReadOnly => {
            Ok(number().ok_or_else(|| wrong("int or int64_t"))?.to_string())
        }
        Kind::Flag => Ok((number().ok_or_else(|| wrong("int or int64_t"))? != 0).to_string()),
        Kind::Text | Kind::Choice(_) => {
            let text = value.strip_suffix(&[0]).unwrap_or(value);
            Ok(std::str::from_utf8(text).map_err(|_| wrong("UTF-8 text"))?.into())
        }
    }
}

/// Converts the text of an option to its form in C, for `room` octets.
fn octets_of(kind: Kind, text: &str, room: usize) -> Result<Vec<u8>, Failure> {
    let number: i64 = match kind {
        Kind::Text | Kind::Choice(_) => return Ok([text.as_bytes(), &[0]].concat()),
        Kind::Flag => i64::from(text == "true"),
        // A limit above the maximum of an int64_t has no effect.
        Kind::Number { .. } | Kind::ReadOnly => {
            text.parse::<u64>().map_or(i64::MAX, |n| n.try_into().unwrap_or(i64::MAX))
        }
    };
    if room >= 8 {
        return Ok(number.to_ne_bytes().to_vec());
    }
    let number = c_int::try_from(number).map_err(|_| Errno(libc::EINVAL))?;
    Ok(number.to_ne_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_one_number() {
        let mut names: Vec<&str> = NUMBERS.iter().map(|(_, name)| *name).collect();
        let mut known: Vec<&str> = OPTIONS.iter().map(|spec| spec.name).collect();
        names.sort_unstable();
        known.sort_unstable();
        // Both kinds of socket have `reliable`.
        known.dedup();
        assert_eq!(names, known, "give each new option a number and a constant ICN_OPT_… of its own");
        let mut numbers: Vec<c_int> = NUMBERS.iter().map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), NUMBERS.len());
    }

    #[test]
    fn c_option_values_convert_to_text_and_back() {
        let number = Kind::Number { min: 0, max: u64::MAX };
        assert_eq!(text_of(number, &7i32.to_ne_bytes()).unwrap(), "7");
        assert_eq!(text_of(number, &(1i64 << 40).to_ne_bytes()).unwrap(), "1099511627776");
        assert_eq!(text_of(number, &(-1i32).to_ne_bytes()).unwrap(), "-1", "which the option then refuses");
        assert_eq!(text_of(number, &[0; 3]).unwrap_err().errno, libc::EINVAL);
        assert_eq!(text_of(Kind::Flag, &1i32.to_ne_bytes()).unwrap(), "true");
        assert_eq!(text_of(Kind::Text, b"cubic\0").unwrap(), "cubic");
        assert_eq!(text_of(Kind::Text, &[0xff]).unwrap_err().errno, libc::EINVAL);
        assert_eq!(octets_of(number, "7", 4).unwrap(), 7i32.to_ne_bytes());
        assert_eq!(octets_of(number, "1099511627776", 8).unwrap(), (1i64 << 40).to_ne_bytes());
        assert_eq!(octets_of(number, "1099511627776", 4).unwrap_err().errno, libc::EINVAL);
        assert_eq!(octets_of(Kind::Text, "cubic", 100).unwrap(), b"cubic\0");
    }
}
