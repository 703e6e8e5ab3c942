//! Simulated events reuse memory: the allocator of this test counts the allocations of a running
//! network.
#![deny(unsafe_code)]

use namely_sim::{ConstantRate, LinkSpec, Network, Producer, RouterSpec, SECOND};
use namely_wire::Name;

#[allow(unsafe_code)]
mod counting {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    }

    struct Counting;

    // SAFETY: every call is passed on to the system's allocator unchanged. Counting accesses only a
    // thread-local number, which has no destructor.
    unsafe impl GlobalAlloc for Counting {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
            // SAFETY: the caller guarantees the conditions that `System` requires.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
            // SAFETY: as above.
            unsafe { System.dealloc(ptr, layout) }
        }

        unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
            // SAFETY: as above.
            unsafe { System.realloc(ptr, layout, size) }
        }
    }

    #[global_allocator]
    static COUNTING: Counting = Counting;

    /// Allocations of this thread while `run` runs.
    pub(super) fn allocations(run: impl FnOnce()) -> u64 {
        let before = ALLOCATIONS.get();
        run();
        ALLOCATIONS.get() - before
    }
}

/// Events for each allocation that is tolerated, such as that of a growing queue.
const EVENTS_PER_ALLOCATION: u64 = 10;

#[test]
fn a_running_network_allocates_nothing_per_event() {
    let mut network = Network::new(2);
    let nodes: Vec<_> = (0..5).map(|_| network.add_router(RouterSpec::default())).collect();
    for pair in nodes.windows(2) {
        network.connect(pair[0], pair[1], LinkSpec::default());
    }
    let prefix: Name = "/p".parse().expect("a name");
    network.announce(&prefix, nodes[4]);
    network.attach(nodes[4], Box::new(Producer::new(prefix.clone(), 1000)));
    network.attach(nodes[0], Box::new(ConstantRate::new(prefix, 1000)));
    // Until the content stores are full and no table grows.
    network.run_until(5 * SECOND);
    let before = network.events();
    let allocations = counting::allocations(|| network.run_until(10 * SECOND));
    let events = network.events() - before;
    assert!(events > 10_000, "{events}");
    assert!(allocations * EVENTS_PER_ALLOCATION < events, "{allocations} allocations in {events} events");
}
