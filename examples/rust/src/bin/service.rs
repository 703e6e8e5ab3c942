//! Answers the requests for names below PREFIX in upper case: `service /lab/shout`

use namely_socket::{Failure, Name, Producer, ProducerOptions, PublishOptions};

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [prefix] = &arguments[..] else {
        eprintln!("usage: service PREFIX");
        std::process::exit(2);
    };
    let prefix: Name = prefix.parse()?;
    let producer = Producer::bind(prefix, ProducerOptions::default())?;
    loop {
        let request = producer.recv()?;
        let answered = match request.parameters() {
            Some(text) => producer.reply(&request, &text.to_ascii_uppercase(), &PublishOptions::default()),
            None => producer.deny(&request),
        };
        // An answer that fails ends no service: the next request may be another client's.
        if let Err(error) = answered {
            eprintln!("{}", Failure::from(error));
        }
    }
}
