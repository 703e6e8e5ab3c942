//! The one entry point of the core: the module's requests, as declared by `struct nn_call` of
//! nnet.h.

use alloc::boxed::Box;
use core::ffi::c_void;

use namely_forwarder::FaceId;
use namely_wire::NameRef;

use crate::home::Embedder;
use crate::instance::{Answer, Instance, Limits, Refused, planted_panic};
use crate::packets::{Link, LinkAddress, Workspace, set_mtu, tick, whole_name};
use crate::rows::link_rows;
use crate::skb::Skb;
use crate::sockets::{self, PacketFields};
use crate::store;
use namely_window::Transfer;

/// A frame of a device or a packet of a socket: `struct nn_arrived`.
#[repr(C)]
struct ReceivedFrame {
    skb: *mut c_void,
    link: *const Link,
    face: u64,
    len: u32,
    from: LinkAddress,
}

/// A request. The module fills in the fields that the operation uses and reads the fields of its
/// answer. Unused fields are null or 0.
#[repr(C)]
struct Call {
    op: u32,
    /// The number of frames in `arrived`.
    count: u32,
    home: *mut c_void,
    instance: *mut Instance,
    workspace: *mut Workspace,
    link: *mut Link,
    arrived: *const ReceivedFrame,
    limits: *const Limits,
    name: *const u8,
    more: *const u8,
    name_len: u32,
    more_len: u32,
    face: u64,
    value: u64,
    now_ns: u64,
    /// The answer, or the negative error number of a refusal.
    answer: i64,
    transfer: *mut Transfer,
    said: *mut PacketFields,
    /// The buffer in which the packet is made; it contains the content already.
    space: *mut u8,
    /// The sk_buff that was made, with its reference.
    skb: *mut c_void,
    space_len: u32,
}

/// The operations, by their numbers in nnet.h.
mod op {
    pub(super) const MAKE: u32 = 0;
    pub(super) const FREE: u32 = 1;
    pub(super) const MAKE_WORKSPACE: u32 = 2;
    pub(super) const FREE_WORKSPACE: u32 = 3;
    pub(super) const MAKE_LINK: u32 = 4;
    pub(super) const FREE_LINK: u32 = 5;
    pub(super) const PACKETS: u32 = 6;
    pub(super) const EXPIRE: u32 = 7;
    pub(super) const FACE_REGISTER: u32 = 8;
    pub(super) const FACE_RELEASE: u32 = 9;
    pub(super) const ROUTE_ADD: u32 = 10;
    pub(super) const ROUTE_REMOVE: u32 = 11;
    pub(super) const BIND: u32 = 12;
    pub(super) const STRATEGY_SET: u32 = 13;
    pub(super) const STRATEGY_UNSET: u32 = 14;
    pub(super) const CS_LIMIT: u32 = 15;
    pub(super) const CS_ERASE: u32 = 16;
    pub(super) const ROWS: u32 = 17;
    pub(super) const LINK_ROWS: u32 = 18;
    pub(super) const LINK_TICK: u32 = 19;
    pub(super) const PANIC: u32 = 20;
    pub(super) const LINK_MTU: u32 = 21;
    pub(super) const CS_SHRINK: u32 = 22;
    pub(super) const WHOLE_NAME: u32 = 23;
    pub(super) const UNBIND: u32 = 24;
    pub(super) const SAID: u32 = 40;
    pub(super) const INTEREST: u32 = 41;
    pub(super) const DATA: u32 = 42;
    pub(super) const TRANSFER_MAKE: u32 = 43;
    pub(super) const TRANSFER_FREE: u32 = 44;
    pub(super) const TRANSFER_NEXT: u32 = 45;
    pub(super) const TRANSFER_TELL: u32 = 46;
    pub(super) const MAKE_ROOM: u32 = 60;
    pub(super) const STORE_ANSWERED: u32 = 80;
}

/// Performs the operation that `call` requests.
///
/// # Safety
///
/// `call` is a `struct nn_call` that has no other user during the call. The pointers that the
/// operation uses stay valid until the call ends: objects that a `MAKE…` returned and no `FREE…`
/// has freed, an array of `count` elements, and `…_len` octets. No other call uses the workspace.
/// Each `skb` of an array is linear, is not written from now on, and passes one reference to the
/// core. `FREE…` is called when no other call uses the object that it frees. Bottom halves are off,
/// except for `MAKE…` and `FREE…`. RCU's read lock is held if the operation processes packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nn_call(call: *mut c_void) {
    // SAFETY: the caller's `struct nn_call`, which has no other user during the call.
    let call = unsafe { &mut *call.cast::<Call>() };
    // SAFETY: as demanded above.
    let answer = unsafe { perform(call) };
    call.answer = match answer {
        Ok(value) => value as i64,
        Err(refused) => refused as i64,
    };
}

