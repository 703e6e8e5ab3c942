//! Strategies that applications choose for their own prefixes.

use namely_messages::{StrategyChoice, strategy_name};
use namely_mgmt::{CHOICES_MAX, CHOICES_PER_FACE_MAX};

use super::*;

fn choice(prefix: &str, strategy: &str) -> ControlParameters {
    ControlParameters { strategy: strategy_name(strategy), ..named(prefix) }
}

/// The strategy of exactly this prefix.
fn chosen(world: &World, prefix: &str) -> Option<Name> {
    let content = world.dataset(Dataset::StrategyChoiceList);
    let choices: Vec<StrategyChoice> = blocks(&content).map(Result::unwrap).collect();
    choices.into_iter().find(|choice| choice.prefix == name(prefix)).map(|choice| choice.strategy)
}

fn closed(world: &World, face: u64) {
    world.management.borrow_mut().face_closed(face, &world.tables);
}

#[test]
fn registrants_choose_the_strategy_of_their_prefix() {
    let world = World::new();
    let (own, other) = (world.add_face("fd://1"), world.add_face("fd://2"));
    let run =
        |command, parameters: &ControlParameters, face| world.command(command, parameters, face, USER).code;
    let multicast = choice("/home/group", "multicast");
    assert_eq!(run(Command::StrategyChoiceSet, &multicast, own), 403, "it has not registered the prefix");
    assert_eq!(run(Command::RibRegister, &named("/home/group"), own), 200);
    assert_eq!(run(Command::StrategyChoiceSet, &multicast, own), 200);
    assert!(
        strategy_name("multicast").unwrap().is_prefix_of(chosen(&world, "/home/group").unwrap().as_name())
    );
    assert_eq!(run(Command::StrategyChoiceSet, &choice("/home", "multicast"), own), 403, "above its prefix");
    assert_eq!(run(Command::StrategyChoiceSet, &multicast, other), 403);

    assert_eq!(run(Command::RibRegister, &named("/home/group"), other), 200);
    assert_eq!(run(Command::StrategyChoiceSet, &choice("/home/group", "best-route"), other), 409);
    assert_eq!(run(Command::StrategyChoiceSet, &multicast, other), 200, "a member of the group");
    closed(&world, own);
    assert!(chosen(&world, "/home/group").is_some(), "the other member is there");
    assert_eq!(run(Command::RibUnregister, &named("/home/group"), other), 200);
    assert_eq!(chosen(&world, "/home/group"), None, "it ends with the last route");
}

#[test]
fn choices_end_with_their_face() {
    let world = World::new();
    let own = world.add_face("fd://1");
    let run = |command, parameters: &ControlParameters| world.command(command, parameters, own, USER).code;
    run(Command::RibRegister, &named("/home/group"));
    let multicast = choice("/home/group", "multicast");
    assert_eq!(run(Command::StrategyChoiceSet, &multicast), 200);
    assert_eq!(run(Command::StrategyChoiceUnset, &named("/home/group")), 200);
    assert_eq!(run(Command::StrategyChoiceUnset, &named("/home/group")), 404);
    assert_eq!(run(Command::StrategyChoiceSet, &multicast), 200);
    closed(&world, own);
    assert_eq!(chosen(&world, "/home/group"), None);
}

#[test]
fn the_operators_choice_stays() {
    let world = World::new();
    let (own, root) = (world.add_face("fd://1"), Requester::User(0));
    assert_eq!(world.command(Command::RibRegister, &named("/home/group"), own, USER).code, 200);
    let set = |strategy: &str, requester| {
        world.command(Command::StrategyChoiceSet, &choice("/home/group", strategy), own, requester).code
    };
    assert_eq!(set("multicast", USER), 200);
    assert_eq!(set("best-route", root), 200, "the operator overrides it");
    assert_eq!(set("multicast", USER), 409);
    closed(&world, own);
    assert!(chosen(&world, "/home/group").is_some());
}

#[test]
fn registrants_choose_a_bounded_number_of_strategies() {
    let world = World::with(Config {
        rib: RibLimits { routes_per_holder_max: 10_000, ..RibLimits::default() },
        ..Config::new(sha256)
    });
    let choose = |face, n: usize| {
        let prefix = format!("/home/{face}/{n}");
        assert_eq!(world.command(Command::RibRegister, &named(&prefix), face, USER).code, 200);
        world.command(Command::StrategyChoiceSet, &choice(&prefix, "multicast"), face, USER).code
    };
    for _ in 0..CHOICES_MAX / CHOICES_PER_FACE_MAX {
        let face = world.add_face("fd://1");
        assert!((0..CHOICES_PER_FACE_MAX).all(|n| choose(face, n) == 200));
        assert_eq!(choose(face, CHOICES_PER_FACE_MAX), 403, "one too many of a face");
        assert_eq!(choose(face, 0), 200, "a choice is repeated");
    }
    let face = world.add_face("fd://2");
    assert_eq!(choose(face, 0), 403, "one too many of all");
}

/// A name of 4.4 kB was registered, but its answer was too long to be sent.
#[test]
fn commands_without_room_for_an_answer_change_nothing() {
    let world = World::new();
    let own = world.add_face("fd://1");
    let prefix = |octets: usize| named(&format!("/home/{}", "x".repeat(octets)));
    for (octets, code) in [(4_000, 200), (4_400, 414)] {
        let response = world.command(Command::RibRegister, &prefix(octets), own, USER);
        assert_eq!(response.code, code, "{octets}: {}", response.text);
        let rib: Vec<RibEntry> = blocks(&world.dataset(Dataset::RibList)).map(Result::unwrap).collect();
        assert_eq!(rib.len(), 1, "{octets}");
    }
    // The text of a refusal would name the prefix.
    let refused =
        world.command(Command::RibRegister, &named(&format!("/work/{}", "x".repeat(4_400))), own, USER);
    assert_eq!(refused.code, 403);
}

#[test]
fn a_second_server_of_a_prefix_is_remarked() {
    let world = World::new();
    let (own, other) = (world.add_face("fd://1"), world.add_face("fd://2"));
    let register = |face| world.command(Command::RibRegister, &named("/home/x"), face, USER);
    assert!(!register(own).is_shared() && !register(own).is_shared(), "its own route");
    let second = register(other);
    assert!(second.is_ok() && second.is_shared(), "{}", second.text);
}
