//! Networks of IP addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network: an address, and the number of its leading bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    address: IpAddr,
    bits: u8,
}

impl Subnet {
    /// Returns true if `address` is in the network. An IPv4 address written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                leading(u128::from(own.to_bits()) << 96, self.bits)
                    == leading(u128::from(other.to_bits()) << 96, self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                leading(own.to_bits(), self.bits) == leading(other.to_bits(), self.bits)
            }
            _ => false,
        }
    }
}

fn leading(address: u128, bits: u8) -> u128 {
    // A shift by all 128 bits is no shift in Rust; without any bit all addresses are equal.
    if bits == 0 { 0 } else { address >> (128 - u32::from(bits)) }
}

/// Caller: a text that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no network: write 192.0.2.0/24 or 2001:db8::/32")]
pub struct SubnetError(String);

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, SubnetError> {
        let refuse = || SubnetError(text.to_owned());
        let (address, bits) = text.split_once('/').ok_or_else(refuse)?;
        let address: IpAddr = address.parse().map_err(|_| refuse())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(refuse)?;
        Ok(Subnet { address, bits })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_contains_only_its_addresses() {
        for (network, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.7/32", "192.0.2.7", "192.0.2.6"),
            ("10.0.0.0/9", "10.127.255.255", "10.128.0.0"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("2001:db8::/32", "2001:db8:ffff::", "2001:db9::"),
            ("::1/128", "::1", "::2"),
            ("192.0.2.0/24", "::ffff:192.0.2.1", "::ffff:192.0.3.1"),
        ] {
            let subnet: Subnet = network.parse().unwrap();
            assert!(subnet.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!subnet.contains(outside.parse().unwrap()), "{network} {outside}");
        }
    }

    #[test]
    fn an_invalid_subnet_is_refused() {
        for text in ["192.0.2.0", "192.0.2.0/33", "::/129", "x/8", "192.0.2.0/", "/8", "192.0.2.0/-1"] {
            assert!(text.parse::<Subnet>().unwrap_err().to_string().contains("192.0.2.0/24"), "{text}");
        }
    }
}
