//! The strategy of all nodes, and their routes to the producers.

use std::sync::Arc;

use namely_bench::error::Error;
use namely_sim::topology::BuiltTopology;
use namely_sim::{Announcement, DistanceVector, Network, NodeId};
use namely_wire::Name;

use super::scenario::{NetworkOptions, Routing};

/// Next hops of each computed route.
const PATHS: usize = 2;

/// Sets the strategy of all names.
pub(super) fn set_strategy(
    network: &Network,
    nodes: &[NodeId],
    options: &NetworkOptions,
) -> Result<(), Error> {
    let learned = (options.routes == Routing::Learned).then_some("self-learning");
    let Some(strategy) = options.strategy.as_deref().or(learned) else { return Ok(()) };
    let name = Name::new().join_generic(strategy.as_bytes());
    for node in nodes {
        let set = network.router(*node).strategies().set(Name::new().as_name(), name.as_name());
        set.map_err(|_| Error::Usage(format!("no strategy is called {strategy}")))?;
    }
    Ok(())
}

/// Lets all nodes find the way to the producers.
pub(super) fn announce(
    routing: Routing,
    network: &mut Network,
    built: &BuiltTopology,
    announcements: &[Announcement],
) {
    match routing {
        Routing::Computed => network.announce_all(announcements, PATHS),
        // Producers register their prefixes at their own nodes, and Data teaches the others.
        Routing::Learned => {}
        Routing::DistanceVector => {
            let destinations: Arc<[Name]> = announcements.iter().map(|of| of.prefix.clone()).collect();
            for node in &built.nodes {
                let own = announcements.iter().enumerate().filter(|(_, of)| of.node == *node);
                let own: Vec<usize> = own.map(|(index, _)| index).collect();
                let agent = DistanceVector::new(destinations.clone(), &own, &network.link_faces(*node));
                network.attach_with_local_fields(*node, Box::new(agent));
            }
        }
    }
}
