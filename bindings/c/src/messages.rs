//! Publishing, on demand too, and datagrams: one Interest and one Data.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use libc::c_int;
use namely_socket::{Datagram, PublishOptions, PushOptions, Pushed, RecvError, Request};
use namely_wire::{NackReason, Name, NameRef};

use crate::abi::signals_blocked;
use crate::failure::{Errno, Failure};
use crate::socket::{Role, check_flags, find};
use crate::types::{ICN_DENY, ICN_DONTWAIT, ICN_PUSH, ICN_REFUSE, ICN_REQUESTS_MAX, ICN_TRUNC};

/// What `icn_sendmsg` sends.
pub(crate) struct Message<'a> {
    pub(crate) name: Option<&'a Name>,
    pub(crate) content: &'a [u8],
    /// Whether there is content, were it empty.
    pub(crate) has_content: bool,
    pub(crate) request: u64,
    pub(crate) lifetime_ms: u32,
    pub(crate) options: Option<&'a str>,
}

/// What `icn_recvmsg` received.
pub(crate) struct Received {
    pub(crate) name: Name,
    pub(crate) content: Vec<u8>,
    pub(crate) request: u64,
    /// Octets that a client offers.
    pub(crate) offered: Option<u64>,
}

/// `icn_publish`, `icn_sendto`: the name with its version, and how many segments.
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

/// What a producer received and the program has not answered: at most [`ICN_REQUESTS_MAX`] of each
/// kind, of which the oldest is given up for another one.
#[derive(Default)]
pub(crate) struct Requests(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    last: u64,
    requests: BTreeMap<u64, Request>,
    pushes: BTreeMap<u64, Pushed>,
}

impl Requests {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert<T>(&self, item: T, list: impl Fn(&mut Waiting) -> &mut BTreeMap<u64, T>) -> u64 {
        let mut waiting = self.waiting();
        waiting.last += 1;
        let number = waiting.last;
        let list = list(&mut waiting);
        list.insert(number, item);
        if list.len() > ICN_REQUESTS_MAX {
            list.pop_first();
        }
        number
    }

    fn take(&self, number: u64) -> Result<Request, Failure> {
        self.waiting().requests.remove(&number).ok_or_else(|| no_request(number))
    }
}

fn no_request(number: u64) -> Failure {
    Failure::new(libc::EINVAL, format!("there is no request {number}: it was answered, or never received"))
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
            // The first one starts a thread.
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
                // It may be answered otherwise, by a shorter content for instance.
                socket.requests.waiting().requests.insert(message.request, request);
                return Err(error.into());
            }
            Ok(())
        }
    }
}

/// `icn_recvmsg`. A failure says what it was about, if anything.
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
                Ok(data) => {
                    Ok(Received { name: data.name, content: data.content, request: 0, offered: None })
                }
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
            let request = socket.requests.insert(pushed, |waiting| &mut waiting.pushes);
            Ok(Received { name, content: Vec::new(), request, offered })
        }
        Role::Producer(producer) => {
            let request = if may_wait { producer.recv() } else { producer.try_recv() }.map_err(early)?;
            let (name, content) =
                (without_digest(request.name()), request.parameters().unwrap_or_default().to_vec());
            let request = socket.requests.insert(request, |waiting| &mut waiting.requests);
            Ok(Received { name, content, request, offered: None })
        }
    }
}

/// The name that was asked for, without the digest of the parameters that go with it.
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

/// `icn_pull`: the octets of what was offered.
pub(crate) fn pull(number: c_int, request: u64, by: c_int, buffer: &mut [u8]) -> Result<usize, Failure> {
    let socket = find(number)?;
    let (producer, consumer) = (socket.producer()?, find(by)?.consumer()?);
    let pushed = {
        let mut waiting = socket.requests.waiting();
        let offered = waiting.pushes.get(&request).ok_or_else(|| no_request(request))?.octets();
        if offered.is_some_and(|octets| octets > buffer.len() as u64) {
            let sentence = format!("the buffer has {} octets, the object more", buffer.len());
            return Err(Failure::new(libc::EMSGSIZE, sentence));
        }
        waiting.pushes.remove(&request).ok_or_else(|| no_request(request))?
    };
    let content = signals_blocked(|| pushed.pull(&consumer, &producer))?;
    let room = buffer.get_mut(..content.len());
    room.ok_or_else(|| Failure::new(libc::EMSGSIZE, "the object is larger than its client said"))?
        .copy_from_slice(&content);
    Ok(content.len())
}
