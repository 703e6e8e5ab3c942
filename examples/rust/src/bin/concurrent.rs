//! Fetches objects at the same time with tokio, each within a minute:
//! `concurrent /lab/run7 /lab/run8`

use std::time::Duration;

use namely_socket::{CallError, Consumer, ConsumerOptions, Failure, Name};

const TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let names = std::env::args().skip(1).map(|name| name.parse()).collect::<Result<Vec<Name>, _>>()?;
    if names.is_empty() {
        eprintln!("usage: concurrent NAME...");
        std::process::exit(2);
    }
    // A bind waits for the router: tokio has threads for calls that wait.
    let bound = tokio::task::spawn_blocking(|| -> Result<Consumer, Failure> {
        Ok(Consumer::bind("/".parse()?, ConsumerOptions::default())?)
    });
    let consumer = bound.await.expect("bind does not panic")?;
    // Each fetch begins here, and goes on by itself until it is awaited or dropped.
    let fetches = names.iter().map(|name| consumer.fetch_async(name)).collect::<Result<Vec<_>, _>>()?;
    for (name, fetch) in names.iter().zip(fetches) {
        let content = tokio::time::timeout(TIMEOUT, fetch).await.map_err(|_| CallError::TimedOut)??;
        println!("{name}: {} octets", content.len());
    }
    Ok(())
}
