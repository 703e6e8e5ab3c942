//! The driver of the Rust binding (README.md of this crate).

use std::collections::{HashMap, VecDeque};
use std::io::{BufRead, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use namely_conformance::content;
use namely_socket::{
    Consumer, ConsumerOptions, Datagram, FetchError, ObjectStream, Pending, Producer, ProducerOptions,
    PublishOptions, PushOptions, Pushed, Request, errno_name,
};
use namely_wire::{NackReason, Name, NameRef};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The answer to a step: words behind `ok`, or the reason of its failure.
type Answer = Result<String, Trouble>;

enum Trouble {
    Errno(i32, String),
    /// The socket does not exist any more. C reports this with EBADF, and Rust excludes it by
    /// ownership.
    NoSocket,
    /// A wrong step, or one that this driver does not know.
    Unknown(String),
}

macro_rules! errors {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Trouble {
            fn from(error: $error) -> Self {
                Trouble::Errno(error.errno(), error.to_string())
            }
        })*
    };
}

errors!(
    namely_socket::BindError,
    namely_socket::FetchError,
    namely_socket::PublishError,
    namely_socket::OptionError,
    namely_socket::CallError,
    namely_socket::SendError,
    namely_socket::RecvError,
    namely_socket::PushError,
);

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        match error.downcast::<FetchError>() {
            Ok(error) => error.into(),
            Err(error) => Trouble::Errno(error.raw_os_error().unwrap_or_default(), error.to_string()),
        }
    }
}

fn unknown(why: impl Into<String>) -> Trouble {
    Trouble::Unknown(why.into())
}

enum Socket {
    NewConsumer(Box<ConsumerOptions>),
    NewProducer(Box<ProducerOptions>),
    Consumer(Arc<Consumer>),
    Producer(Arc<Producer>),
}

type Fetch = Pending<Result<Vec<u8>, FetchError>>;

#[derive(Default)]
struct Driver {
    sockets: HashMap<String, Socket>,
    /// Fetches that `try-fetch` began.
    begun: HashMap<(String, Name), Fetch>,
    /// Streams that `hold` began.
    held: HashMap<(String, Name), ObjectStream>,
    /// Received requests that producers have not answered.
    requests: HashMap<String, VecDeque<Request>>,
    offers: HashMap<String, VecDeque<Pushed>>,
}

fn main() {
    let mut driver = Driver::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let answer = match driver.step(&line.split(' ').collect::<Vec<_>>()) {
            Ok(words) if words.is_empty() => "ok".into(),
            Ok(words) => format!("ok {words}"),
            Err(Trouble::NoSocket) => "error EBADF".into(),
            Err(Trouble::Unknown(why)) => format!("unknown {why}"),
            Err(Trouble::Errno(errno, why)) => {
                eprintln!("{line}: {why}");
                match errno_name(errno) {
                    Some(name) => format!("error {name}"),
                    None => format!("error {errno}"),
                }
            }
        };
        println!("{answer}");
        if std::io::stdout().flush().is_err() {
            break;
        }
    }
}

fn name(uri: &str) -> Result<Name, Trouble> {
    uri.parse().map_err(|e| unknown(format!("'{uri}' is no name: {e}")))
}

fn number(text: &str) -> Result<u64, Trouble> {
    text.parse().map_err(|_| unknown(format!("'{text}' is no number")))
}

fn octets(word: &str) -> Result<Vec<u8>, Trouble> {
    content::parse(word).ok_or_else(|| unknown(format!("'{word}' describes no content")))
}

