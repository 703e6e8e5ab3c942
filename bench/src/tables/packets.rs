//! Packets with any number of distinct names, without encoding each. The name of a template is
//! overwritten in place, in buffers that are reused once the core has released them.

use std::sync::Arc;

use namely_wire::{DataBuilder, InterestBuilder, Name, SignatureInfo};

/// Octets of content in each Data.
pub const DATA_CONTENT_OCTETS: usize = 64;

/// Number of first components: as many as networks announce routes.
const NETWORKS: u64 = 4096;

/// The names of routes and the names under them.
///
/// A route is `/net-NNNN/node-NNNNNNNN`, and for half of them `/svc-NNNNNNNN` below that: 25 or 39
/// octets. A packet's name continues with constant components and ends in a unique number.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// Number of routes.
    pub routes: u64,
    /// Components of a packet's name; 4 or more.
    pub components: usize,
}

impl Names {
    /// Returns the name of route number `route`.
    pub fn route(&self, route: u64) -> Name {
        let name = Name::new()
            .join_generic(format!("net-{:04x}", route % NETWORKS))
            .join_generic(format!("node-{route:08x}"));
        if service(route).is_multiple_of(2) {
            name
        } else {
            name.join_generic(format!("svc-{:08x}", service(route)))
        }
    }

    fn example(&self) -> Name {
        let name = Name::new()
            .join_generic(format!("net-{:04x}", 0))
            .join_generic(format!("node-{:08x}", 0))
            .join_generic(format!("svc-{:08x}", 0));
        let name = (4..self.components).fold(name, |name, i| name.join_generic(format!("part-{i:02}")));
        name.join_generic(format!("seq-{:016x}", 0))
    }
}

/// Returns the number in a route's third component.
fn service(route: u64) -> u64 {
    scramble(route) & 0xffff_ffff
}

/// Spreads consecutive numbers (the finalizer of SplitMix64).
fn scramble(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A packet with an overwritable name and, in an Interest, Nonce.
#[derive(Clone, Debug)]
pub struct Template {
    octets: Vec<u8>,
    routes: u64,
    network: usize,
    node: usize,
    service: usize,
    sequence: usize,
    nonce: Option<usize>,
}

/// A Nonce by which its position in a template is found.
const NONCE: [u8; 4] = [0xa5, 0x5a, 0xc3, 0x3c];

impl Template {
    /// Creates an Interest that stays pending for `lifetime_ms`.
    pub fn interest(names: Names, lifetime_ms: u64) -> Self {
        let octets = InterestBuilder::new(names.example()).nonce(NONCE).lifetime_ms(lifetime_ms).build();
        Template { nonce: Some(position(&octets, &NONCE)), ..Template::new(octets, names) }
    }

    /// Creates a Data with [`DATA_CONTENT_OCTETS`] of content and an empty digest. The core does
    /// not verify it.
    pub fn data(names: Names) -> Self {
        let name = names.example();
        let unsigned = DataBuilder::new(name.as_name())
            .build(&[0; DATA_CONTENT_OCTETS], &SignatureInfo::digest_sha256());
        Template::new(unsigned.finish(&[0; 32]), names)
    }

    fn new(octets: Vec<u8>, names: Names) -> Self {
        let after = |label: &[u8]| position(&octets, label) + label.len();
        Template {
            routes: names.routes,
            network: after(b"net-"),
            node: after(b"node-"),
            service: after(b"svc-"),
            sequence: after(b"seq-"),
            nonce: None,
            octets,
        }
    }

    /// Writes the packet with `number` in its name into `buffer`. `nonce` only matters to
    /// Interests.
    fn write(&self, buffer: &mut [u8], number: u64, nonce: u64) {
        let route = scramble(number) % self.routes;
        buffer.copy_from_slice(&self.octets);
        hex(&mut buffer[self.network..self.network + 4], route % NETWORKS);
        hex(&mut buffer[self.node..self.node + 8], route);
        hex(&mut buffer[self.service..self.service + 8], service(route));
        hex(&mut buffer[self.sequence..self.sequence + 16], number);
        if let Some(at) = self.nonce {
            buffer[at..at + 4].copy_from_slice(&(scramble(nonce) as u32).to_be_bytes());
        }
    }
}

fn position(octets: &[u8], label: &[u8]) -> usize {
    octets.windows(label.len()).position(|window| window == label).expect("the template has its label")
}

fn hex(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 15) as usize];
        value >>= 4;
    }
}

/// Buffers of one kind of packet, used round-robin. A buffer that the core still holds is skipped.
#[derive(Debug)]
pub struct Ring {
    template: Template,
    buffers: Vec<Arc<[u8]>>,
    at: usize,
}

impl Ring {
    /// Creates a ring of `buffers`, all in memory from the start.
    pub fn new(template: Template, buffers: usize) -> Self {
        let buffers = (0..buffers).map(|_| template.octets.clone().into()).collect();
        Ring { template, buffers, at: 0 }
    }

    /// Returns the packet with `number` in its name, in a buffer without other references. A ring
    /// without a free buffer grows.
    pub fn packet(&mut self, number: u64, nonce: u64) -> Arc<[u8]> {
        for _ in 0..self.buffers.len() {
            let at = self.at;
            self.at = (at + 1) % self.buffers.len();
            if let Some(buffer) = Arc::get_mut(&mut self.buffers[at]) {
                self.template.write(buffer, number, nonce);
                return self.buffers[at].clone();
            }
        }
        let mut buffer: Arc<[u8]> = self.template.octets.clone().into();
        if let Some(buffer) = Arc::get_mut(&mut buffer) {
            self.template.write(buffer, number, nonce);
        }
        self.buffers.push(buffer.clone());
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_wire::{DataView, InterestView};

    #[test]
    fn table_packets_have_distinct_matching_names() {
        for components in [4, 8, 16] {
            let names = Names { routes: 100, components };
            let mut interests = Ring::new(Template::interest(names, 4000), 2);
            let mut data = Ring::new(Template::data(names), 2);
            for number in 0..200 {
                let (request, answer) = (interests.packet(number, number), data.packet(number, 0));
                let interest = InterestView::parse(&request).expect("an Interest");
                let route = names.route(scramble(number) % 100);
                assert_eq!(interest.name.len(), components);
                assert!(route.is_prefix_of(interest.name), "{route}");
                assert_eq!(DataView::parse(&answer).expect("a Data").name, interest.name);
                assert_ne!(interests.packet(number + 1, number), request);
            }
        }
    }

    #[test]
    fn a_held_buffer_is_never_overwritten() {
        let names = Names { routes: 10, components: 4 };
        let mut ring = Ring::new(Template::data(names), 2);
        let held: Vec<Arc<[u8]>> = (0..5).map(|number| ring.packet(number, 0)).collect();
        let copies: Vec<Vec<u8>> = held.iter().map(|packet| packet.to_vec()).collect();
        (5..20).for_each(|number| drop(ring.packet(number, 0)));
        assert!(held.iter().zip(&copies).all(|(packet, copy)| **packet == **copy));
        assert_eq!(ring.buffers.len(), 6);
    }
}
