//! A network device: who is known on it, what arrives, and what becomes of the device.

use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_datagrams::ethernet::frame::{self, NdnFrame};
use namely_datagrams::ethernet::monitor::{self, Device, Monitor};
use namely_datagrams::ethernet::ring::{Arrived, Ring};
use namely_host::shares::Holder;
use namely_wire::mgmt::FacePersistency;
use namely_wire::{FaceUri, MacAddress};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use super::link::Link;
use super::source::Source;
use super::transport;
use super::xdp::Share;
use crate::buffer::Buffer;
use crate::error::{CloseReason, OpenError};
use crate::faces::{Faces, Handler, WorkerMessage};
use crate::kind::{AcceptContext, Acceptor};
use crate::options::{IoOptions, Xdp};
use crate::port::FacePort;
use crate::sender::Sent;
use crate::status::Remote;

/// Frames with the tag of a VLAN are counted so, and people told once.
const TAGGED: &str = "ether_vlan";

/// While frames keep coming, changes of the device are looked for once in so many turns.
const TURNS_PER_LOOK: u32 = 16;

impl<H: Handler> Faces<H> {
    /// Listens on a device: each station that sends to it gets an on-demand face.
    ///
    /// # Errors
    /// [`OpenError::NoSuchInterface`], [`OpenError::InUse`] when it is listened on already,
    /// [`OpenError::NotPermitted`] without the right to see frames, or what the system says.
    pub fn listen_ethernet(&mut self, name: &str) -> Result<FaceUri, OpenError> {
        let link = self.ethernet_link(name)?;
        if link.is_open.swap(true, Ordering::Relaxed) {
            return Err(OpenError::InUse(FaceUri::Device(name.into()).to_string()));
        }
        Ok(FaceUri::Device(name.into()))
    }

    /// Opens a face to a station or a group on a device.
    ///
    /// # Errors
    /// [`OpenError::BadAddress`] when there is one already, [`OpenError::TooManyFaces`], and as
    /// [`Faces::listen_ethernet`].
    pub fn open_ethernet(
        &mut self,
        name: &str,
        remote: MacAddress,
        persistency: FacePersistency,
    ) -> Result<Arc<FacePort<H::Packet>>, OpenError> {
        let link = self.ethernet_link(name)?;
        let device = find(name)?;
        if remote == device.address || remote == MacAddress([0; 6]) {
            return Err(OpenError::BadAddress(format!("{remote} is no other station on {name}")));
        }
        if !link.claim(remote) {
            return Err(OpenError::BadAddress(format!("there is a face to {remote} on {name} already")));
        }
        // From here on the receiving half gives the claim back when it is dropped.
        let new = transport::transport(&link, &device, remote, persistency, self.options());
        let port = self.add_transport(new.inspect_err(|_| link.forget(remote))?)?;
        link.insert(remote, &port);
        Ok(port)
    }

    /// What is known of a device; it is listened on from now on, if it was not.
    fn ethernet_link(&mut self, name: &str) -> Result<Arc<Link<H::Packet>>, OpenError> {
        let known = self.shared.links.get(name);
        let local = FaceUri::Device(name.into());
        if let Some(link) = &known
            && self.listeners().any(|(uri, _)| *uri == local)
        {
            return Ok(link.clone());
        }
        let device = find(name)?;
        let link = known.unwrap_or_else(|| Link::new(name));
        let (here, readers) = (self.worker(), self.shared.readers_of(&local));
        let share = |index| {
            let remainder = readers.iter().position(|mailbox| mailbox.index() == index)?;
            Some(Share { remainder, readers: readers.len() })
        };
        let open = |is_first, share| {
            DeviceListener::open(link.clone(), device.clone(), is_first, share, self.options())
        };
        let first = open(true, share(here))?;
        let others = readers.iter().filter(|mailbox| mailbox.index() != here);
        let others: Vec<_> = others
            .map(|mailbox| Ok((mailbox.clone(), open(false, share(mailbox.index()))?)))
            .collect::<Result<_, OpenError>>()?;
        self.add_listener(Box::new(first), local.clone())?;
        self.shared.links.add(&link);
        for (mailbox, listener) in others {
            mailbox.post(WorkerMessage::Listen(Box::new(listener), local.clone()), Some(here));
        }
        Ok(link)
    }
}

