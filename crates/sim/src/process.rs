//! The effect of an event at its node.

use namely_discovery::concerns_discovery;
use namely_forwarder::{Outgoing, Received};

use crate::behaviour::{Behaviour, Context};
use crate::disk::{Job, ReadResult};
use crate::engine::{ForwarderOutput, Turn};
use crate::event::{Arrival, EventKind};
use crate::link::Flight;
use crate::node::{Node, Target};
use crate::packet::{NodeId, Packet};

impl Node {
    /// Processes an event of this node.
    pub(crate) fn process(&mut self, event: EventKind, turn: &mut Turn<'_>) {
        match event {
            EventKind::Frame(arrival) => self.frame(&arrival, turn),
            EventKind::Link(end, is_up) => self.ends[end].is_up = is_up,
            EventKind::Outage(end, begins) => self.ends[end].set_outage(begins),
            EventKind::NodeOutage(begins) => {
                self.ends.iter_mut().for_each(|end| end.set_outage(begins));
            }
            EventKind::Device(end, is_up) => {
                self.ends[end].is_up = is_up;
                self.notify_link(end, turn);
            }
            EventKind::Discover => match self.neighbours.as_mut().map(|own| own.alarm.fired(turn.now_ns)) {
                Some(Ok(())) => self.tick_discovery(turn),
                Some(Err(again)) => self.schedule_if(again, EventKind::Discover, turn),
                None => {}
            },
            EventKind::Tick(end) => match self.ends[end].alarm.fired(turn.now_ns) {
                Ok(()) => {
                    self.ends[end].tick(turn.now_ns, &mut turn.scratch.link);
                    self.launch(end, turn);
                }
                Err(again) => self.schedule_if(again, EventKind::Tick(end), turn),
            },
            EventKind::Wake(app) => match self.apps[app].alarm.fired(turn.now_ns) {
                Ok(()) => {
                    self.call(app, turn, |behaviour, context| behaviour.wake(context));
                    self.settle(turn);
                }
                Err(again) => self.schedule_if(again, EventKind::Wake(app), turn),
            },
            EventKind::Expire => match self.alarm.fired(turn.now_ns) {
                Ok(()) => self.settle(turn),
                Err(again) => self.schedule_if(again, EventKind::Expire, turn),
            },
            EventKind::Process => self.settle(turn),
            EventKind::Disk(job) => self.finish(job, turn),
            EventKind::Read(done) => self.complete(done, turn),
        }
    }

    /// Starts a behavior that has not started.
    pub(crate) fn start(&mut self, app: usize, turn: &mut Turn<'_>) {
        if !std::mem::replace(&mut self.apps[app].started, true) {
            self.call(app, turn, |behaviour, context| behaviour.start(context));
            self.settle(turn);
        }
    }

    fn frame(&mut self, arrival: &Arrival, turn: &mut Turn<'_>) {
        let Arrival { from, device, octets, .. } = arrival;
        let to = arrival.end as usize;
        // A device drops a frame longer than its own maximum.
        let is_too_long = self.ends[to].is_group && octets.len() > self.ends[to].spec.mtu_octets;
        if !self.ends[to].is_connected() || is_too_long {
            self.ends[to].missed += 1;
            return;
        }
        if let Some(trace) = &mut self.trace {
            trace.update(&turn.now_ns.to_be_bytes());
            trace.update(&arrival.end.to_be_bytes());
            trace.update(octets);
        }
        // A unicast frame is received by the neighbor's face, if there is one.
        let is_unicast = device != from;
        let of_station = self.neighbours.as_ref().filter(|_| is_unicast);
        let of_station = of_station.and_then(|own| own.by_station.get(&(to, *device)).copied());
        let end = of_station.unwrap_or(to);
        let face = self.ends[end].face;
        let received = self.ends[end].receive(octets, *from, turn.now_ns, &mut turn.scratch.link);
        self.launch(end, turn);
        let Some(received) = received else { return };
        if concerns_discovery(&received.packet)
            && self.overhear(to, *device, is_unicast, &received.packet, turn)
        {
            return;
        }
        if is_unicast && of_station.is_none() {
            self.ends[to].counts.refused += 1;
            return;
        }
        self.inbox.push_back((face, received));
        self.settle(turn);
    }

