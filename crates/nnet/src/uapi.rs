//! The interface between programs and the kernel's forwarder: the numbers of
//! kernel/module/uapi/nnet.h.

/// The family's number, unless the module's parameter `family` sets another one.
pub const AF_NNET_DEFAULT: u16 = 18;

/// Octets of a name that fit an address.
pub const NNET_NAME_INLINE: usize = 120;

/// Level of the socket's options.
pub const SOL_NNET: i32 = 290;

/// Option: binds a prefix that does not fit an address.
pub const NNET_PREFIX: i32 = 1;

/// Option: the socket's face.
pub const NNET_FACE: i32 = 2;

/// Option: undoes the binding of a prefix.
pub const NNET_UNBIND: i32 = 16;

/// Option: makes the face of a socket that has none, which leads to another machine.
pub const NNET_REMOTE: i32 = 17;

/// The value of [`NNET_REMOTE`] for one neighbor. [`NNET_KIND_GROUP`] is for several.
pub const NNET_KIND_STATION: u32 = 1;
/// See [`NNET_KIND_STATION`].
pub const NNET_KIND_GROUP: u32 = 2;

/// Octets of the longest prefix that can be bound.
pub const NNET_PREFIX_MAX: usize = 8192;

/// Octets of the longest packet of a SOCK_RAW socket, with NDNLPv2's headers.
pub const NNET_PACKET_MAX: usize = 9312;

/// The face that leads from routes to bound sockets.
pub const NNET_FACE_LOCAL: u64 = 1;

/// The name of the generic netlink family.
pub const NNET_GENL_NAME: &str = "nnet";

/// Its multicast group of events.
pub const NNET_GENL_EVENTS: &str = "events";

/// Commands of the netlink family.
#[allow(missing_docs, reason = "uapi/nnet.h documents each")]
pub mod cmd {
    pub const FACE_NEW: u8 = 1;
    pub const FACE_DEL: u8 = 2;
    pub const FACE_GET: u8 = 3;
    pub const ROUTE_NEW: u8 = 4;
    pub const ROUTE_DEL: u8 = 5;
    pub const ROUTE_GET: u8 = 6;
    pub const STRATEGY_NEW: u8 = 7;
    pub const STRATEGY_DEL: u8 = 8;
    pub const STRATEGY_GET: u8 = 9;
    pub const BINDING_GET: u8 = 10;
    pub const CS_SET: u8 = 11;
    pub const CS_ERASE: u8 = 12;
    pub const PANIC: u8 = 13;
    pub const STOPPED: u8 = 14;
}

/// Attributes of its messages.
#[allow(missing_docs, reason = "uapi/nnet.h documents each")]
pub mod attr {
    pub const FACE: u16 = 2;
    pub const KIND: u16 = 3;
    pub const IFINDEX: u16 = 4;
    pub const ADDRESS: u16 = 5;
    pub const NAME: u16 = 6;
    pub const STRATEGY: u16 = 7;
    pub const COST: u16 = 8;
    pub const COUNT: u16 = 9;
    pub const IN: u16 = 10;
    pub const OUT: u16 = 11;
    pub const WHY: u16 = 12;
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = include_str!("../../../kernel/module/uapi/nnet.h");

    /// The value of `#define NAME`.
    fn defined(name: &str) -> u64 {
        let line = HEADER.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).expect(name);
        line.split_whitespace().nth(2).expect(name).parse().expect(name)
    }

    /// The constants of an enum, in their order from 0.
    fn listed(name: &str) -> Vec<&'static str> {
        let (_, after) = HEADER.split_once(&format!("enum {name} {{")).expect(name);
        let (body, _) = after.split_once('}').expect(name);
        body.lines()
            .filter_map(|line| line.trim().split(',').next())
            .filter(|word| word.starts_with("NNET"))
            .collect()
    }

    #[test]
    fn uapi_numbers_match_the_kernel_header() {
        for (name, value) in [
            ("AF_NNET_DEFAULT", u64::from(AF_NNET_DEFAULT)),
            ("NNET_NAME_INLINE", NNET_NAME_INLINE as u64),
            ("SOL_NNET", SOL_NNET as u64),
            ("NNET_PREFIX", NNET_PREFIX as u64),
            ("NNET_FACE", NNET_FACE as u64),
            ("NNET_UNBIND", NNET_UNBIND as u64),
            ("NNET_REMOTE", NNET_REMOTE as u64),
            ("NNET_PREFIX_MAX", NNET_PREFIX_MAX as u64),
            ("NNET_PACKET_MAX", NNET_PACKET_MAX as u64),
            ("NNET_FACE_LOCAL", NNET_FACE_LOCAL),
        ] {
            assert_eq!(defined(name), value, "{name}");
        }
        let kinds = listed("nnet_kind");
        assert_eq!(kinds.get(NNET_KIND_STATION as usize), Some(&"NNET_KIND_STATION"));
        assert_eq!(kinds.get(NNET_KIND_GROUP as usize), Some(&"NNET_KIND_GROUP"));
        let commands = listed("nnet_cmd");
        for (number, name) in [
            (cmd::FACE_NEW, "FACE_NEW"),
            (cmd::FACE_DEL, "FACE_DEL"),
            (cmd::FACE_GET, "FACE_GET"),
            (cmd::ROUTE_NEW, "ROUTE_NEW"),
            (cmd::ROUTE_DEL, "ROUTE_DEL"),
            (cmd::ROUTE_GET, "ROUTE_GET"),
            (cmd::STRATEGY_NEW, "STRATEGY_NEW"),
            (cmd::STRATEGY_DEL, "STRATEGY_DEL"),
            (cmd::STRATEGY_GET, "STRATEGY_GET"),
            (cmd::BINDING_GET, "BINDING_GET"),
            (cmd::CS_SET, "CS_SET"),
            (cmd::CS_ERASE, "CS_ERASE"),
            (cmd::PANIC, "PANIC"),
            (cmd::STOPPED, "STOPPED"),
        ] {
            assert_eq!(commands.get(usize::from(number)).copied(), Some(&*format!("NNET_CMD_{name}")));
        }
        let attributes = listed("nnet_attr");
        for (number, name) in [
            (attr::FACE, "FACE"),
            (attr::KIND, "KIND"),
            (attr::IFINDEX, "IFINDEX"),
            (attr::ADDRESS, "ADDRESS"),
            (attr::NAME, "NAME"),
            (attr::STRATEGY, "STRATEGY"),
            (attr::COST, "COST"),
            (attr::COUNT, "COUNT"),
            (attr::IN, "IN"),
            (attr::OUT, "OUT"),
            (attr::WHY, "WHY"),
        ] {
            assert_eq!(attributes.get(usize::from(number)).copied(), Some(&*format!("NNET_A_{name}")));
        }
    }
}
