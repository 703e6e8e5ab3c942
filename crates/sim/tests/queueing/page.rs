//! The tables and pictures of docs/experiments/nb-cache-model.md agree with the models.

use crate::common;

use namely_sim::queueing::{
    Bypass, Pipeline, Rates, Router, RouterQueues, Shares, Steady, Storage, bypass_svg, ring_svg,
};
use namely_sim::table::Table;

const PAGE: &str = "docs/experiments/nb-cache-model.md";

/// The models of figure 9. The text of the paper names the second and the last.
fn models() -> [(&'static str, Bypass); 4] {
    [
        ("mm1-drop-2", Bypass::dropping(2).unwrap()),
        ("mm1-drop-10", Bypass::dropping(10).unwrap()),
        ("bypass-2*3", Bypass::new(2, 3).unwrap()),
        ("bypass-5*3", Bypass::new(5, 3).unwrap()),
    ]
}

/// `NB-20`.
#[test]
fn figure_9_matches_the_model() {
    let solved = |load: f64| models().map(|(_, model)| model.solve(load).unwrap());
    let loads: Vec<[Steady; 4]> = (1..=40).map(|step| solved(f64::from(step) / 20.0)).collect();
    let lines = models().into_iter().enumerate().map(|(place, (name, _))| {
        (name.to_owned(), loads.iter().map(|steady| steady[place].clone()).collect::<Vec<_>>())
    });
    common::whole("docs/experiments/nb-cache-model.svg", &bypass_svg(&lines.collect::<Vec<_>>()));
    type Figure = (&'static str, fn(&Steady) -> String);
    let figures: [Figure; 4] = [
        ("packets", |s| format!("{:.3}", s.packets_mean())),
        ("a queue", |s| format!("{:.3}", s.packets_mean() / s.queues() as f64)),
        ("loss", |s| if s.loss() < 5e-4 { format!("{:.1e}", s.loss()) } else { format!("{:.3}", s.loss()) }),
        ("utilisation", |s| format!("{:.3}", s.utilisation())),
    ];
    let mut table = Table::new(&["figure", "load", "mm1-drop-2", "mm1-drop-10", "bypass-2*3", "bypass-5*3"]);
    for (title, figure) in figures {
        for of_load in loads.iter().skip(3).step_by(4) {
            let [one, ten, two, five] = of_load.each_ref().map(figure);
            table.row([title.into(), format!("{:.1}", of_load[0].load()), one, ten, two, five]);
        }
    }
    common::snapshot("nb-cache-figure-9", &table.text());
}

/// Times at which the rings of figure 2 are sampled, ms.
const TIMES_MS: [u32; 5] = [50, 100, 200, 500, 1000];

/// `NB-03`.
#[test]
fn figure_2_matches_the_prototype() {
    let heads = ["storage", "hits", "ring", "50 ms", "100 ms", "200 ms", "500 ms", "1 s"];
    let (mut table, mut panels) = (Table::new(&heads), Vec::new());
    for (name, storage) in [("SSD", Storage::Ssd), ("HDD", Storage::Hdd)] {
        for cs_hit in [0.25, 0.5, 0.75] {
            let mut stations = Pipeline::stations(storage, cs_hit, 15_940.0, 1).unwrap();
            let lengths: Vec<(u32, Vec<usize>)> = (1..=100)
                .map(|step| {
                    stations.run_until(f64::from(step) / 100.0);
                    (10 * step, stations.lengths().to_vec())
                })
                .collect();
            let hits = format!("{:.0} %", cs_hit * 100.0);
            for (ring, title) in ["CS", "PIT", "FIB"].into_iter().enumerate() {
                let at = |ms: u32| {
                    let of = lengths.iter().find(|(time, _)| *time == ms);
                    of.map_or_else(String::new, |(_, lengths)| lengths[ring].to_string())
                };
                let [a, b, c, d, e] = TIMES_MS.map(at);
                table.row([name.into(), hits.clone(), title.into(), a, b, c, d, e]);
            }
            let point = |ring: usize| {
                let points = lengths.iter().map(|(ms, of)| (f64::from(*ms) / 1e3, of[ring] as f64));
                std::iter::once((0.0, 0.0)).chain(points).collect::<Vec<_>>()
            };
            panels.push((format!("{name}, {hits} hits: packets in rings"), (0..3).map(point).collect()));
        }
    }
    common::snapshot("nb-cache-figure-2", &table.text());
    common::whole("docs/experiments/nb-cache-rings.svg", &ring_svg(panels, &["CS", "PIT", "FIB"]));
}

/// `NB-02`.
#[test]
fn the_table_of_knees_matches_the_simulation() {
    let heads = ["hits", "bottleneck", "at most", "of 0.9", "of 0.97", "of 1.03", "of 1.1", "of 1.5"];
    let mut table = Table::new(&heads);
    let rates = Rates {
        cs_lookup: 4_700.0,
        cs_insert: 3_000.0,
        pit_lookup: 4_000.0,
        pit_match: 4_000.0,
        fib_lookup: 4_000.0,
    };
    for cs_hit in [0.0, 0.1, 0.25, 0.5, 0.75] {
        let router = Router::new(rates, Shares { cs_hit, ..Shares::default() }).unwrap();
        let (stage, most) = router.bottleneck();
        let accepted = |share: f64| {
            let measured = RouterQueues::run(router, share * most, 2_000, 500_000, 1).unwrap();
            format!("{:.0}", (1.0 - measured.loss()) * share * most)
        };
        let [a, b, c, d, e] = [0.9, 0.97, 1.03, 1.1, 1.5].map(accepted);
        table.row([
            format!("{:.0} %", cs_hit * 100.0),
            stage.name().into(),
            format!("{most:.0}"),
            a,
            b,
            c,
            d,
            e,
        ]);
    }
    common::shown(PAGE, "knees", &table.text());
}
