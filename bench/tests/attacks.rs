//! Promises under attack: a real router at its default limits, real attackers, and what becomes of
//! the honest (docs/security.md). The limits leave room for a machine of two busy cores and a build
//! without optimisation; how good it is where nothing else runs is measured, not tested.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use namely_skip::{Need, skip};
use serde_json::Value;

/// One attack at a time: all of them measure.
static ALONE: Mutex<()> = Mutex::new(());

/// How long the router may take to say how it is, ms.
const STATUS_MS_MAX: f64 = 9000.0;

/// The longest turn that a worker may have, us. It is to be 10 ms where the router has its
/// processors for itself and is optimised; here a turn of so much work takes ten times as long, and
/// others of the machine may have the processor meanwhile. A wait for a peer is longer than this: a
/// close that lingers 5 s.
const TURN_US_MAX: f64 = 2_500_000.0;

/// How much memory may stay behind, MiB, beside what the honest had cached meanwhile and what still
/// pends: 20 are wished for, and 10 or less were measured of an optimised build.
const MEMORY_LEFT_MIB: f64 = 40.0;

/// The same after all attacks at once: 42 were measured at most.
const MEMORY_LEFT_OF_ALL_MIB: f64 = 80.0;

/// Runs one short attack; its figures, or `None` where the programs are not built.
fn attack(name: &str) -> Option<Value> {
    // These attackers become another user of the machine.
    let needs_root = ["descriptors", "commands", "memory", "reports", "target", "all"].contains(&name);
    if needs_root && !rustix::process::geteuid().is_root() {
        skip(Need::Root, "only root becomes another user");
        return None;
    }
    // These are on a link of their own, or forge an address in a namespace of their own.
    let on_link = ["silent", "refusing", "lying", "mtu", "challenges", "unsigned", "offers"];
    if on_link.contains(&name) && !namely_skip::namespaces() {
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

/// What is promised under each attack: honest fetches and pings lose nothing, the operator is
/// answered, and afterwards everything is as it was.
#[track_caller]
fn assert_kept(figures: &Value) {
    assert_eq!(number(figures, "fetches_failed"), 0.0, "{figures}");
    assert_eq!(number(figures, "pings_lost"), 0.0, "{figures}");
    assert_answered_and_given_back(figures, MEMORY_LEFT_MIB);
}

/// The second half of it, with so much memory left.
#[track_caller]
fn assert_answered_and_given_back(figures: &Value, left_mib: f64) {
    assert!(number(figures, "fetches") >= 3.0, "nothing was fetched: {figures}");
    assert_eq!(number(figures, "status_failed"), 0.0, "{figures}");
    assert!(number(figures, "status_max_ms") < STATUS_MS_MAX, "{figures}");
    assert!(number(figures, "turn_max_us") < TURN_US_MAX, "{figures}");
    let left = number(figures, "memory_after_mib") - number(figures, "memory_before_mib");
    // A router that was too busy to say it counts as one with nothing more in use.
    let in_use = |key: &str| figures[key].as_f64();
    let more = in_use("in_use_after_mib").zip(in_use("in_use_before_mib"));
    let left = left - more.map_or(0.0, |(after, before)| after - before);
    assert!(left < left_mib, "{left} MiB stay behind: {figures}");
}

#[test]
fn a_flood_of_interests_that_pend_for_an_hour_costs_the_honest_no_fetch_and_no_ping() {
    let Some(figures) = attack("pit") else { return };
    assert!(sent(&figures, "pit.interests") > 10_000, "{figures}");
    assert_kept(&figures);
}

#[test]
fn forty_connections_that_do_not_read_cost_the_honest_no_fetch_and_no_ping() {
    let Some(figures) = attack("readers") else { return };
    assert_eq!(sent(&figures, "readers.connections"), 40, "{figures}");
    assert_kept(&figures);
}

#[test]
fn ten_thousand_addresses_keep_no_application_and_no_operator_out() {
    let Some(figures) = attack("faces") else { return };
    assert!(sent(&figures, "faces.sources") > 8192, "{figures}");
    assert_kept(&figures);
}

#[test]
fn data_that_nobody_asked_a_peer_for_spoils_no_fetch() {
    let Some(figures) = attack("poison") else { return };
    assert!(sent(&figures, "poison.objects") > 100, "{figures}");
    assert_kept(&figures);
}

#[test]
fn descriptors_that_are_slow_to_close_stop_nobody() {
    let Some(figures) = attack("descriptors") else { return };
    let tried = sent(&figures, "descriptors.descriptors") + sent(&figures, "descriptors.refused");
    assert!(tried >= 5, "{figures}");
    assert_kept(&figures);
}

#[test]
fn commands_of_another_user_without_pause_stop_nobody() {
    let Some(figures) = attack("commands") else { return };
    assert!(sent(&figures, "commands.registrations") > 100, "{figures}");
    assert_kept(&figures);
}

#[test]
fn shared_memory_of_another_user_costs_others_nothing_of_theirs() {
    let Some(figures) = attack("memory") else { return };
    assert!(sent(&figures, "memory.interfaces") > 2, "{figures}");
    assert!(sent(&figures, "memory.refused") > 0, "{figures}");
    assert_kept(&figures);
}

#[test]
fn reports_of_another_user_that_cached_data_is_wrong_cost_the_honest_no_fetch() {
    let Some(figures) = attack("reports") else { return };
    assert!(sent(&figures, "reports.reports") > 20, "{figures}");
    assert_kept(&figures);
}

#[test]
fn fragments_that_are_never_completed_cost_the_honest_no_fetch() {
    let Some(figures) = attack("fragments") else { return };
    assert!(sent(&figures, "fragments.fragments") > 10_000, "{figures}");
    assert_kept(&figures);
}

#[test]
fn connections_that_never_finish_their_first_message_cost_the_honest_no_fetch() {
    let Some(figures) = attack("handshakes") else { return };
    assert!(sent(&figures, "handshakes.connections") > 100, "{figures}");
    assert_kept(&figures);
}

#[test]
fn a_forged_address_gets_no_more_than_its_limit() {
    let Some(figures) = attack("reflection") else { return };
    assert!(sent(&figures, "reflection.interests") > 2000, "{figures}");
    // 10 Mbit/s, and what may come at once: a tenth of a second's worth in 3 s, and one packet.
    let kbit_s = sent(&figures, "reflection.victim_kbit_s");
    assert!(kbit_s <= 10_500, "{kbit_s} kbit/s reach the victim: {figures}");
    assert!(kbit_s >= 2000, "nothing was reflected, so that nothing is shown: {figures}");
    assert_kept(&figures);
}

#[test]
fn whoever_renames_in_a_folder_that_a_tree_is_fetched_into_puts_nothing_elsewhere_and_nothing_false_in() {
    let Some(figures) = attack("target") else { return };
    assert!(sent(&figures, "target.fetches") >= 1 && sent(&figures, "target.links") > 0, "{figures}");
    assert_eq!((sent(&figures, "target.escaped"), sent(&figures, "target.others")), (0, 0), "{figures}");
    assert_kept(&figures);
}

/// A station that has proven itself, and is asked beside the producer, costs it no ping.
#[track_caller]
fn assert_producer_kept(figures: &Value, attack: &str) {
    assert!(sent(figures, &format!("{attack}.proofs")) > 0, "the station is no neighbor: {figures}");
    assert!(sent(figures, &format!("{attack}.interests")) > 0, "the station is asked nothing: {figures}");
    assert_kept(figures);
}

#[test]
fn a_silent_station_costs_the_producer_beside_it_no_ping() {
    let Some(figures) = attack("silent") else { return };
    assert_producer_kept(&figures, "silent");
    assert_eq!(number(&figures, "data_refused"), 0.0, "{figures}");
}

#[test]
fn a_refusing_station_costs_the_producer_beside_it_no_ping() {
    let Some(figures) = attack("refusing") else { return };
    assert_producer_kept(&figures, "refusing");
    assert_eq!(number(&figures, "data_refused"), 0.0, "{figures}");
}

#[test]
fn a_lying_station_is_asked_no_more_once_its_data_was_refused() {
    let Some(figures) = attack("lying") else { return };
    assert_producer_kept(&figures, "lying");
    // It is asked again half a minute later. One more may be under way when the first is reported.
    let refused = number(&figures, "data_refused");
    assert!((1.0..=2.0).contains(&refused), "{refused} lies came: {figures}");
}

#[test]
fn stations_that_prove_nothing_leave_the_mtu_of_the_group() {
    let Some(figures) = attack("mtu") else { return };
    assert!(sent(&figures, "mtu.hellos_heard") > 0 && sent(&figures, "mtu.looks") > 0, "{figures}");
    assert_eq!(sent(&figures, "mtu.group_mtu_min"), 1500, "{figures}");
    assert_kept(&figures);
}

#[test]
fn an_address_outside_the_link_is_sent_no_challenge() {
    let Some(figures) = attack("challenges") else { return };
    assert!(sent(&figures, "challenges.other_network") > 0, "no hello was refused: {figures}");
    assert_eq!(sent(&figures, "challenges.victim_octets"), 0, "{figures}");
    assert_kept(&figures);
}

#[test]
fn unsigned_requests_in_a_neighbors_name_leave_it_its_own() {
    let Some(figures) = attack("unsigned") else { return };
    assert!(sent(&figures, "unsigned.bad_signature") > 20, "{figures}");
    assert_eq!(sent(&figures, "unsigned.rate_limited"), 0, "{figures}");
    let (asked, answered) = (sent(&figures, "unsigned.asked"), sent(&figures, "unsigned.answered"));
    assert!(answered > 0 && answered * 2 > asked, "{answered} of {asked} answered: {figures}");
    assert_kept(&figures);
}

#[test]
fn offers_of_a_neighbor_are_cut_to_what_its_link_carries() {
    let Some(figures) = attack("offers") else { return };
    assert!(sent(&figures, "offers.offers_heard") > 1 && sent(&figures, "offers.offer_cut") > 0, "{figures}");
    let percent = sent(&figures, "offers.percent_of_link");
    assert!((1..=125).contains(&percent), "{percent} % of what the link carries: {figures}");
    assert_kept(&figures);
}

#[test]
fn words_of_strangers_reach_no_terminal_as_they_are() {
    let Some(figures) = attack("escapes") else { return };
    assert!(sent(&figures, "escapes.names") > 0 && sent(&figures, "escapes.quoted") > 0, "{figures}");
    assert_eq!(sent(&figures, "escapes.obeyed"), 0, "{figures}");
    assert_kept(&figures);
}

#[test]
fn all_attacks_at_once_leave_a_router_that_answers() {
    let Some(figures) = attack("all") else { return };
    let attacks = figures["sent"].as_object().expect("what was sent").len();
    assert!(attacks >= 10, "{figures}");
    assert_eq!(number(&figures, "fetches_failed"), 0.0, "{figures}");
    assert_eq!(number(&figures, "pings_lost"), 0.0, "{figures}");
    assert_answered_and_given_back(&figures, MEMORY_LEFT_OF_ALL_MIB);
}

#[test]
fn after_a_round_of_attacks_nothing_has_leaked_and_the_router_ends_when_told() {
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
