//! A network device: its peers, the frames that arrive, and changes of the device.

use std::net::{Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_datagrams::ethernet::frame::{self, NdnFrame};
use namely_datagrams::ethernet::monitor::{self, Device, Monitor};
use namely_datagrams::ethernet::ring::{ReceivedFrame, Ring};
use namely_host::shares::Owner;
use namely_messages::FacePersistency;
use namely_wire::{FaceUri, MacAddress};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use super::link::Link;
use super::source::Source;
use super::transport;
use super::xdp::WorkerQueues;
use crate::buffer::Buffer;
use crate::error::{CloseReason, OpenError};
use crate::faces::{Faces, Handler, WorkerMessage};
use crate::kind::{AcceptContext, Acceptor};
use crate::labels::{listener, received, sent};
use crate::options::{IoOptions, Xdp};
use crate::port::FaceSender;
use crate::sender::FlushReport;
use crate::status::Remote;

/// While frames arrive, the listener checks for changes of the device once in this many turns of
/// the event loop.
const TURNS_PER_LOOK: u32 = 16;

impl<H: Handler> Faces<H> {
    /// Listens on a device. Each link address that sends frames to it receives an on-demand face.
    ///
    /// # Errors
    /// [`OpenError::NoSuchInterface`], [`OpenError::InUse`] if the device has a listener already,
    /// [`OpenError::NotPermitted`] without the permission to receive frames, or the system's error.
    pub fn listen_ethernet(&mut self, name: &str) -> Result<FaceUri, OpenError> {
        let link = self.ethernet_link(name)?;
        // Relaxed: the flag guards no other memory. The swap makes one of two requests fail.
        if link.is_open.swap(true, Ordering::Relaxed) {
            return Err(OpenError::InUse(FaceUri::Device(name.into()).to_string()));
        }
        Ok(FaceUri::Device(name.into()))
    }

    /// Opens a face to a peer or a group on a device.
    ///
    /// # Errors
    /// [`OpenError::BadAddress`] if the face exists already, or the address is zero or the device's
    /// own, [`OpenError::TooManyFaces`], and the errors of [`Faces::listen_ethernet`].
    pub fn open_ethernet(
        &mut self,
        name: &str,
        remote: MacAddress,
        persistency: FacePersistency,
    ) -> Result<Arc<FaceSender<H::Packet>>, OpenError> {
        let link = self.ethernet_link(name)?;
        let device = find(name)?;
        // Frames from the device's own address are dropped on arrival, so this face would receive
        // none.
        if remote == device.address || remote == MacAddress([0; 6]) {
            return Err(OpenError::BadAddress(format!("{remote} is no other station on {name}")));
        }
        if !link.claim(remote) {
            return Err(OpenError::BadAddress(format!("there is a face to {remote} on {name} already")));
        }
        // From here on the receiving half releases the claim when it is dropped.
        let new = transport::transport(&link, &device, remote, persistency, self.options());
        let port = self.add_transport(new.inspect_err(|_| link.forget(remote))?)?;
        link.insert(remote, &port);
        Ok(port)
    }

    /// Returns the state of a device. Opens its listeners if there are none.
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
            Some(WorkerQueues { remainder, readers: readers.len() })
        };
        let open = |is_first, share| {
            DeviceListener::open(link.clone(), device.clone(), is_first, share, self.options())
        };
        // All listeners are opened before one is added, so a failure leaves none of them behind.
        let first = open(true, share(here))?;
        let others = readers.iter().filter(|mailbox| mailbox.index() != here);
        let others: Vec<_> = others
            .map(|mailbox| Ok((mailbox.clone(), open(false, share(mailbox.index()))?)))
            .collect::<Result<_, OpenError>>()?;
        self.add_listener(Box::new(first), local.clone())?;
        self.shared.links.add(&link);
        for (mailbox, listener) in others {
            // Posted, because only the other worker may change its own slots.
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

/// Makes the error of a failure to listen on a device.
fn cannot_listen(name: &str, errno: Errno) -> OpenError {
    let doing = format!("listening on {}", FaceUri::Device(name.into()));
    match errno {
        Errno::PERM | Errno::ACCESS => OpenError::NotPermitted(doing),
        errno => OpenError::System { doing, errno },
    }
}

/// The address by which link services distinguish the members of a group: the link-local address
/// derived from the member's MAC address.
fn remote(address: MacAddress) -> Remote {
    let [a, b, c, d, e, f] = address.0;
    // The modified EUI-64 inverts the universal/local bit (RFC 4291, appendix A).
    let words = [[a ^ 2, b], [c, 0xff], [0xfe, d], [e, f]].map(u16::from_be_bytes);
    let ip = Ipv6Addr::new(0xfe80, 0, 0, 0, words[0], words[1], words[2], words[3]);
    Some(SocketAddr::from((ip, 0)))
}

/// Receives the frames of a device for one worker, and follows the device's state.
struct DeviceListener<P> {
    link: Arc<Link<P>>,
    /// True for the listener that was opened by request, false for those that assist it at other
    /// workers.
    is_first: bool,
    /// The queues that it reads. `None` if other workers receive all frames.
    share: Option<WorkerQueues>,
    /// Watches the monitor, the timer and the source.
    epoll: OwnedFd,
    monitor: Monitor,
    /// Fires when a frame waits for room in a queue of this worker.
    timer: Arc<OwnedFd>,
    source: Option<Source>,
    /// The state of the device at the last check. `None` if the device was removed.
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
            // A timer that has fired stays readable and would wake this worker repeatedly, even if
            // its queue is closed.
            let _ = rustix::io::read(&*self.timer, &mut [0; 8]);
        }
        self.flush_waiting(turn);
        // The number only determines the interval of the checks, so it may wrap.
        self.turns = self.turns.wrapping_add(1);
        if !is_idle && !self.turns.is_multiple_of(TURNS_PER_LOOK) {
            return;
        }
        if let Some(source) = &self.source {
            // A device that goes down leaves a socket error, which would wake this worker
            // repeatedly.
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
        // The assisting listeners at other workers did not set the flag.
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
        share: Option<WorkerQueues>,
        options: &IoOptions,
    ) -> Result<Self, OpenError> {
        let watch = || {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            let monitor = Monitor::new()?;
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let timer = Arc::new(timerfd_create(TimerfdClockId::Monotonic, flags)?);
            // All events have one number, because each turn serves the monitor, the timer and the
            // source.
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

    /// Reads the frames of one turn. Returns their number.
    fn receive<H: Handler<Packet = P>>(&mut self, turn: &mut AcceptContext<'_, H>) -> usize {
        // Without a source the listener stays open, because the monitor reports when the device is
        // back.
        let DeviceListener { link, source: Some(source), device: Some(device), .. } = self else { return 0 };
        let max = turn.options().read_datagrams_per_turn;
        let mut is_tagged = false;
        let (count, drops) = source.receive(max, |arrived| {
            if let Err(label) = take(link, device, turn, &arrived) {
                turn.count(label);
                is_tagged |= label == listener::ETHER_VLAN;
            }
        });
        // Relaxed: the flag only keeps the workers of the device from repeating the warning.
        if is_tagged && !link.is_tag_noted.swap(true, Ordering::Relaxed) {
            let name = &link.name;
            tracing::warn!(
                "{name}: frames with the tag of a VLAN are dropped: listen on the VLAN's own device, or use VXLAN"
            );
        }
        if drops > 0 {
            turn.add_drops(received::KERNEL_BUFFER_FULL, drops);
        }
        count
    }

    /// Flushes transports that found no room in an XDP socket of this worker.
    fn flush_waiting<H: Handler<Packet = P>>(&self, turn: &mut AcceptContext<'_, H>) {
        let Some(Source::Xdp { queues, .. }) = &self.source else { return };
        for queue in queues {
            let mut sent = FlushReport::default();
            let waiting = queue.waiting(&mut sent);
            sent.drops.iter().for_each(|(label, drops)| turn.add_drops(label, drops));
            for port in waiting.into_iter().filter_map(|remote| self.link.get(remote)) {
                turn.io.flush(&port);
            }
        }
    }

    /// Reads the state of the device and notifies its transports.
    fn follow<H: Handler<Packet = P>>(&mut self, turn: &mut AcceptContext<'_, H>) {
        // If the system returns an error, the state is unchanged until the next change is reported.
        let Ok(now) = monitor::device(&self.link.name) else { return };
        let before = self.device.clone();
        // The monitor reports changes of every device, and most of them concern another one.
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
            // The frames of these pieces were counted as sent, so the loss of the pieces is counted
            // here.
            turn.add_drops(sent::UNREACHABLE, source.pending());
        }
        if let Err(error) = self.open_source(turn.options()) {
            // Without a source, the listener waits for the next change.
            tracing::warn!(name = self.link.name, %error, "cannot receive from the network device");
            turn.count(received::RECEIVE_FAILED);
        }
        // Each worker notifies its own transports.
        for (remote, port) in self.link.of_worker(turn.io.worker()) {
            self.notify(turn, remote, &port, before.as_ref());
        }
    }

    /// Opens a source for the device, if the device is present and has no source.
    fn open_source(&mut self, options: &IoOptions) -> Result<(), OpenError> {
        let Some(device) = self.device.as_ref().filter(|_| self.source.is_none()) else { return Ok(()) };
        // Other workers receive all frames. This one only tracks the device's state for its
        // transports.
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
            // A single reader receives all frames without a fanout group.
            None if share.readers == 1 => {
                Source::Packet(Ring::open(device.index, device.mtu, octets).map_err(failed)?)
            }
            None if device.is_up => {
                Source::Packet(self.link.group.lock().open(device, octets).map_err(failed)?)
            }
            // A device that is down cannot join a fanout group. It stays a member once it has
            // joined.
            None => return Ok(()),
        };
        for descriptor in source.descriptors() {
            epoll::add(&self.epoll, descriptor, EventData::new_u64(0), EventFlags::IN).map_err(failed)?;
        }
        self.source = Some(source);
        Ok(())
    }

    /// Brings a transport up or takes it down, and sets a new MTU.
    fn notify<H: Handler<Packet = P>>(
        &self,
        turn: &mut AcceptContext<'_, H>,
        remote: MacAddress,
        port: &Arc<FaceSender<P>>,
        before: Option<&Device>,
    ) {
        let Some(device) = &self.device else {
            // If the device comes back, the peer's next frame makes a new face.
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

/// Delivers a frame to its transport. A frame from an unknown link address makes a new one.
///
/// # Errors
/// The label of the counter, if the frame is dropped.
fn take<H: Handler>(
    link: &Arc<Link<H::Packet>>,
    device: &Device,
    turn: &mut AcceptContext<'_, H>,
    arrived: &ReceivedFrame<'_>,
) -> Result<(), &'static str> {
    if arrived.is_cut {
        return Err(listener::ETHER_CUT);
    }
    // Priority tags have VLAN 0.
    if arrived.vlan.is_some_and(|vlan| vlan != 0) {
        return Err(listener::ETHER_VLAN);
    }
    let NdnFrame { destination, source, packet } = frame::parse(arrived.octets).map_err(|e| e.label())?;
    if source == device.address {
        return Err(listener::ETHER_OWN);
    }
    if destination.is_group() {
        let port = link.get(destination).ok_or(listener::ETHER_NO_FACE)?;
        turn.deliver_local(&port, remote(source), packet);
        return Ok(());
    }
    if destination != device.address {
        return Err(listener::ETHER_OTHER_STATION);
    }
    if let Some(port) = link.get(source) {
        // The activity is noted here, because the frame bypasses the transport's own read.
        port.note_active(turn.io.now_ns());
        turn.deliver_local(&port, None, packet);
        return Ok(());
    }
    if !link.is_open.load(Ordering::Relaxed) {
        return Err(listener::ETHER_NO_FACE);
    }
    let Some(admission) = turn.admit(Owner::Station(source.0)) else { return Ok(()) };
    // Another worker is making a face to this address.
    if !link.claim(source) {
        return Err(listener::ETHER_NO_FACE);
    }
    let options = *turn.options();
    // From here on the receiving half releases the claim when it is dropped.
    let new =
        transport::transport(link, device, source, FacePersistency::OnDemand, &options).map_err(|_| {
            link.forget(source);
            listener::ACCEPT_FAILED
        })?;
    turn.adopt_local(new, admission, packet, |port| link.insert(source, port));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_differ_by_link_local_address() {
        let address = remote(MacAddress([0x08, 0x00, 0x27, 0x01, 0x02, 0x03])).map(|address| address.ip());
        assert_eq!(address, "fe80::a00:27ff:fe01:203".parse().ok());
        assert_ne!(remote(MacAddress([2, 0, 0, 0, 0, 1])), remote(MacAddress([2, 0, 0, 0, 0, 2])));
    }
}
