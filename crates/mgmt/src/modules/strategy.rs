//! `strategy-choice/set` and `strategy-choice/unset`.

use namely_forwarder::StrategyError;
use namely_messages::{ControlParameters, ControlResponse, status_code};

use super::{CommandResult, bad, not_found, required_name, table_refusal};
use crate::control::Tables;

pub(crate) fn set(parameters: &ControlParameters, tables: &dyn Tables) -> CommandResult {
    let prefix = required_name(parameters)?;
    let strategy = parameters.strategy.as_ref().ok_or_else(|| bad("Strategy is missing"))?;
    match tables.strategy_set(prefix, strategy.as_name()) {
        Ok(chosen) => Ok(ControlResponse::ok(&ControlParameters {
            name: Some(prefix.to_name()),
            strategy: Some(chosen),
            ..Default::default()
        })),
        Err(StrategyError::TableFull) => Err(table_refusal(false, "strategy table", 0)),
        Err(error) => Err(not_found(format!("{strategy}: {error}"))),
    }
}

pub(crate) fn unset(parameters: &ControlParameters, tables: &dyn Tables) -> CommandResult {
    let prefix = required_name(parameters)?;
    if prefix.is_empty() {
        let text = "the strategy of / cannot be unset; set another";
        return Err(ControlResponse::new(status_code::BAD_PARAMETERS, text));
    }
    if !tables.strategy_unset(prefix) {
        return Err(not_found(format!("{prefix} has no strategy of its own")));
    }
    Ok(ControlResponse::ok(&ControlParameters { name: Some(prefix.to_name()), ..Default::default() }))
}