/// # Safety
///
/// As [`nn_call`].
unsafe fn perform(call: &mut Call) -> Answer {
    match call.op {
        // SAFETY: as demanded of `nn_call`.
        op::MAKE..=op::FREE_LINK => return unsafe { make_or_free(call) },
        op::PANIC => planted_panic(call.value),
        // SAFETY: as demanded of `nn_call`.
        op::SAID..=op::TRANSFER_TELL => return unsafe { for_sockets(call) },
        op::WHOLE_NAME => return octets(call.name, call.name_len).map(whole_name),
        _ => {}
    }
    // SAFETY: every other operation has an instance, which is only shared.
    let instance = unsafe { call.instance.as_ref() }.ok_or(Refused::Io)?;
    // SAFETY: the home of that instance.
    let home = unsafe { Embedder::from_raw(call.home) };
    let face = FaceId(call.face);
    match call.op {
        op::PACKETS | op::EXPIRE => {
            // SAFETY: a workspace that is in no other call.
            let workspace = unsafe { call.workspace.as_mut() }.ok_or(Refused::Io)?;
            if call.op == op::EXPIRE {
                return instance.expire(&mut workspace.queue, home, call.now_ns);
            }
            // SAFETY: an array of `count` elements; the reference of each passes to the core.
            let links_due = unsafe { take_all(call, workspace) };
            Ok(workspace.run(instance, home, call.value != 0, call.now_ns).min(links_due))
        }
        op::STORE_ANSWERED => {
            // SAFETY: a workspace that is in no other call.
            let workspace = unsafe { call.workspace.as_mut() }.ok_or(Refused::Io)?;
            let data = octets(call.more, call.more_len)?;
            let data = (!data.is_empty()).then_some((data, call.face));
            store::answered(instance, workspace, home, call.value, data, call.now_ns)
        }
        op::FACE_REGISTER => instance.face_register(call.value),
        op::FACE_RELEASE => instance.face_release(face),
        op::ROUTE_ADD => instance.route_add(name(call)?, face, call.value),
        op::ROUTE_REMOVE => instance.route_remove(name(call)?, face),
        op::BIND => instance.bind(face, name(call)?),
        op::UNBIND => instance.unbind(face, name(call)?),
        op::STRATEGY_SET => instance.strategy_set(name(call)?, more(call)?),
        op::STRATEGY_UNSET => instance.strategy_unset(name(call)?),
        op::MAKE_ROOM => instance.make_room(call.value, name(call)?),
        op::CS_LIMIT => instance.cs_limit(call.value),
        op::CS_SHRINK => instance.cs_shrink(),
        op::CS_ERASE => instance.cs_erase(name(call)?, call.value),
        op::ROWS => instance.rows(home, call.value, call.face),
        op::LINK_ROWS | op::LINK_TICK | op::LINK_MTU => {
            // SAFETY: a link of a face, which is only shared.
            let link = unsafe { call.link.as_ref() }.ok_or(Refused::Io)?;
            match call.op {
                op::LINK_ROWS => link_rows(home, link),
                op::LINK_TICK => Ok(tick(link, call.now_ns)),
                _ => set_mtu(link, call.value),
            }
        }
        _ => Err(Refused::Invalid),
    }
}

/// # Safety
///
/// As [`nn_call`], with an operation that makes or frees.
#[inline(never)]
unsafe fn make_or_free(call: &mut Call) -> Answer {
    match call.op {
        op::MAKE => {
            // SAFETY: the limits are read during the call.
            let limits = unsafe { call.limits.as_ref() }.ok_or(Refused::Invalid)?;
            let seed = u128::from(call.value) << 64 | u128::from(call.face);
            call.instance = Box::into_raw(Instance::new(limits, seed)?);
        }
        op::MAKE_WORKSPACE => call.workspace = Box::into_raw(Workspace::new()?),
        op::MAKE_LINK => {
            // SAFETY: the instance is only shared.
            let instance = unsafe { call.instance.as_ref() }.ok_or(Refused::Io)?;
            // SAFETY: an instance does not move until it is freed. nnet_net_exit_batch frees it
            // only after all its links; an instance that has stopped is never freed.
            let total = unsafe { &*core::ptr::from_ref(&instance.reassembly) };
            call.link = Box::into_raw(Instance::make_link(total, call.value, call.now_ns)?);
        }
        // SAFETY: each is a pointer that a `MAKE…` returned. It is in no other call, and it is not
        // used again.
        op::FREE => drop(unsafe { Box::from_raw(call.instance) }),
        // SAFETY: as above.
        op::FREE_WORKSPACE => drop(unsafe { Box::from_raw(call.workspace) }),
        // SAFETY: as above.
        _ => drop(unsafe { Box::from_raw(call.link) }),
    }
    Ok(0)
}