    /// Processes the received packets, and the packets that follow from them at this node, until
    /// its processor is occupied.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        let mut outgoing = std::mem::take(&mut turn.scratch.outgoing);
        outgoing.disk = self.disk.take();
        while self.occupied_until_ns <= turn.now_ns
            && let Some((face, received)) = self.inbox.pop_front()
        {
            if let Some(disk) = &mut outgoing.disk {
                (disk.waiting, disk.cost_ns) = (self.inbox.len(), 0);
            }
            // A batch has the work memory, which is large to prepare for each packet.
            let batch = &mut turn.scratch.batch;
            match batch.push(face, received) {
                Ok(()) => self.forwarder.receive_batch(batch, turn.now_ns, &mut outgoing),
                Err(received) => self.forwarder.receive(face, received, turn.now_ns, &mut outgoing),
            }
            self.occupy(&mut outgoing, turn);
            self.dispatch_emitted(&mut outgoing, turn);
        }
        let next_ns = self.forwarder.expire(turn.now_ns, &mut outgoing);
        self.dispatch_emitted(&mut outgoing, turn);
        if let Some(disk) = &mut outgoing.disk {
            disk.waiting = self.inbox.len();
        }
        self.disk = outgoing.disk.take();
        turn.scratch.outgoing = outgoing;
        let armed = self.alarm.set(next_ns.map_or(u64::MAX, |at_ns| at_ns.max(turn.now_ns + 1)));
        self.schedule_if(armed, EventKind::Expire, turn);
    }

    /// Begins the disk's new requests, and occupies the processor for the packet's cost.
    fn occupy(&mut self, outgoing: &mut ForwarderOutput, turn: &mut Turn<'_>) {
        let Some(disk) = &mut outgoing.disk else { return };
        for (service_ns, job) in std::mem::take(&mut disk.begun) {
            self.schedule(turn.now_ns + service_ns, EventKind::Disk(job), turn);
        }
        if disk.cost_ns > 0 {
            self.occupied_until_ns = turn.now_ns + disk.cost_ns;
            self.schedule(turn.now_ns + disk.cost_ns, EventKind::Process, turn);
        }
    }

    /// Handles the end of a request to the disk.
    fn finish(&mut self, job: Job, turn: &mut Turn<'_>) {
        let Some(disk) = &mut self.disk else { return };
        let (done, notice_ns) = (disk.finish(job), disk.notice_ns());
        for (service_ns, job) in std::mem::take(&mut disk.begun) {
            self.schedule(turn.now_ns + service_ns, EventKind::Disk(job), turn);
        }
        match done {
            Some(done) if notice_ns > 0 => {
                self.schedule(turn.now_ns + notice_ns, EventKind::Read(done), turn);
            }
            Some(done) => self.complete(done, turn),
            None => {}
        }
    }

    /// Reports a read to the forwarder. It costs no processor time; the request did.
    fn complete(&mut self, ReadResult { ticket, completion }: ReadResult, turn: &mut Turn<'_>) {
        let mut outgoing = std::mem::take(&mut turn.scratch.outgoing);
        outgoing.disk = self.disk.take();
        self.forwarder.tier_completed(ticket, completion, turn.now_ns, &mut outgoing);
        outgoing.disk.iter_mut().for_each(|disk| disk.cost_ns = 0);
        self.occupy(&mut outgoing, turn);
        self.dispatch_emitted(&mut outgoing, turn);
        self.disk = outgoing.disk.take();
        turn.scratch.outgoing = outgoing;
        self.settle(turn);
    }

    fn dispatch_emitted(&mut self, emitted: &mut ForwarderOutput, turn: &mut Turn<'_>) {
        // As the router's control thread does. A route that does not fit is learned again later.
        for (face, prefix) in emitted.learned.drain(..) {
            let _ = self.forwarder.learn(&prefix, face, turn.now_ns);
        }
        for (face, packet) in emitted.packets.drain(..) {
            match self.faces.get(&face).copied() {
                Some(Target::LinkEnd(end)) => {
                    self.ends[end].send(packet, turn.now_ns, &mut turn.scratch.link);
                    self.launch(end, turn);
                }
                Some(Target::App(app)) => {
                    let received = Received { packet: patched(&packet), headers: packet.headers };
                    self.call(app, turn, |behaviour, context| behaviour.receive(&received, context));
                }
                None => {}
            }
        }
    }

    /// Sends the frames that left a port on their way to the other end, or to all others.
    pub(crate) fn launch(&mut self, end: usize, turn: &mut Turn<'_>) {
        let mut flights = std::mem::take(&mut turn.scratch.link.flights);
        let device = self.ends[end].beside.unwrap_or(end);
        if !self.ends[device].is_connected() {
            self.ends[end].counts.lost += flights.len() as u64;
            flights.clear();
        }
        let sent: usize = flights.iter().map(|flight| flight.octets.len()).sum();
        let overhead = flights.len() * self.ends[end].spec.overhead_octets;
        self.ends[device].carried.frames += flights.len() as u64;
        self.ends[device].carried.octets += (sent + overhead) as u64;
        let (from, device) = (self.end_id(end), self.end_id(device));
        let peers = std::mem::take(&mut self.ends[end].peers);
        for Flight { at_ns, octets } in flights.drain(..) {
            let Some((last, others)) = peers.split_last() else { continue };
            for to in others {
                let arrival = Arrival { end: to.end, from, device, octets: octets.clone() };
                self.schedule_at(to.node, at_ns, EventKind::Frame(arrival), turn);
            }
            let arrival = Arrival { end: last.end, from, device, octets };
            self.schedule_at(last.node, at_ns, EventKind::Frame(arrival), turn);
        }
        self.ends[end].peers = peers;
        turn.scratch.link.flights = flights;
        let due_ns = self.ends[end].due_ns();
        let armed = self.ends[end].alarm.set(due_ns);
        self.schedule_if(armed, EventKind::Tick(end), turn);
    }

    fn call(
        &mut self,
        app: usize,
        turn: &mut Turn<'_>,
        act: impl FnOnce(&mut dyn Behaviour, &mut Context<'_>),
    ) {
        let Node { id, forwarder, apps, disk, inbox, .. } = self;
        let own = &mut apps[app];
        let Some(behaviour) = &mut own.behaviour else { return };
        let mut context = Context {
            now_ns: turn.now_ns,
            node: NodeId(*id as usize),
            face: own.face,
            random: &mut own.random,
            forwarder,
            disk: disk.as_mut(),
            sent: &mut turn.scratch.sent,
            wake_at_ns: None,
        };
        act(behaviour.as_mut(), &mut context);
        let wake_at_ns = context.wake_at_ns;
        inbox.extend(turn.scratch.sent.drain(..).map(|received| (own.face, received)));
        if let Some(at_ns) = wake_at_ns {
            let armed = own.alarm.set(at_ns.max(turn.now_ns));
            self.schedule_if(armed, EventKind::Wake(app), turn);
        }
    }
}

/// Returns the packet as it is sent: with its new hop limit.
fn patched(outgoing: &Outgoing<Packet>) -> Packet {
    match outgoing.hop_limit {
        Some((offset, value)) => Packet::new(|octets| {
            octets.extend_from_slice(&outgoing.packet);
            octets[offset] = value;
        }),
        None => outgoing.packet.clone(),
    }
}