impl Driver {
    fn step(&mut self, words: &[&str]) -> Answer {
        match *words {
            ["hello"] => Ok("rust whole".into()),
            ["reset"] => {
                *self = Driver::default();
                Ok(String::new())
            }
            ["open", id, role, protocol @ ("reliable" | "unreliable")] => {
                self.open(id, role, protocol == "reliable")
            }
            ["set", id, option, value] => self.set(id, option, value),
            ["get", id, option] => self.get(id, option),
            ["bind", id, prefix] => self.bind(id, name(prefix)?),
            ["fetch", id, object] => Ok(content::result(&self.consumer(id)?.fetch(&name(object)?)?)),
            ["try-fetch", id, object] => self.try_fetch(id, name(object)?),
            ["publish", id, object, content, ref options @ ..] => {
                let published = self.producer(id)?.publish(
                    &name(object)?,
                    &octets(content)?,
                    &publish_options(options)?,
                )?;
                Ok(format!("{} {}", published.name, published.segments))
            }
            ["read", id, object, offset, length] => {
                self.read(id, &name(object)?, number(offset)?, number(length)?)
            }
            ["hold", id, object, length] => self.hold(id, name(object)?, number(length)?),
            ["drain", id, object] => self.drain(id, &name(object)?),
            ["descriptors", more] => descriptors(number(more)?),
            ["pread", id, object, offset, length] => {
                let stream = self.consumer(id)?.open(&name(object)?)?;
                let length = usize::try_from(number(length)?).unwrap_or(usize::MAX);
                Ok(content::result(&stream.read_range(number(offset)?, length)?))
            }
            ["ranges", id, object, ref numbers @ ..] => {
                let stream = self.consumer(id)?.open(&name(object)?)?;
                let numbers = numbers.iter().map(|word| number(word)).collect::<Result<Vec<_>, _>>()?;
                let range = |pair: &[u64]| (pair[0], usize::try_from(pair[1]).unwrap_or(usize::MAX));
                let ranges: Vec<_> = numbers.chunks_exact(2).map(range).collect();
                Ok(content::result(&stream.read_ranges(&ranges)?.concat()))
            }
            ["stat", id, object] => {
                let info = self.consumer(id)?.stat(&name(object)?)?;
                let shown = |known: Option<u64>| known.map_or("-".into(), |n| n.to_string());
                Ok(format!("{} {}", shown(info.octets), shown(info.segments)))
            }
            ["newest", id, object] => {
                let info = self.consumer(id)?.stat(&name(object)?)?;
                let version = info.name.as_name().last().and_then(|last| last.version());
                Ok(version.unwrap_or(0).to_string())
            }
            ["request", id, asked, parameters] => {
                let received = self.consumer(id)?.request(&datagram(asked, parameters)?)?;
                Ok(content::result(&received.content))
            }
            ["send", id, asked, parameters] => {
                self.consumer(id)?.send(&datagram(asked, parameters)?)?;
                Ok(String::new())
            }
            ["recv", id] => self.recv(id, true),
            ["try-recv", id] => self.recv(id, false),
            ["reply", id, content, ref options @ ..] => {
                let request = self.oldest_request(id)?;
                self.producer(id)?.reply(&request, &octets(content)?, &publish_options(options)?)?;
                Ok(String::new())
            }
            ["deny", id] => {
                let request = self.oldest_request(id)?;
                self.producer(id)?.deny(&request)?;
                Ok(String::new())
            }
            ["refuse", id] => {
                let request = self.oldest_request(id)?;
                self.producer(id)?.refuse(request, NackReason::NoRoute)?;
                Ok(String::new())
            }
            ["push", id, server, object, content] => {
                let (server, object, content) = (name(server)?, name(object)?, octets(content)?);
                self.producer(id)?.push(&server, &object, &content, &PushOptions::default())?;
                Ok(String::new())
            }
            ["accept", id] => {
                let pushed = self.producer(id)?.accept_push()?;
                let answer = pushed.name().to_string();
                self.offers.entry(id.into()).or_default().push_back(pushed);
                Ok(answer)
            }
            ["pull", id, consumer] => {
                let offer = self.offers.get_mut(id).and_then(VecDeque::pop_front);
                let offer = offer.ok_or_else(|| unknown("nothing was offered"))?;
                Ok(content::result(&offer.pull(&*self.consumer(consumer)?, &*self.producer(id)?)?))
            }
            ["ready", id, ms] => self.ready(id, Duration::from_millis(number(ms)?)),
            ["close", id] => {
                self.requests.remove(id);
                self.offers.remove(id);

                self.begun.retain(|(socket, _), _| socket != id);
                self.held.retain(|(socket, _), _| socket != id);
                self.sockets.remove(id).map(|_| String::new()).ok_or_else(no_socket)
            }
            ["after", ms, "close", id] => self.close_after(Duration::from_millis(number(ms)?), id),
            _ => Err(unknown("there is no such step here")),
        }
    }

