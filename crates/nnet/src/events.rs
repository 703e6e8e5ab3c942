//! Events of the kernel's forwarder: faces of devices that are added and removed, and its stop.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::control::{Control, ControlError, Face, face};
use crate::message::{Reply, replies};
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
        join_netlink_group(control.socket(), group)?;
        Ok(Events(control))
    }

    /// Returns the events of one message; none if there is no message.
    ///
    /// # Errors
    /// Returns an error of the system.
    pub fn take(&mut self) -> Result<Vec<Event>, ControlError> {
        let (socket, buffer) = self.0.parts();
        let octets = match rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
            Ok((octets, _)) => octets,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Vec::new()),
            Err(Errno::NOBUFS) => return Ok(vec![Event::Missed]),
            Err(errno) => return Err(errno.into()),
        };
        Ok(parse(&buffer[..octets]))
    }
}

fn parse(datagram: &[u8]) -> Vec<Event> {
    let event = |reply| match reply {
        Reply::Message(row) => match row.command() {
            cmd::FACE_NEW => face(row).map(Event::FaceNew),
            cmd::FACE_DEL => face(row).map(Event::FaceDel),
            cmd::STOPPED => {
                let why = row.octets(attr::WHY).and_then(|why| std::str::from_utf8(why).ok());
                Some(Event::Stopped(why.unwrap_or_default().trim_end_matches('\0').to_owned()))
            }
            _ => None,
        },
        Reply::End | Reply::Refused(..) => None,
    };
    replies(datagram).filter_map(event).collect()
}

impl AsFd for Events {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Request;

    #[test]
    fn kernel_events_are_parsed() {
        let gone = Request::new(31, cmd::FACE_DEL, false, 0)
            .with(attr::FACE, &300_u64.to_ne_bytes())
            .with(attr::KIND, &1_u32.to_ne_bytes())
            .with(attr::IFINDEX, &7_u32.to_ne_bytes())
            .with(attr::ADDRESS, &[2, 0, 0, 0, 0, 1])
            .with(attr::IN, &1_u64.to_ne_bytes())
            .with(attr::OUT, &2_u64.to_ne_bytes())
            .build();
        let [Event::FaceDel(face)] = &parse(&gone)[..] else { panic!() };
        assert_eq!((face.id, face.link.map(|(index, _)| index)), (300, Some(7)));
        let stopped = Request::new(31, cmd::STOPPED, false, 0).with(attr::WHY, b"a panic\0").build();
        assert_eq!(parse(&stopped), [Event::Stopped("a panic".into())]);
        let other = Request::new(31, cmd::ROUTE_NEW, false, 0).build();
        assert_eq!(parse(&[other, stopped.clone()].concat()).len(), 1);
        (0..stopped.len()).for_each(|octets| assert!(parse(&stopped[..octets]).len() <= 1));
    }
}