/// # Safety
///
/// As [`nn_call`], with an operation of `sockets`.
#[inline(never)]
unsafe fn for_sockets(call: &mut Call) -> Answer {
    match call.op {
        op::TRANSFER_MAKE => {
            if name(call)?.is_empty() {
                return Err(Refused::Invalid);
            }
            call.transfer = sockets::make_transfer()?;
            return Ok(0);
        }
        op::TRANSFER_FREE => {
            // SAFETY: a pointer that TRANSFER_MAKE returned. It is in no other call, and it is not
            // used again.
            drop(unsafe { Box::from_raw(call.transfer) });
            return Ok(0);
        }
        op::TRANSFER_NEXT => {
            // SAFETY: a pointer that TRANSFER_MAKE returned; the module lets one call at a time use
            // it.
            let transfer = unsafe { call.transfer.as_mut() }.ok_or(Refused::Io)?;
            let (step, made, until_ns) =
                sockets::next(transfer, name(call)?, call.count, call.value, call.now_ns)?;
            call.skb = made.map_or(core::ptr::null_mut(), Skb::into_raw);
            call.value = until_ns;
            return Ok(step);
        }
        _ => {}
    }
    // SAFETY: the other operations pass a `said` that only this call uses.
    let said = unsafe { call.said.as_mut() }.ok_or(Refused::Io)?;
    match call.op {
        op::SAID => sockets::read(octets(call.name, call.name_len)?, said),
        op::INTEREST => {
            call.skb = sockets::interest(name(call)?, said, call.value)?.into_raw();
            Ok(0)
        }
        op::DATA => {
            if call.space.is_null() {
                return Err(Refused::Invalid);
            }
            // SAFETY: `space_len` octets of a buffer that only this call uses.
            let space = unsafe { core::slice::from_raw_parts_mut(call.space, call.space_len as usize) };
            sockets::data(name(call)?, octets(call.more, call.more_len)?, said, space)
        }
        _ => {
            // SAFETY: a pointer that TRANSFER_MAKE returned; the module lets one call at a time use
            // it.
            let transfer = unsafe { call.transfer.as_mut() }.ok_or(Refused::Io)?;
            let answer = sockets::tell(transfer, said, call.now_ns);
            call.value = transfer.first_missing();
            answer
        }
    }
}

/// # Safety
///
/// `arrived` is an array of `count` elements. Each sk_buff in it passes one reference to the core.
unsafe fn take_all(call: &Call, workspace: &mut Workspace) -> u64 {
    let mut due_ns = u64::MAX;
    for n in 0..call.count as usize {
        // SAFETY: within the array.
        let arrived = unsafe { &*call.arrived.add(n) };
        // SAFETY: linear, of that length, and the reference passes to the core.
        let frame = unsafe { Skb::from_raw(arrived.skb, arrived.len) };
        // SAFETY: the link of a face, which RCU keeps.
        let Some(link) = (unsafe { arrived.link.as_ref() }) else { continue };
        due_ns = due_ns.min(workspace.take(link, FaceId(arrived.face), frame, arrived.from, call.now_ns));
    }
    due_ns
}

/// The name in a call.
fn name(call: &Call) -> Result<NameRef<'_>, Refused> {
    parse(call.name, call.name_len)
}

/// The second name in a call.
fn more(call: &Call) -> Result<NameRef<'_>, Refused> {
    parse(call.more, call.more_len)
}

fn parse<'a>(start: *const u8, len: u32) -> Result<NameRef<'a>, Refused> {
    NameRef::parse_value(octets(start, len)?).map_err(|_| Refused::Invalid)
}

fn octets<'a>(start: *const u8, len: u32) -> Result<&'a [u8], Refused> {
    if start.is_null() {
        return if len == 0 { Ok(&[]) } else { Err(Refused::Invalid) };
    }
    // SAFETY: the call passes `len` octets, which are valid until it ends.
    Ok(unsafe { core::slice::from_raw_parts(start, len as usize) })
}
