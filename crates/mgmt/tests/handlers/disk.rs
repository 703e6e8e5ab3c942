//! The commands and the dataset of the content store's disk.

use super::*;

#[test]
fn disk_commands_without_disk_give_hints() {
    let world = World::new();
    let root = Requester::User(0);
    assert_eq!(world.dataset(Dataset::CsDisk), []);
    let change = ControlParameters { cs_disk_octets: Some(1), ..Default::default() };
    for (command, parameters) in
        [(Command::CsPin, named("/a")), (Command::CsUnpin, named("/a")), (Command::CsConfig, change)]
    {
        let response = world.command(command, &parameters, 1, root.clone());
        assert_eq!(response.code, 404, "{command}");
        assert!(response.text.contains("--cs-disk"), "{}", response.text);
    }
    assert_eq!(world.command(Command::CsErase, &named("/a"), 1, root).code, 200);
}

#[test]
fn a_manager_controls_the_disk() {
    let world = World { disk: Some(Disk::default()), ..World::new() };
    let disk = world.disk.as_ref().unwrap();
    let run =
        |command, parameters: &ControlParameters| world.command(command, parameters, 1, Requester::User(0));
    let change = |octets, admission: &str| ControlParameters {
        cs_disk_octets: Some(octets),
        cs_disk_admission: Some(admission.into()),
        ..Default::default()
    };
    let changed = run(Command::CsConfig, &change(7, "all")).parameters().unwrap().unwrap();
    assert_eq!((changed.cs_disk_octets, changed.cs_disk_admission.as_deref()), (Some(7), Some("all")));
    assert_eq!(run(Command::CsConfig, &change(8, "some")).code, 400);
    assert_eq!(run(Command::CsPin, &named("/a")).code, 200);
    assert_eq!(run(Command::CsPin, &named("/b")).code, 409);
    let shown: Vec<CsDiskStatus> =
        blocks(&world.dataset_for(Dataset::CsDisk, Requester::User(0))).map(Result::unwrap).collect();
    assert_eq!((shown[0].octets_max, &shown[0].pinned[..]), (7, &[name("/a")][..]));
    assert_eq!(run(Command::CsUnpin, &named("/a")).code, 200);
    assert_eq!(run(Command::CsUnpin, &named("/a")).code, 404);
    // A count applies to packets in memory only.
    run(Command::CsErase, &ControlParameters { count: Some(1), ..named("/x") });
    assert_eq!(*disk.erased.borrow(), []);
    let erased = run(Command::CsErase, &named("/x")).parameters().unwrap().unwrap();
    assert_eq!((erased.count, &disk.erased.borrow()[..]), (Some(0), &[name("/x")][..]));
    assert_eq!(run(Command::CsErase, &named("/y")).code, 409);
    assert_eq!(world.command(Command::CsPin, &named("/home/x"), 1, USER).code, 403);
}

#[test]
fn reported_data_leaves_the_disk() {
    let world = World { disk: Some(Disk::default()), ..World::new() };
    let disk = world.disk.as_ref().unwrap();
    let full = format!("/a/sha256digest={}", "7".repeat(64));
    assert_eq!(world.command(Command::CsReport, &named("/a"), 1, USER).code, 400);
    assert_eq!(world.command(Command::CsReport, &named(&full), 1, Requester::Unknown).code, 403);
    assert_eq!(*disk.erased.borrow(), []);
    assert_eq!(world.command(Command::CsReport, &named(&full), 1, USER).code, 200);
    assert_eq!(*disk.erased.borrow(), [name(&full)]);
    assert_eq!(world.command(Command::CsReport, &named(&full), 1, USER).code, 409, "the disk refuses it");
}

#[test]
fn only_managers_see_the_disk_folder() {
    let world = World { disk: Some(Disk::default()), ..World::new() };
    let status = &world.disk.as_ref().unwrap().status;
    status.replace(CsDiskStatus {
        folder: "/disk".into(),
        trouble: Some("/disk/key: no space left".into()),
        ..CsDiskStatus::default()
    });
    world.command(Command::CsPin, &named("/secret"), 1, Requester::User(0));
    let shown = |requester: Requester| -> CsDiskStatus {
        blocks(&world.dataset_for(Dataset::CsDisk, requester)).next().unwrap().unwrap()
    };
    let root = shown(Requester::User(0));
    assert_eq!((&root.folder[..], &root.pinned[..]), ("/disk", &[name("/secret")][..]));
    assert!(root.trouble.as_deref().is_some_and(|trouble| trouble.contains("/disk")));
    for requester in [USER, Requester::Loopback(0), Requester::Unknown, Requester::Nameless("gone".into())] {
        let other = shown(requester.clone());
        assert_eq!((&other.folder[..], &other.pinned[..]), ("", &[][..]), "{requester:?}");
        assert!(other.trouble.is_some_and(|trouble| !trouble.contains("/disk")), "{requester:?}");
        assert_eq!((other.octets_max, other.records), (root.octets_max, root.records));
    }
}

#[test]
fn the_counters_include_the_disk() {
    let world = World { disk: Some(Disk::default()), ..World::new() };
    let counters = vec![Counter::new("hits", 2), Counter::new("corrupt", 0)];
    world.disk.as_ref().unwrap().status.borrow_mut().counters = counters;
    let shown: Vec<Counter> = blocks(&world.dataset(Dataset::StatusCounters)).map(Result::unwrap).collect();
    let of_disk: Vec<_> = shown.iter().filter(|counter| counter.label.starts_with("cs_disk.")).collect();
    assert_eq!(of_disk, [&Counter::new("cs_disk.hits", 2)], "zeros are left out");
}
