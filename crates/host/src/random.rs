//! Randomness from the operating system: seeds, secrets and addresses.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// `N` random octets, fit for keys.
///
/// # Errors
/// The environment's: the system has no random octets to give, as in a sandbox that forbids the
/// call.
pub fn random<const N: usize>() -> Result<[u8; N], Errno> {
    let mut octets = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut octets[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::random;

    #[test]
    fn random_octets_fill_the_whole_buffer() {
        // More than 256 octets, which the kernel returns without checking for signals.
        let [one, other] = [(); 2].map(|()| random::<1000>().unwrap());
        assert_ne!(one, other);
        for octets in [one, other] {
            assert!(octets.chunks(50).all(|chunk| chunk.iter().any(|octet| *octet != 0)));
        }
    }
}
