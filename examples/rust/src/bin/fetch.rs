//! Writes the object of this name to standard output: `fetch /lab/run7`

use namely_socket::{Consumer, ConsumerOptions, Failure, Name};

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name] = &arguments[..] else {
        eprintln!("usage: fetch NAME");
        std::process::exit(2);
    };
    let name: Name = name.parse()?;
    let consumer = Consumer::bind(name.clone(), ConsumerOptions::default())?;
    std::io::copy(&mut consumer.stream(&name)?, &mut std::io::stdout())?;
    Ok(())
}
