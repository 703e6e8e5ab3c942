//! Datagrams that the kernel dropped because a socket's buffer was full.

use std::collections::HashMap;

/// Returns the drops of the UDP sockets in this network namespace by inode, for sockets that have
/// drops. The map is empty if the system does not list them. The call reads files, so it is not for
/// the data path.
pub fn kernel_drops() -> HashMap<u64, u64> {
    // This thread may be in another network namespace than the first thread of the process.
    ["/proc/thread-self/net/udp", "/proc/thread-self/net/udp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .flat_map(|table| parse(&table))
        .collect()
}

/// Returns the columns "inode" and "drops" of the lines with drops in a table such as
/// `/proc/net/udp`, without its heading.
fn parse(table: &str) -> Vec<(u64, u64)> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            // Few of thousands of sockets have drops, so the other lines are not parsed further.
            let drops = line.rsplit(' ').find(|column| !column.is_empty()).filter(|n| *n != "0")?;
            Some((line.split_whitespace().nth(9)?.parse().ok()?, drops.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_drops_are_parsed_as_printed() {
        let table = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout \
                     inode ref pointer drops\n  \
                     123: 0100007F:18EB 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 \
                     77501 2 00000000f1 42\n  \
                     124: 0100007F:18EC 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 \
                     77502 2 00000000f2 0         \n short line\n";
        assert_eq!(parse(table), [(77501, 42)]);
    }
}
