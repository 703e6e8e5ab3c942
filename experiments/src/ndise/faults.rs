//! Faults in virtual time: the lines and the table of their results.

use namely_bench::error::Error;
use namely_bench::output;
use namely_sim::ndise::faults::{Fault, Faults, Outcome};
use namely_sim::table::Table;
use namely_sim::{SECOND, ndise::Arm};
use serde_json::json;

use super::{Ndise, cell, side_by_side};

/// Units of a VIP.
const UNIT: f64 = (1u64 << 20) as f64;

/// Runs all, and prints lines or a table.
pub(super) fn run(options: &Ndise) -> Result<(), Error> {
    let arms = |fault: Fault| fault.arms().into_iter().map(move |arm| (fault, arm));
    let rows: Vec<(Fault, Arm)> = Fault::ALL.into_iter().flat_map(arms).collect();
    let lasting_ns = options.minutes * 60 * SECOND;
    let seeds = 1..=options.seeds;
    let of_row = |(fault, arm): &(Fault, Arm)| {
        let (fault, arm) = (*fault, *arm);
        seeds.clone().map(move |seed| Faults::new(fault, arm, seed).lasting(lasting_ns))
    };
    let jobs: Vec<Faults> = rows.iter().flat_map(of_row).collect();
    let runs = side_by_side(options.threads, &jobs, Faults::run);
    if options.json {
        runs.iter().for_each(|(run, outcome)| output::line(line(run, outcome)));
        return Ok(());
    }
    output::line(table(&rows, &runs));
    Ok(())
}

fn line(run: &Faults, outcome: &Outcome) -> serde_json::Value {
    json!({
        "experiment": "faults", "fault": run.fault.label(), "arm": run.arm.label(), "seed": run.seed,
        "quarter_slots": run.quarter_slots, "bps": outcome.bps, "back_slots": outcome.back_slots,
        "exchange_slots": outcome.exchange_slots, "retransmissions": outcome.retransmissions,
        "asked": outcome.asked, "twice": outcome.twice, "twice_max": outcome.twice_max,
        "lost": outcome.lost, "wrong_books": outcome.wrong_books,
    })
}

fn table(rows: &[(Fault, Arm)], runs: &[(Faults, Outcome)]) -> String {
    let heads = [
        "faults, Mbit/s",
        "before",
        "meanwhile",
        "after",
        "back after slots",
        "exchange",
        "again",
        "VIPs asked",
        "twice",
        "at most",
        "wrong books",
    ];
    let mut table = Table::new(&heads);
    for (fault, arm) in rows {
        let of_row = || {
            let is_it = |run: &&(Faults, Outcome)| run.0.fault == *fault && run.0.arm == *arm;
            runs.iter().filter(is_it).map(|(_, outcome)| outcome)
        };
        let mbps = |when: usize| cell(of_row().map(|of| (of.bps[0][when] + of.bps[1][when]) / 1e6), 2);
        let vips = |value: &dyn Fn(&Outcome) -> u64| cell(of_row().map(|of| value(of) as f64 / UNIT), 1);
        let most = |value: &dyn Fn(&Outcome) -> Option<u64>| {
            let most = of_row().map(value).reduce(|a, b| Some(a?.max(b?))).flatten();
            most.map_or_else(|| "never".to_owned(), |most| most.to_string())
        };
        let is_vip = arm.is_vip();
        let of_vip = |text: String| if is_vip { text } else { "-".to_owned() };
        table.row([
            format!("{}: {}", fault.label(), arm.label()),
            mbps(0),
            mbps(1),
            mbps(2),
            most(&|of| of.back_slots),
            of_vip(most(&|of| of.exchange_slots)),
            cell(of_row().map(|of| of.retransmissions as f64), 0),
            of_vip(vips(&|of| of.asked)),
            of_vip(vips(&|of| of.twice)),
            of_vip(vips(&|of| of.twice_max)),
            of_vip(of_row().map(|of| of.wrong_books).sum::<u64>().to_string()),
        ]);
    }
    table.text()
}
