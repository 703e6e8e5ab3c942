//! Promises under attack: a real router at its default limits, real attackers, and the honest
//! clients (docs/security.md). The limits leave room for a machine of two busy cores and a build
//! without optimization; the figures of a quiet machine are measured, not tested.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use namely_testkit::{Need, skip};
use serde_json::Value;

/// One attack at a time: all of them measure.
static ALONE: Mutex<()> = Mutex::new(());

/// Maximum time of the router to report its status, ms.
const STATUS_MS_MAX: f64 = 9000.0;

/// Maximum duration of a worker's turn, us. The target is 10 ms for an optimized router with
/// processors of its own. An unoptimized one takes ten times as long, and other programs of the
/// machine may interrupt it. A wait for a peer exceeds this limit: a close that lingers takes 5 s.
const TURN_US_MAX: f64 = 2_500_000.0;

/// Maximum memory that may remain, MiB, without the honest clients' new cache entries and pending
/// Interests. The target is 20. An optimized build needed at most 10.
const MEMORY_LEFT_MIB: f64 = 40.0;

/// Maximum memory that may remain after all attacks at once, MiB. At most 42 were measured.
const MEMORY_LEFT_OF_ALL_MIB: f64 = 80.0;

/// Runs one short attack. Returns its figures, or `None` if the programs are not built.
fn attack(name: &str) -> Option<Value> {
    // These attackers switch to another user of the machine.
    let needs_root = ["descriptors", "commands", "memory", "reports", "target", "all"].contains(&name);
    if needs_root && !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root becomes another user");
        return None;
    }
    // These are on a link of their own, or forge an address in a namespace of their own.
    let on_link = ["silent", "refusing", "lying", "mtu", "challenges", "unsigned", "offers"];
    if on_link.contains(&name) && !namely_testkit::namespaces() {
        return None;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new(env!("CARGO_BIN_EXE_namely-bench"))
        .args(["attacks", "--quick", "--json", "--attack", name])
        .output()
        .expect("namely-bench starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let figures: Option<Value> = printed.lines().next().map(|l| serde_json::from_str(l).expect("JSON"));
    if figures.is_none() {
        assert!(said.contains("absent"), "{said}");
        skip(Need::Programs, "namelyd and namely are not built; `cargo test --workspace` builds them");
    }
    figures
}

fn number(figures: &Value, key: &str) -> f64 {
    figures[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {figures}"))
}

fn sent(figures: &Value, what: &str) -> u64 {
    figures["sent"][what].as_u64().unwrap_or(0)
}

/// The promise under each attack: honest fetches and pings lose nothing, the operator receives
/// answers, and afterwards the state is as before.
#[track_caller]
fn assert_kept(figures: &Value) {
    assert_eq!(number(figures, "fetches_failed"), 0.0, "{figures}");
    assert_eq!(number(figures, "pings_lost"), 0.0, "{figures}");
    assert_answered_and_given_back(figures, MEMORY_LEFT_MIB);
}

/// The part of the promise about the router: it answers, and at most `left_mib` MiB remain.
#[track_caller]
fn assert_answered_and_given_back(figures: &Value, left_mib: f64) {
    assert!(number(figures, "fetches") >= 3.0, "nothing was fetched: {figures}");
    assert_eq!(number(figures, "status_failed"), 0.0, "{figures}");
    assert!(number(figures, "status_max_ms") < STATUS_MS_MAX, "{figures}");
    assert!(number(figures, "turn_max_us") < TURN_US_MAX, "{figures}");
    let left = number(figures, "memory_after_mib") - number(figures, "memory_before_mib");
    // A router that was too busy to report its memory in use counts as one whose use did not grow.
    let in_use = |key: &str| figures[key].as_f64();
    let more = in_use("in_use_after_mib").zip(in_use("in_use_before_mib"));
    let left = left - more.map_or(0.0, |(after, before)| after - before);
    assert!(left < left_mib, "{left} MiB stay behind: {figures}");
}

#[test]
fn an_interest_flood_costs_no_fetch() {
    let Some(figures) = attack("pit") else { return };
    assert!(sent(&figures, "pit.interests") > 10_000, "{figures}");
    assert_kept(&figures);
}

#[test]
fn connections_that_never_read_cost_no_fetch() {
    let Some(figures) = attack("readers") else { return };
    assert_eq!(sent(&figures, "readers.connections"), 40, "{figures}");
    assert_kept(&figures);
}

#[test]
fn ten_thousand_addresses_block_no_application() {
    let Some(figures) = attack("faces") else { return };
    assert!(sent(&figures, "faces.sources") > 8192, "{figures}");
    assert_kept(&figures);
}

#[test]
fn unsolicited_data_spoils_no_fetch() {
    let Some(figures) = attack("poison") else { return };
    assert!(sent(&figures, "poison.objects") > 100, "{figures}");
    assert_kept(&figures);
}

#[test]
fn slow_descriptors_block_no_other_user() {
    let Some(figures) = attack("descriptors") else { return };
    let tried = sent(&figures, "descriptors.descriptors") + sent(&figures, "descriptors.refused");
    assert!(tried >= 5, "{figures}");
    assert_kept(&figures);
}

#[test]
fn command_floods_block_no_other_user() {
    let Some(figures) = attack("commands") else { return };
    assert!(sent(&figures, "commands.registrations") > 100, "{figures}");
    assert_kept(&figures);
}

#[test]
fn shared_memory_of_another_user_is_bounded() {
    let Some(figures) = attack("memory") else { return };
    assert!(sent(&figures, "memory.interfaces") > 2, "{figures}");
    assert!(sent(&figures, "memory.refused") > 0, "{figures}");
    assert_kept(&figures);
}

#[test]
fn false_corruption_reports_cost_no_fetch() {
    let Some(figures) = attack("reports") else { return };
    assert!(sent(&figures, "reports.reports") > 20, "{figures}");
    assert_kept(&figures);
}

#[test]
fn incomplete_fragments_cost_no_fetch() {
    let Some(figures) = attack("fragments") else { return };
    assert!(sent(&figures, "fragments.fragments") > 10_000, "{figures}");
    assert_kept(&figures);
}

#[test]
fn incomplete_handshakes_cost_no_fetch() {
    let Some(figures) = attack("handshakes") else { return };
    assert!(sent(&figures, "handshakes.connections") > 100, "{figures}");
    assert_kept(&figures);
}

#[test]
fn reflection_to_a_forged_address_is_limited() {
    let Some(figures) = attack("reflection") else { return };
    assert!(sent(&figures, "reflection.interests") > 2000, "{figures}");
    // The limit of 10 Mbit/s, and the burst in 3 s: 100 ms of that rate, and one packet.
    let kbit_s = sent(&figures, "reflection.victim_kbit_s");
    assert!(kbit_s <= 10_500, "{kbit_s} kbit/s reach the victim: {figures}");
    assert!(kbit_s >= 2000, "nothing was reflected, so that nothing is shown: {figures}");
    assert_kept(&figures);
}

#[test]
fn renames_during_a_fetch_change_nothing_outside() {
    let Some(figures) = attack("target") else { return };
    assert!(sent(&figures, "target.fetches") >= 1 && sent(&figures, "target.links") > 0, "{figures}");
    assert_eq!((sent(&figures, "target.escaped"), sent(&figures, "target.others")), (0, 0), "{figures}");
    assert_kept(&figures);
}

/// A proven station receives Interests beside the producer, and no ping of the producer is lost.
#[track_caller]
fn assert_producer_kept(figures: &Value, attack: &str) {
    assert!(sent(figures, &format!("{attack}.proofs")) > 0, "the station is no neighbor: {figures}");
    assert!(sent(figures, &format!("{attack}.interests")) > 0, "the station is asked nothing: {figures}");
    assert_kept(figures);
}

#[test]
fn a_silent_station_costs_no_ping() {
    let Some(figures) = attack("silent") else { return };
    assert_producer_kept(&figures, "silent");
    assert_eq!(number(&figures, "data_refused"), 0.0, "{figures}");
}

#[test]
fn a_refusing_station_costs_no_ping() {
    let Some(figures) = attack("refusing") else { return };
    assert_producer_kept(&figures, "refusing");
    assert_eq!(number(&figures, "data_refused"), 0.0, "{figures}");
}

#[test]
fn a_lying_station_gets_no_further_interests() {
    let Some(figures) = attack("lying") else { return };
    assert_producer_kept(&figures, "lying");
    // The router sends it Interests again half a minute later. One more may be under way when the
    // first is reported.
    let refused = number(&figures, "data_refused");
    assert!((1.0..=2.0).contains(&refused), "{refused} lies came: {figures}");
}

#[test]
fn unproven_stations_leave_the_group_mtu() {
    let Some(figures) = attack("mtu") else { return };
    assert!(sent(&figures, "mtu.hellos_heard") > 0 && sent(&figures, "mtu.looks") > 0, "{figures}");
    assert_eq!(sent(&figures, "mtu.group_mtu_min"), 1500, "{figures}");
    assert_kept(&figures);
}

#[test]
fn a_foreign_address_receives_no_challenge() {
    let Some(figures) = attack("challenges") else { return };
    assert!(sent(&figures, "challenges.other_network") > 0, "no hello was refused: {figures}");
    assert_eq!(sent(&figures, "challenges.victim_octets"), 0, "{figures}");
    assert_kept(&figures);
}

#[test]
fn unsigned_requests_leave_a_neighbor_its_quota() {
    let Some(figures) = attack("unsigned") else { return };
    assert!(sent(&figures, "unsigned.bad_signature") > 20, "{figures}");
    assert_eq!(sent(&figures, "unsigned.rate_limited"), 0, "{figures}");
    let (requests, answered) = (sent(&figures, "unsigned.asked"), sent(&figures, "unsigned.answered"));
    assert!(answered > 0 && answered * 2 > requests, "{answered} of {requests} answered: {figures}");
    assert_kept(&figures);
}

#[test]
fn neighbor_offers_are_cut_to_link_capacity() {
    let Some(figures) = attack("offers") else { return };
    assert!(sent(&figures, "offers.offers_heard") > 1 && sent(&figures, "offers.offer_cut") > 0, "{figures}");
    let percent = sent(&figures, "offers.percent_of_link");
    assert!((1..=125).contains(&percent), "{percent} % of the link's rate: {figures}");
    assert_kept(&figures);
}

#[test]
fn foreign_escape_sequences_reach_no_terminal() {
    let Some(figures) = attack("escapes") else { return };
    assert!(sent(&figures, "escapes.names") > 0 && sent(&figures, "escapes.quoted") > 0, "{figures}");
    assert_eq!(sent(&figures, "escapes.obeyed"), 0, "{figures}");
    assert_kept(&figures);
}

#[test]
fn a_router_answers_under_all_attacks() {
    let Some(figures) = attack("all") else { return };
    let attacks = figures["sent"].as_object().expect("the sent packets").len();
    assert!(attacks >= 10, "{figures}");
    assert_eq!(number(&figures, "fetches_failed"), 0.0, "{figures}");
    assert_eq!(number(&figures, "pings_lost"), 0.0, "{figures}");
    assert_answered_and_given_back(&figures, MEMORY_LEFT_OF_ALL_MIB);
}

#[test]
fn a_soak_with_attacks_leaks_nothing() {
    if attack_is_impossible() {
        skip(Need::Programs, "namelyd and namely are not built; `cargo test --workspace` builds them");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new(env!("CARGO_BIN_EXE_namely-bench"))
        .args(["soak", "--minutes", "0.4", "--json"])
        .output()
        .expect("namely-bench starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{printed}");
    let rounds = printed.lines().filter(|line| line.contains("\"at_s\"")).count();
    assert!(rounds >= 12, "it attacked: {printed}");
}

fn attack_is_impossible() -> bool {
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_namely-bench")).with_file_name("namelyd");
    !folder.is_file() && std::env::var_os("NAMELY_BIN_DIR").is_none()
}
