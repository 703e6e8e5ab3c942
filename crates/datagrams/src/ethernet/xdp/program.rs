//! The program that runs in the kernel for each frame that a device receives. NDN frames to this
//! device and to groups are redirected to the socket of their receive queue. All other frames pass
//! as if there were no program.
//!
//! Instructions are those of the kernel's `Documentation/bpf/standardization/instruction-set.rst`.

use namely_wire::MacAddress;

use super::super::ETHERTYPE;
use super::super::frame::HEADER_OCTETS;

/// One instruction, as the kernel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    /// Destination in the lower half, source in the upper one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Offsets of the fields of `struct xdp_md` that are read.
const DATA_AT: i16 = 0;
const DATA_END_AT: i16 = 4;
const RX_QUEUE_AT: i16 = 16;

/// Offset of a frame's EtherType, behind two addresses.
const ETHERTYPE_AT: i16 = 12;

/// The frame passes to the kernel's network stack.
const XDP_PASS: i32 = 2;

/// `bpf_redirect_map(map, key, flags)`; the last bits of the flags are the action if the map has no
/// entry.
const REDIRECT_MAP: i32 = 51;

/// Marks a wide load (two instructions) whose value is the map with the given descriptor.
const PSEUDO_MAP_FD: u8 = 1;

/// Jumps are patched to end at the last two instructions.
const TO_PASS: i16 = i16::MAX;

const fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, immediate }
}

/// `to = *(u32 *)(from + offset)`
const fn load32(to: u8, from: u8, offset: i16) -> Instruction {
    instruction(0x61, to, from, offset, 0)
}

/// `to = *(u16 *)(from + offset)`
const fn load16(to: u8, from: u8, offset: i16) -> Instruction {
    instruction(0x69, to, from, offset, 0)
}

/// `to = immediate`
const fn set(to: u8, immediate: i32) -> Instruction {
    instruction(0xb7, to, 0, 0, immediate)
}

/// `if register != value goto pass`, for two octets of a frame.
const fn pass_unless(register: u8, octets: [u8; 2]) -> Instruction {
    instruction(0x55, register, 0, TO_PASS, u16::from_ne_bytes(octets) as i32)
}

/// Returns the program for the link address `address`, with the map of sockets that has the
/// descriptor `map`.
pub(super) fn redirect_ndn(address: MacAddress, map: i32) -> Vec<Instruction> {
    let [a, b, c, d, e, f] = address.0;
    let mut program = vec![
        load32(2, 1, DATA_AT),                            // r2 = the frame
        load32(3, 1, DATA_END_AT),                        // r3 = behind it
        instruction(0xbf, 4, 2, 0, 0),                    // r4 = r2
        instruction(0x07, 4, 0, 0, HEADER_OCTETS as i32), // r4 += 14
        instruction(0x2d, 4, 3, TO_PASS, 0),              // if r4 > r3 goto pass: no whole header
        load16(5, 2, ETHERTYPE_AT),                       // r5 = EtherType
        pass_unless(5, ETHERTYPE.to_be_bytes()),          //
        instruction(0x71, 5, 2, 0, 0),                    // r5 = the first octet of the destination
        instruction(0x57, 5, 0, 0, 1),                    // r5 &= 1
        instruction(0x55, 5, 0, 6, 0),                    // if r5 != 0 goto take: a group
        load16(5, 2, 0),                                  // the destination, two octets at a time
        pass_unless(5, [a, b]),                           //
        load16(5, 2, 2),                                  //
        pass_unless(5, [c, d]),                           //
        load16(5, 2, 4),                                  //
        pass_unless(5, [e, f]),                           //
        load32(2, 1, RX_QUEUE_AT),                        // take: r2 = the queue, which is the key
        instruction(0x18, 1, PSEUDO_MAP_FD, 0, map),      // r1 = the map
        instruction(0, 0, 0, 0, 0),                       //
        set(3, XDP_PASS),                                 // r3 = the action without a socket
        instruction(0x85, 0, 0, 0, REDIRECT_MAP),         // r0 = bpf_redirect_map(r1, r2, r3)
        instruction(0x95, 0, 0, 0, 0),                    // return r0
        set(0, XDP_PASS),                                 // pass: r0 = XDP_PASS
        instruction(0x95, 0, 0, 0, 0),                    // return r0
    ];
    let pass = program.len() - 2;
    for (at, instruction) in program.iter_mut().enumerate() {
        if instruction.offset == TO_PASS {
            // An offset counts from the next instruction.
            instruction.offset = (pass - at - 1) as i16;
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_xdp_jump_stays_inside_the_program() {
        let program = redirect_ndn(MacAddress([2, 0, 0, 0, 0, 1]), 7);
        let pass = program.len() - 2;
        let jumps: Vec<usize> = program
            .iter()
            .enumerate()
            .filter(|(_, instruction)| matches!(instruction.code, 0x55 | 0x2d))
            .map(|(at, instruction)| at + 1 + instruction.offset as usize)
            .collect();
        let take = program.iter().position(|i| *i == load32(2, 1, RX_QUEUE_AT)).unwrap();
        assert_eq!(jumps, [pass, pass, take, pass, pass, pass]);
        assert_eq!(program[pass], set(0, XDP_PASS));
    }
}