/// The device with this name.
fn find(name: &str) -> Result<Device, OpenError> {
    let device = monitor::device(name).map_err(OpenError::system(format!("asking for the device {name}")))?;
    device.ok_or_else(|| OpenError::NoSuchInterface(name.into()))
}

/// Why a device is not listened on.
fn cannot_listen(name: &str, errno: Errno) -> OpenError {
    let doing = format!("listening on {}", FaceUri::Device(name.into()));
    match errno {
        Errno::PERM | Errno::ACCESS => OpenError::NotPermitted(doing),
        errno => OpenError::System { doing, errno },
    }
}

/// How link services tell stations of a group apart: the link-local address that a station's own
/// gives.
fn remote(address: MacAddress) -> Remote {
    let [a, b, c, d, e, f] = address.0;
    let words = [[a ^ 2, b], [c, 0xff], [0xfe, d], [e, f]].map(u16::from_be_bytes);
    let ip = Ipv6Addr::new(0xfe80, 0, 0, 0, words[0], words[1], words[2], words[3]);
    Some(SocketAddr::from((ip, 0)))
}

/// Receives what arrives on a device for one worker, and follows the device.
struct DeviceListener<P> {
    link: Arc<Link<P>>,
    /// It was asked for, and is not one that helps it at another worker.
    is_first: bool,
    /// What it receives; `None` if other workers receive everything.
    share: Option<Share>,
    /// Watches the three below.
    epoll: OwnedFd,
    monitor: Monitor,
    /// Fires when something that is to be sent waits for a queue of this worker.
    timer: Arc<OwnedFd>,
    source: Option<Source>,
    /// As it was last seen.
    device: Option<Device>,
    turns: u32,
}

impl<H: Handler> Acceptor<H> for DeviceListener<H::Packet> {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn accept(&mut self, turn: &mut AcceptContext<'_, H>, _: &mut [u8]) {
        let is_idle = self.receive(turn) == 0;
        if is_idle {
            // What has fired would wake this worker again and again, whether or not the queue that
            // it was for is still there.
            let _ = rustix::io::read(&*self.timer, &mut [0; 8]);
        }
        self.flush_waiting(turn);
        self.turns = self.turns.wrapping_add(1);
        if !is_idle && !self.turns.is_multiple_of(TURNS_PER_LOOK) {
            return;
        }
        if let Some(source) = &self.source {
            // A device that goes down leaves an error behind, which would wake this worker again
            // and again.
            for socket in source.descriptors() {
                let _ = sockopt::socket_error(socket);
            }
        }
        if self.monitor.take_changes() {
            self.follow(turn);
        }
    }
}

impl<P> Drop for DeviceListener<P> {
    fn drop(&mut self) {
        if self.is_first {
            self.link.is_open.store(false, Ordering::Relaxed);
        }
    }
}

impl<P: Buffer> DeviceListener<P> {
    fn open(
        link: Arc<Link<P>>,
        device: Device,
        is_first: bool,
        share: Option<Share>,
        options: &IoOptions,
    ) -> Result<Self, OpenError> {
        let watch = || {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            let monitor = Monitor::new()?;
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = Arc::new(timerfd_create(TimerfdClockId::Monotonic, flags)?);
            epoll::add(&epoll, &monitor, EventData::new_u64(0), EventFlags::IN)?;
            epoll::add(&epoll, &timer, EventData::new_u64(0), EventFlags::IN)?;
            Ok((epoll, monitor, timer))
        };
        let (epoll, monitor, timer) = watch().map_err(|errno| cannot_listen(&link.name, errno))?;
        let device = Some(device);
        let mut listener =
            DeviceListener { link, is_first, share, epoll, monitor, timer, source: None, device, turns: 0 };
        listener.open_source(options)?;
        Ok(listener)
    }

