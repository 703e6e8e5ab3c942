//! Datagrams that the kernel dropped because a socket's buffer was full.

use std::collections::HashMap;

/// Drops by inode of the socket, of every UDP socket in this network namespace. Empty where the
/// system does not show them. Reads files: not for the data path.
pub fn kernel_drops() -> HashMap<u64, u64> {
    ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .flat_map(|table| parse(&table))
        .collect()
}

/// The columns "inode" and "drops" of `/proc/net/udp`, below its heading, where there are drops.
fn parse(table: &str) -> Vec<(u64, u64)> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            // Of thousands of sockets next to none have drops: their lines are not cut up.
            let drops = line.rsplit(' ').find(|column| !column.is_empty()).filter(|n| *n != "0")?;
            Some((line.split_whitespace().nth(9)?.parse().ok()?, drops.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_and_drops_are_read_as_the_kernel_prints_them() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout \
                     inode ref pointer drops\n  \
                     123: 0100007F:18EB 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 \
                     77501 2 00000000f1 42\n  \
                     124: 0100007F:18EC 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 \
                     77502 2 00000000f2 0         \n short line\n";
        assert_eq!(parse(table), [(77501, 42)]);
    }
}
