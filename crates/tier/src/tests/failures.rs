//! Failures that the tier reports, and after which it continues.

use super::super::error::TierError;
use super::*;

fn restless(folder: &Path) -> Tier {
    let options = Options { rest: Duration::ZERO, ..options(EngineKind::Inline) };
    Tier::open(folder, &options).unwrap()
}

#[test]
fn periodic_syncs_hide_no_failed_write() {
    let folder = tempfile::tempdir().unwrap();
    let tier = restless(folder.path());
    write(&tier, 0..3);
    let error = std::io::Error::other("a lost write");
    tier.shared.note_write_error(TierError::new(folder.path(), error));
    // The keeper's own synchronization succeeds before the caller requests one.
    tier.shared.orders.lock().syncs_asked += 1;
    tier.turn();
    assert!(tier.sync().unwrap_err().to_string().contains("a lost write"));
    tier.sync().unwrap();
}

#[test]
fn later_syncs_hide_no_failed_sync() {
    let folder = tempfile::tempdir().unwrap();
    let tier = restless(folder.path());
    let error = std::io::Error::other("a lost write");
    tier.shared.note_write_error(TierError::new(folder.path(), error));
    // Two callers request a synchronization each; the first wakes after the second one's.
    let first = tier.shared.orders.lock().request_sync();
    tier.turn();
    let second = tier.shared.orders.lock().request_sync();
    tier.turn();
    let orders = tier.shared.orders.lock();
    assert!(orders.sync_failure(first).is_some_and(|message| message.contains("a lost write")));
    assert_eq!(orders.sync_failure(second), None);
}

#[test]
fn an_erasure_counts_as_done_once_saved() {
    let folder = tempfile::tempdir().unwrap();
    let tier = restless(folder.path());
    write(&tier, 0..10);
    // A folder in the way of the file that replaces the record of erasures.
    let in_the_way = folder.path().join("erased.new");
    std::fs::create_dir(&in_the_way).unwrap();
    tier.erase(packet(3).0.as_name()).unwrap();
    for _ in 0..3 {
        tier.turn();
    }
    assert_eq!(tier.status().erasing, 1, "a crash now would forget the erasure");
    let mut caller = tier.caller().unwrap();
    assert_eq!(read(&tier, &mut caller, 3), None, "reads skip the record all the same");
    std::fs::remove_dir(&in_the_way).unwrap();
    tier.turn();
    assert_eq!((tier.status().erasing, tier.status().records), (0, 9));
}
