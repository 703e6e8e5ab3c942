//! The compared subjects: a router and its users' file tools, behind one interface.
//!
//! A subject only defines how its programs are started. The metrics, repetitions and durations are
//! the same for all subjects and defined elsewhere.

mod namely;
mod ndn_tools;
mod ndnd;
mod nfd;
mod relay;
mod site;

pub use self::site::{Fetch, Network, PREFIX, Publication, Site, Subject, SubjectName, free_ports};

/// Returns the subjects of a name.
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
