//! Freed memory that the allocator retains. A program of its own, because allocations of other
//! tests would be counted, too.
#![cfg(target_env = "gnu")]

use namely_host::{HugePages, give_back_memory, keep_little_memory};

#[global_allocator]
static MEMORY: HugePages = HugePages;

#[test]
fn freed_thread_memory_returns_to_the_system() {
    let resident_kib = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux says it");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has a line");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number")
    };
    keep_little_memory();
    // By default, freeing a large allocation lets the allocator retain as much.
    drop(vec![1u8; 30 << 20]);
    let (full, is_full) = std::sync::mpsc::channel();
    let (end, may_end) = std::sync::mpsc::channel::<()>();
    let before = resident_kib();
    // A thread that stays has a heap of its own.
    let thread = std::thread::spawn(move || {
        let small: Vec<Box<[u8; 200]>> = (0..100_000).map(|_| Box::new([1; 200])).collect();
        let most = resident_kib();
        drop(small);
        full.send(most).expect("it is waited for");
        may_end.recv().expect("it is told");
    });
    let most = is_full.recv().expect("the thread says it");
    give_back_memory();
    let after = resident_kib();
    assert!(most >= before + (18 << 10), "{before} KiB, then {most}");
    assert!(after <= before + (8 << 10), "{before} KiB, then {most}, and {after} stay");
    end.send(()).expect("the thread waits");
    thread.join().expect("it ends");
}
