//! Strategies that applications chose for prefixes that they have registered, such as multicast for
//! a sync group. Each choice ends with the last face that made it. The choices of the operator are
//! not in this list, and no application changes them.

use std::collections::{BTreeMap, BTreeSet};

use namely_messages::{Command, ControlParameters, ControlResponse, status_code};
use namely_wire::{Name, NameRef};

use crate::control::Tables;
use crate::modules::{CommandResult, face_or_own, not_found, required_name, strategy};

/// Prefixes of one face with a strategy that its application chose.
///
/// # Limit
/// A further choice is refused with status 403.
/// - Counter: `management.commands_refused`
/// - Tests: `registrants_choose_a_bounded_number_of_strategies`
pub const CHOICES_PER_FACE_MAX: usize = 16;

/// Prefixes of all faces with a strategy that an application chose.
///
/// # Limit
/// A further choice is refused with status 403.
/// - Counter: `management.commands_refused`
/// - Tests: `registrants_choose_a_bounded_number_of_strategies`
pub const CHOICES_MAX: usize = 512;

/// The choices of applications, by prefix.
#[derive(Debug, Default)]
pub(crate) struct Choices(BTreeMap<Name, Choice>);

#[derive(Debug)]
struct Choice {
    /// The strategy's full name.
    strategy: Name,
    /// The faces of the applications that chose it.
    faces: BTreeSet<u64>,
}

/// Returns true for a command about the strategy of a prefix that its face has registered.
pub(crate) fn is_own(command: Command, prefix: &Name, face: u64, tables: &dyn Tables) -> bool {
    matches!(command, Command::StrategyChoiceSet | Command::StrategyChoiceUnset)
        && tables.rib_faces(prefix.as_name()).contains(&face)
}

impl Choices {
    /// Sets or unsets a strategy. The choice of a user that may not manage the router (`manages`)
    /// ends with its face.
    pub(crate) fn execute(
        &mut self,
        command: Command,
        parameters: &ControlParameters,
        face: u64,
        manages: bool,
        tables: &dyn Tables,
    ) -> CommandResult {
        let is_own = parameters.name.as_ref().is_some_and(|name| is_own(command, name, face, tables));
        match (command, is_own && !manages) {
            (Command::StrategyChoiceSet, false) => strategy::set(parameters, tables),
            (Command::StrategyChoiceSet, true) => self.set(parameters, face, tables),
            (_, false) => strategy::unset(parameters, tables),
            (_, true) => self.unset(parameters, face, tables),
        }
    }

    /// Ends the choice of the face whose route `rib/unregister` has removed, unless it has another
    /// route of the same prefix.
    pub(crate) fn route_removed(&mut self, parameters: &ControlParameters, own: u64, tables: &dyn Tables) {
        let Some(prefix) = &parameters.name else { return };
        let face = face_or_own(parameters, own);
        if !tables.rib_faces(prefix.as_name()).contains(&face) {
            self.release(prefix, face, tables);
        }
    }

    /// `strategy-choice/set` by the application on `face`, which has registered the prefix.
    fn set(&mut self, parameters: &ControlParameters, face: u64, tables: &dyn Tables) -> CommandResult {
        let prefix = required_name(parameters)?.to_name();
        self.refuse_overriding(&prefix, parameters, face, tables)?;
        let has_chosen = |choice: &Choice| choice.faces.contains(&face);
        if !self.0.get(&prefix).is_some_and(has_chosen) {
            let own = self.0.values().filter(|choice| has_chosen(choice)).count();
            if own >= CHOICES_PER_FACE_MAX || self.0.len() >= CHOICES_MAX {
                let text = format!(
                    "an application chooses the strategies of {CHOICES_PER_FACE_MAX} prefixes at most, and all \
                     together of {CHOICES_MAX}"
                );
                return Err(ControlResponse::new(status_code::UNAUTHORIZED, text));
            }
        }
        let response = strategy::set(parameters, tables)?;
        if let Some(strategy) = current(prefix.as_name(), tables) {
            let faces = self.0.remove(&prefix).map(|choice| choice.faces).unwrap_or_default();
            let faces = faces.into_iter().chain([face]).collect();
            self.0.insert(prefix, Choice { strategy, faces });
        }
        Ok(response)
    }

    /// Refuses a change of a strategy that the operator or another application chose.
    fn refuse_overriding(
        &mut self,
        prefix: &Name,
        parameters: &ControlParameters,
        face: u64,
        tables: &dyn Tables,
    ) -> Result<(), ControlResponse> {
        let conflict = |text: String| Err(ControlResponse::new(status_code::CONFLICT, text));
        let Some(present) = current(prefix.as_name(), tables) else {
            self.0.remove(prefix);
            return Ok(());
        };
        let Some(choice) = self.0.get(prefix).filter(|choice| choice.strategy == present) else {
            // The operator has changed a choice of an application meanwhile.
            self.0.remove(prefix);
            return conflict(format!("the router's operator chose the strategy of {prefix}"));
        };
        let is_same =
            parameters.strategy.as_ref().is_some_and(|wanted| wanted.is_prefix_of(present.as_name()));
        if !is_same && choice.faces.iter().any(|other| *other != face) {
            return conflict(format!("another application of {prefix} chose {present}"));
        }
        Ok(())
    }

    /// `strategy-choice/unset` by the application on `face`.
    fn unset(&mut self, parameters: &ControlParameters, face: u64, tables: &dyn Tables) -> CommandResult {
        let prefix = required_name(parameters)?.to_name();
        if !self.release(&prefix, face, tables) {
            return Err(not_found(format!("this application has not chosen the strategy of {prefix}")));
        }
        Ok(ControlResponse::ok(&ControlParameters { name: Some(prefix), ..Default::default() }))
    }

    /// Ends the choice of a face for a prefix. Returns false if it made none. The strategy is unset
    /// with the last face, unless the operator has changed it meanwhile.
    fn release(&mut self, prefix: &Name, face: u64, tables: &dyn Tables) -> bool {
        let Some(choice) = self.0.get_mut(prefix).filter(|choice| choice.faces.contains(&face)) else {
            return false;
        };
        choice.faces.remove(&face);
        if choice.faces.is_empty()
            && let Some(choice) = self.0.remove(prefix)
            && current(prefix.as_name(), tables).is_some_and(|present| present == choice.strategy)
        {
            tables.strategy_unset(prefix.as_name());
        }
        true
    }

    /// Ends all choices of a face.
    pub(crate) fn release_all(&mut self, face: u64, tables: &dyn Tables) {
        let of_face = self.0.iter().filter(|(_, choice)| choice.faces.contains(&face));
        let prefixes: Vec<Name> = of_face.map(|(prefix, _)| prefix.clone()).collect();
        prefixes.iter().for_each(|prefix| _ = self.release(prefix, face, tables));
    }
}

/// The strategy that was chosen for exactly this prefix.
fn current(prefix: NameRef<'_>, tables: &dyn Tables) -> Option<Name> {
    let mut choices = tables.strategies().into_iter();
    choices.find(|choice| choice.prefix.as_name() == prefix).map(|choice| choice.strategy)
}