    /// Reads a turn's worth of frames. Returns how many there were.
    fn receive<H: Handler<Packet = P>>(&mut self, turn: &mut AcceptContext<'_, H>) -> usize {
        let DeviceListener { link, source: Some(source), device: Some(device), .. } = self else { return 0 };
        let max = turn.options().read_datagrams_per_turn;
        let mut is_tagged = false;
        let (count, drops) = source.receive(max, |arrived| {
            if let Err(label) = take(link, device, turn, &arrived) {
                turn.count(label);
                is_tagged |= label == TAGGED;
            }
        });
        if is_tagged && !link.is_tag_noted.swap(true, Ordering::Relaxed) {
            let name = &link.name;
            tracing::warn!(
                "{name}: frames with the tag of a VLAN are dropped: listen on the VLAN's own device, or use VXLAN"
            );
        }
        if drops > 0 {
            turn.add_drops("kernel_buffer_full", drops);
        }
        count
    }

    /// Flushes transports that found no room in an XDP socket of this worker.
    fn flush_waiting<H: Handler<Packet = P>>(&self, turn: &mut AcceptContext<'_, H>) {
        let Some(Source::Xdp { queues, .. }) = &self.source else { return };
        for queue in queues {
            let mut sent = Sent::default();
            let waiting = queue.waiting(&mut sent);
            sent.drops.iter().for_each(|(label, drops)| turn.add_drops(label, drops));
            for port in waiting.into_iter().filter_map(|remote| self.link.get(remote)) {
                turn.io.flush(&port);
            }
        }
    }

    /// Sees what became of the device, and tells its transports.
    fn follow<H: Handler<Packet = P>>(&mut self, turn: &mut AcceptContext<'_, H>) {
        // When the system does not say, all stays as it is until the next change.
        let Ok(now) = monitor::device(&self.link.name) else { return };
        let before = self.device.clone();
        if now == before {
            return;
        }
        tracing::debug!(name = self.link.name, ?now, "network device");
        self.device = now;
        let keeps_source = match (&before, &self.device, &self.source) {
            (Some(before), Some(now), Some(source)) => source.suits(before, now),
            _ => false,
        };
        if !keeps_source
            && let Some(source) = self.source.take()
            && source.pending() > 0
        {
            turn.add_drops("unreachable", source.pending());
        }
        if let Err(error) = self.open_source(turn.options()) {
            // Without a source the next change is waited for.
            tracing::warn!(name = self.link.name, %error, "cannot receive from the network device");
            turn.count("receive_failed");
        }
        // Each worker tells those that it reads.
        for (remote, port) in self.link.of_worker(turn.io.worker()) {
            self.tell(turn, remote, &port, before.as_ref());
        }
    }

    /// Receives from the device, if it is there.
    fn open_source(&mut self, options: &IoOptions) -> Result<(), OpenError> {
        let Some(device) = self.device.as_ref().filter(|_| self.source.is_none()) else { return Ok(()) };
        let Some(share) = self.share else { return Ok(()) };
        let source = match options.ethernet.xdp {
            Xdp::Off => None,
            wanted => match self.link.xdp.open(device, share, wanted, options, &self.timer) {
                Ok(queues) => Some(Source::Xdp { queues, turns: 0 }),
                Err(refusal) if wanted == Xdp::On => {
                    let (device, why) = (self.link.name.clone(), refusal.to_string());
                    return Err(OpenError::NoXdp { device, why });
                }
                Err(refusal) => {
                    tracing::warn!(name = self.link.name, %refusal, "AF_PACKET reads the network device, not AF_XDP");
                    None
                }
            },
        };
        let failed = |errno| cannot_listen(&self.link.name, errno);
        let octets = options.datagram_receive_buffer_octets;
        let source = match source {
            Some(source) => source,
            None if share.readers == 1 => {
                Source::Packet(Ring::open(device.index, device.mtu, octets).map_err(failed)?)
            }
            None if device.is_up => {
                Source::Packet(self.link.group.lock().open(device, octets).map_err(failed)?)
            }
            // Who is down cannot enter a group, and stays in it once there.
            None => return Ok(()),
        };
        for descriptor in source.descriptors() {
            epoll::add(&self.epoll, descriptor, EventData::new_u64(0), EventFlags::IN).map_err(failed)?;
        }
        self.source = Some(source);
        Ok(())
    }

