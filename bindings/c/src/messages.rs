//! Publishing, also on demand, and datagrams, which are one Interest and one Data.

use std::time::Duration;

use libc::c_int;
use namely_socket::{Datagram, PublishOptions, PushOptions, RecvError};
use namely_wire::{NackReason, Name, NameRef};

use crate::failure::{Errno, Failure};
use crate::socket::{Role, check_flags, find};
use crate::system::signals_blocked;
use crate::types::{ICN_DENY, ICN_DONTWAIT, ICN_PUSH, ICN_REFUSE, ICN_TRUNC};

/// The input of `icn_sendmsg`.
pub(crate) struct Message<'a> {
    pub(crate) name: Option<&'a Name>,
    pub(crate) content: &'a [u8],
    /// Whether there is content, which may be empty.
    pub(crate) has_content: bool,
    pub(crate) request: u64,
    pub(crate) lifetime_ms: u32,
    pub(crate) options: Option<&'a str>,
}

/// The output of `icn_recvmsg`.
pub(crate) struct Received {
    pub(crate) name: Name,
    pub(crate) content: Vec<u8>,
    /// The ContentType of a consumer's Data.
    pub(crate) content_type: u64,
    pub(crate) request: u64,
    /// Octets that a client offers.
    pub(crate) offered: Option<u64>,
}

/// `icn_publish`, `icn_sendto`. Returns the versioned name and the number of segments.
pub(crate) fn publish(
    number: c_int,
    name: &Name,
    content: &[u8],
    options: Option<&str>,
) -> Result<(Name, u64), Failure> {
    let producer = find(number)?.producer()?;
    let published = producer.publish(name, content, &publish_options(options)?)?;
    Ok((published.name, published.segments))
}

/// Options of one publication: `OPTION=VALUE` with spaces between them.
fn publish_options(text: Option<&str>) -> Result<PublishOptions, Failure> {
    let mut options = PublishOptions::default();
    for word in text.unwrap_or_default().split_whitespace() {
        let parts = word.split_once('=');
        let (name, value) =
            parts.ok_or_else(|| Failure::new(libc::EINVAL, format!("'{word}' is not OPTION=VALUE")))?;
        options.set(name, value)?;
    }
    Ok(options)
}

/// `icn_sendmsg`.
pub(crate) fn send(number: c_int, message: &Message<'_>, flags: c_int) -> Result<(), Failure> {
    let socket = find(number)?;
    match socket.role()? {
        Role::Consumer(consumer) => {
            check_flags(flags, ICN_DONTWAIT)?;
            let name = message.name.ok_or(Errno(libc::EDESTADDRREQ))?;
            let mut datagram = Datagram::new(name.clone());
            datagram.parameters = message.has_content.then(|| message.content.to_vec());
            datagram.lifetime =
                (message.lifetime_ms > 0).then(|| Duration::from_millis(u64::from(message.lifetime_ms)));
            // The first datagram starts a thread.
            signals_blocked(|| consumer.send(&datagram))?;
            Ok(())
        }
        Role::Producer(producer) => {
            check_flags(flags, ICN_DONTWAIT | ICN_REFUSE | ICN_DENY)?;
            if message.request == 0 {
                let name = message.name.ok_or(Errno(libc::EDESTADDRREQ))?;
                return publish(number, name, message.content, message.options).map(drop);
            }
            let options = publish_options(message.options)?;
            let request = socket.requests.take(message.request)?;
            if flags & ICN_REFUSE != 0 {
                producer.refuse(request, NackReason::NoRoute)?;
            } else if flags & ICN_DENY != 0 {
                producer.deny(&request)?;
            } else if let Err(error) = producer.reply(&request, message.content, &options) {
                // The program may answer it again, for instance with shorter content.
                socket.requests.put_back(message.request, request);
                return Err(error.into());
            }
            Ok(())
        }
    }
}

/// `icn_recvmsg`. A failure includes the name that it concerns, if any.
pub(crate) fn receive(number: c_int, flags: c_int) -> Result<Received, (Failure, Option<Name>)> {
    fn early(failure: impl Into<Failure>) -> (Failure, Option<Name>) {
        (failure.into(), None)
    }
    check_flags(flags, ICN_DONTWAIT | ICN_TRUNC | ICN_PUSH).map_err(early)?;
    let socket = find(number).map_err(early)?;
    let may_wait = socket.may_wait(flags);
    match socket.role().map_err(early)? {
        Role::Consumer(_) if flags & ICN_PUSH != 0 => Err(early(Errno(libc::EOPNOTSUPP))),
        Role::Consumer(consumer) => {
            let received = if may_wait { consumer.recv() } else { consumer.try_recv() };
            match received {
                Ok(data) => Ok(Received {
                    name: data.name,
                    content: data.content,
                    content_type: data.content_type.number(),
                    request: 0,
                    offered: None,
                }),
                Err(error) => {
                    let name = match &error {
                        RecvError::Failed { name, .. } => Some(name.clone()),
                        RecvError::Send(_) | RecvError::Call(_) => None,
                    };
                    Err((error.into(), name))
                }
            }
        }
        Role::Producer(producer) if flags & ICN_PUSH != 0 => {
            let pushed = if may_wait { producer.accept_push() } else { producer.try_accept_push() };
            let pushed = pushed.map_err(early)?;
            let (name, offered) = (pushed.name().clone(), Some(pushed.octets().unwrap_or(0)));
            let request = socket.requests.insert_push(pushed);
            Ok(Received { name, content: Vec::new(), content_type: 0, request, offered })
        }
        Role::Producer(producer) => {
            let request = if may_wait { producer.recv() } else { producer.try_recv() }.map_err(early)?;
            let (name, content) =
                (without_digest(request.name()), request.parameters().unwrap_or_default().to_vec());
            let request = socket.requests.insert(request);
            Ok(Received { name, content, content_type: 0, request, offered: None })
        }
    }
}

/// The requested name, without the digest of its parameters.
fn without_digest(name: NameRef<'_>) -> Name {
    let digest = name.last().is_some_and(|last| last.is_parameters_digest());
    name.without_last(usize::from(digest)).to_name()
}

/// `icn_push`.
pub(crate) fn push(number: c_int, server: &Name, name: &Name, content: &[u8]) -> Result<(), Failure> {
    let producer = find(number)?.producer()?;
    signals_blocked(|| producer.push(server, name, content, &PushOptions::default()))?;
    Ok(())
}

/// `icn_pull`: the octets of a pushed object.
pub(crate) fn pull(number: c_int, request: u64, by: c_int, buffer: &mut [u8]) -> Result<usize, Failure> {
    let socket = find(number)?;
    let (producer, consumer) = (socket.producer()?, find(by)?.consumer()?);
    let pushed = socket.requests.take_push(request, buffer.len())?;
    let content = signals_blocked(|| pushed.pull(&consumer, &producer))?;
    let room = buffer.get_mut(..content.len());
    room.ok_or_else(|| Failure::new(libc::EMSGSIZE, "the object is larger than its client announced"))?
        .copy_from_slice(&content);
    Ok(content.len())
}
