//! Events of the kernel's forwarder: faces of devices that are added and removed, and its stop.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::control::{Control, ControlError, Face, GENERIC_HEADER_OCTETS, face};
use crate::netlink::{Reply, replies};
use crate::socket::join_netlink_group;
use crate::uapi::{NNET_GENL_EVENTS, attr, cmd};

/// An event of the forwarder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A face of a device was added.
    FaceNew(Face),
    /// A face of a device was removed.
    FaceDel(Face),
    /// The forwarder of this network namespace has stopped, for this reason.
    Stopped(String),
    /// Events were lost because the buffer was full. The listings have the present state.
    Missed,
}

/// A socket that receives events.
#[derive(Debug)]
pub struct Events(Control);

impl Events {
    /// Receives events from now on in this network namespace.
    ///
    /// # Errors
    /// [`ControlError::NotLoaded`], or an error of the system.
    pub fn open() -> Result<Self, ControlError> {
        let mut control = Control::open()?;
        let group = control.group(NNET_GENL_EVENTS)?.ok_or(ControlError::NotLoaded)?;
        join_netlink_group(control.socket.as_fd(), group)?;
        Ok(Events(control))
    }

    /// Returns the events of one message; none if there is no message.
    ///
    /// # Errors
    /// Returns an error of the system.
    pub fn take(&mut self) -> Result<Vec<Event>, ControlError> {
        match self.0.socket.receive(RecvFlags::DONTWAIT) {
            Ok(datagram) => Ok(parse(datagram)),
            Err(Errno::AGAIN) => Ok(Vec::new()),
            Err(Errno::NOBUFS) => Ok(vec![Event::Missed]),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn parse(datagram: &[u8]) -> Vec<Event> {
    let event = |reply| match reply {
        Reply::Message(message) => match *message.payload.first()? {
            cmd::FACE_NEW => face(message.attributes(GENERIC_HEADER_OCTETS)).map(Event::FaceNew),
            cmd::FACE_DEL => face(message.attributes(GENERIC_HEADER_OCTETS)).map(Event::FaceDel),
            cmd::STOPPED => {
                let attributes = message.attributes(GENERIC_HEADER_OCTETS);
                let why = attributes.octets(attr::WHY).and_then(|why| std::str::from_utf8(why).ok());
                Some(Event::Stopped(why.unwrap_or_default().trim_end_matches('\0').to_owned()))
            }
            _ => None,
        },
        Reply::End | Reply::Refused(..) => None,
    };
    replies(datagram, None).filter_map(event).collect()
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::generic_header;
    use crate::netlink::Request;

    fn message(command: u8) -> Request {
        Request::new(31, false, &generic_header(command))
    }

    #[test]
    fn kernel_events_are_parsed() {
        let gone = message(cmd::FACE_DEL)
            .with(attr::FACE, &300_u64.to_ne_bytes())
            .with(attr::KIND, &1_u32.to_ne_bytes())
            .with(attr::IFINDEX, &7_u32.to_ne_bytes())
            .with(attr::ADDRESS, &[2, 0, 0, 0, 0, 1])
            .with(attr::IN, &1_u64.to_ne_bytes())
            .with(attr::OUT, &2_u64.to_ne_bytes())
            .build(0);
        let [Event::FaceDel(face)] = &parse(&gone)[..] else { panic!() };
        assert_eq!((face.id, face.link.map(|(index, _)| index)), (300, Some(7)));
        let stopped = message(cmd::STOPPED).with(attr::WHY, b"a panic\0").build(0);
        assert_eq!(parse(&stopped), [Event::Stopped("a panic".into())]);
        let other = message(cmd::ROUTE_NEW).build(0);
        assert_eq!(parse(&[other, stopped.clone()].concat()).len(), 1);
        (0..stopped.len()).for_each(|octets| assert!(parse(&stopped[..octets]).len() <= 1));
    }
}