    fn open(&mut self, id: &str, role: &str, reliable: bool) -> Answer {
        let socket = match role {
            "consumer" => {
                Socket::NewConsumer(Box::new(ConsumerOptions { reliable, ..ConsumerOptions::default() }))
            }
            "producer" => {
                Socket::NewProducer(Box::new(ProducerOptions { reliable, ..ProducerOptions::default() }))
            }
            _ => return Err(unknown("no such role")),
        };
        self.sockets.insert(id.into(), socket);
        Ok(String::new())
    }

    fn set(&mut self, id: &str, option: &str, value: &str) -> Answer {
        match self.sockets.get_mut(id).ok_or_else(no_socket)? {
            Socket::NewConsumer(options) => options.set(option, value)?,
            Socket::NewProducer(options) => options.set(option, value)?,
            Socket::Consumer(consumer) => consumer.set_option(option, value)?,
            Socket::Producer(producer) => producer.set_option(option, value)?,
        }
        Ok(String::new())
    }

    fn get(&mut self, id: &str, option: &str) -> Answer {
        Ok(match self.sockets.get(id).ok_or_else(no_socket)? {
            Socket::NewConsumer(options) => options.get(option)?,
            Socket::NewProducer(options) => options.get(option)?,
            Socket::Consumer(consumer) => consumer.option(option)?,
            Socket::Producer(producer) => producer.option(option)?,
        })
    }

    fn bind(&mut self, id: &str, prefix: Name) -> Answer {
        let socket = self.sockets.get_mut(id).ok_or_else(no_socket)?;
        *socket = match socket {
            Socket::NewConsumer(options) => {
                Socket::Consumer(Arc::new(Consumer::bind(prefix, (**options).clone())?))
            }
            Socket::NewProducer(options) => {
                Socket::Producer(Arc::new(Producer::bind(prefix, (**options).clone())?))
            }
            Socket::Consumer(_) | Socket::Producer(_) => return Err(unknown("it is bound")),
        };
        Ok(String::new())
    }

    fn read(&self, id: &str, object: &Name, offset: u64, length: u64) -> Answer {
        let mut stream = self.consumer(id)?.stream(object)?;
        stream.seek(SeekFrom::Start(offset))?;
        let mut octets = Vec::new();
        stream.take(length).read_to_end(&mut octets)?;
        Ok(content::result(&octets))
    }

    fn hold(&mut self, id: &str, object: Name, length: u64) -> Answer {
        let consumer = self.consumer(id)?;
        let key = (id.to_owned(), object.clone());
        if !self.held.contains_key(&key) {
            self.held.insert(key.clone(), consumer.stream(&object)?);
        }
        let Some(stream) = self.held.get_mut(&key) else { return Err(unknown("no stream")) };
        let mut octets = Vec::new();
        stream.take(length).read_to_end(&mut octets)?;
        Ok(content::result(&octets))
    }

    fn drain(&self, id: &str, object: &Name) -> Answer {
        let mut stream = self.consumer(id)?.stream(object)?;
        let (mut octets, mut gaps) = (Vec::new(), 0);
        while let Err(error) = stream.read_to_end(&mut octets) {
            match error.get_ref().and_then(|error| error.downcast_ref::<FetchError>()) {
                Some(FetchError::Lost { .. }) => gaps += 1,
                _ => return Err(error.into()),
            }
        }
        Ok(format!("{} {gaps}", content::result(&octets)))
    }

    fn recv(&mut self, id: &str, waits: bool) -> Answer {
        if let Some(Socket::Producer(producer)) = self.sockets.get(id) {
            let request = if waits { producer.recv() } else { producer.try_recv() }?;
            let parameters = content::result(request.parameters().unwrap_or_default());
            let answer = format!("{} {parameters}", without_digest(request.name()));
            self.requests.entry(id.into()).or_default().push_back(request);
            return Ok(answer);
        }
        let consumer = self.consumer(id)?;
        let received = if waits { consumer.recv() } else { consumer.try_recv() }?;
        Ok(format!("{} {}", received.name, content::result(&received.content)))
    }