    /// Takes a transport down, or up again, or tells it the new MTU.
    fn tell<H: Handler<Packet = P>>(
        &self,
        turn: &mut AcceptContext<'_, H>,
        remote: MacAddress,
        port: &Arc<FacePort<P>>,
        before: Option<&Device>,
    ) {
        let Some(device) = &self.device else {
            if port.persistency() == FacePersistency::OnDemand {
                return turn.io.fail(port, CloseReason::DeviceGone, turn.handler);
            }
            return turn.io.take_down(port, CloseReason::DeviceGone);
        };
        if before.is_none_or(|before| before.mtu != device.mtu) {
            port.set_mtu(device.mtu, before.map(|before| before.mtu));
        }
        if !device.is_up {
            return turn.io.take_down(port, CloseReason::DeviceDown);
        }
        match transport::sender(&self.link, device, remote, turn.options()) {
            Ok(sender) => turn.io.bring_up(port, Box::new(sender)),
            Err(errno) => turn.io.take_down(port, CloseReason::System(errno)),
        }
    }
}

/// Hands a frame to its transport; a new one for a station that is not known.
///
/// # Errors
/// The counter of the drop.
fn take<H: Handler>(
    link: &Arc<Link<H::Packet>>,
    device: &Device,
    turn: &mut AcceptContext<'_, H>,
    arrived: &Arrived<'_>,
) -> Result<(), &'static str> {
    if arrived.is_cut {
        return Err("ether_cut");
    }
    // Priority tags have VLAN 0.
    if arrived.vlan.is_some_and(|vlan| vlan != 0) {
        return Err(TAGGED);
    }
    let NdnFrame { destination, source, packet } = frame::parse(arrived.octets).map_err(|e| e.label())?;
    if source == device.address {
        return Err("ether_own");
    }
    if destination.is_group() {
        let port = link.get(destination).ok_or("ether_no_face")?;
        turn.deliver_here(&port, remote(source), packet);
        return Ok(());
    }
    if destination != device.address {
        return Err("ether_other_station");
    }
    if let Some(port) = link.get(source) {
        port.active_ns.store(turn.io.now_ns(), Ordering::Relaxed);
        turn.deliver_here(&port, None, packet);
        return Ok(());
    }
    if !link.is_open.load(Ordering::Relaxed) {
        return Err("ether_no_face");
    }
    let Some(admission) = turn.admit(Holder::Station(source.0)) else { return Ok(()) };
    if !link.claim(source) {
        return Err("ether_no_face");
    }
    let options = *turn.options();
    // From here on the receiving half gives the claim back when it is dropped.
    let new =
        transport::transport(link, device, source, FacePersistency::OnDemand, &options).map_err(|_| {
            link.forget(source);
            "accept_failed"
        })?;
    turn.adopt_here(new, admission, packet, |port| link.insert(source, port));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_are_told_apart_by_the_link_local_address_of_theirs() {
        let address = remote(MacAddress([0x08, 0x00, 0x27, 0x01, 0x02, 0x03])).map(|address| address.ip());
        assert_eq!(address, "fe80::a00:27ff:fe01:203".parse().ok());
        assert_ne!(remote(MacAddress([2, 0, 0, 0, 0, 1])), remote(MacAddress([2, 0, 0, 0, 0, 2])));
    }
}
