//! What is compared: a router and the file tools that its users have, behind one interface.
//!
//! A subject only says how its programs are started; what is measured, how often and for how long
//! is the same for all of them and decided elsewhere.

mod namely;
mod ndn_tools;
mod ndnd;
mod nfd;
mod relay;
mod site;

pub use self::site::{Fetch, Network, PREFIX, Publication, Site, Subject, SubjectName, free_ports};

/// The subjects that a name stands for.
pub fn subjects(name: SubjectName) -> Vec<Box<dyn Subject>> {
    match name {
        SubjectName::Namely => namely::Namely::find_all().into_iter().map(boxed).collect(),
        SubjectName::Nfd => nfd::Nfd::find_all().into_iter().map(boxed).collect(),
        SubjectName::Ndnd => ndnd::Ndnd::find_all().into_iter().map(boxed).collect(),
        SubjectName::Relay => relay::Relay::all().into_iter().map(boxed).collect(),
    }
}

fn boxed<S: Subject + 'static>(subject: S) -> Box<dyn Subject> {
    Box::new(subject)
}