    fn oldest_request(&mut self, id: &str) -> Result<Request, Trouble> {
        let request = self.requests.get_mut(id).and_then(VecDeque::pop_front);
        request.ok_or_else(|| unknown("no request waits"))
    }

    fn ready(&self, id: &str, wait: Duration) -> Answer {
        let polled = |socket: &dyn AsFd| {
            let timeout = Timespec::try_from(wait).ok();
            let fd = socket.as_fd();
            poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], timeout.as_ref())
        };
        let ready = match self.sockets.get(id).ok_or_else(no_socket)? {
            Socket::Consumer(consumer) => polled(&**consumer),
            Socket::Producer(producer) => polled(&**producer),
            Socket::NewConsumer(_) | Socket::NewProducer(_) => return Err(unknown("it is not bound")),
        };
        let ready = ready.map_err(|errno| Trouble::Errno(errno.raw_os_error(), errno.to_string()))?;
        Ok(if ready > 0 { "yes" } else { "no" }.into())
    }

    fn try_fetch(&mut self, id: &str, object: Name) -> Answer {
        let consumer = self.consumer(id)?;
        let key = (id.to_owned(), object.clone());
        if !self.begun.contains_key(&key) {
            self.begun.insert(key.clone(), consumer.fetch_async(&object)?);
        }
        let Some(pending) = self.begun.get_mut(&key) else { return Err(unknown("no fetch")) };
        let taken = pending.try_take();
        if !matches!(&taken, Err(error) if errno_name(error.errno()) == Some("EAGAIN")) {
            self.begun.remove(&key);
        }
        Ok(content::result(&taken?))
    }

    fn close_after(&mut self, wait: Duration, id: &str) -> Answer {
        match self.sockets.get(id).ok_or_else(no_socket)? {
            Socket::Consumer(consumer) => {
                let consumer = consumer.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(wait);
                    consumer.close();
                });
            }
            Socket::Producer(producer) => {
                let producer = producer.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(wait);
                    producer.close();
                });
            }
            Socket::NewConsumer(_) | Socket::NewProducer(_) => return Err(unknown("it is not bound")),
        }
        Ok(String::new())
    }

    fn consumer(&self, id: &str) -> Result<Arc<Consumer>, Trouble> {
        match self.sockets.get(id).ok_or_else(no_socket)? {
            Socket::Consumer(consumer) => Ok(consumer.clone()),
            _ => Err(unknown("it is no bound consumer")),
        }
    }

    fn producer(&self, id: &str) -> Result<Arc<Producer>, Trouble> {
        match self.sockets.get(id).ok_or_else(no_socket)? {
            Socket::Producer(producer) => Ok(producer.clone()),
            _ => Err(unknown("it is no bound producer")),
        }
    }
}

/// Raises the process's limit so that `more` further descriptors are available, regardless of gaps
/// in the numbers in use.
fn descriptors(more: u64) -> Answer {
    let limit = getrlimit(Resource::Nofile);
    let is_free = |number: &u64| std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_err();
    let first = (0..limit.maximum.unwrap_or(u64::MAX)).filter(is_free).nth(more as usize);
    let limit = Rlimit { current: first.or(limit.maximum), maximum: limit.maximum };
    setrlimit(Resource::Nofile, limit).map_err(std::io::Error::from)?;
    Ok(String::new())
}

fn no_socket() -> Trouble {
    Trouble::NoSocket
}

fn datagram(asked: &str, parameters: &str) -> Result<Datagram, Trouble> {
    let datagram = Datagram::new(name(asked)?);
    Ok(if parameters == "-" { datagram } else { datagram.with_parameters(octets(parameters)?) })
}

/// The requested name, without the digest of the parameters.
fn without_digest(name: NameRef<'_>) -> Name {
    let digest = name.last().is_some_and(|last| last.is_parameters_digest());
    name.without_last(digest.into()).to_name()
}

/// `OPTION=VALUE` for one publication.
fn publish_options(words: &[&str]) -> Result<PublishOptions, Trouble> {
    let mut options = PublishOptions::default();
    for word in words {
        let (option, value) = word.split_once('=').ok_or_else(|| unknown("no OPTION=VALUE"))?;
        options.set(option, value)?;
    }
    Ok(options)
}
