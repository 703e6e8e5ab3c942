//! Sends TEXT to the service of this name, and prints the reply: `request /lab/shout hello`

use namely_socket::{Consumer, ConsumerOptions, Datagram, Failure, Name};

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, text] = &arguments[..] else {
        eprintln!("usage: request NAME TEXT");
        std::process::exit(2);
    };
    let name: Name = name.parse()?;
    let consumer = Consumer::bind(name.clone(), ConsumerOptions::default())?;
    let reply = consumer.request(&Datagram::new(name).with_parameters(text.as_str()))?;
    println!("{}", String::from_utf8_lossy(&reply.content));
    Ok(())
}
