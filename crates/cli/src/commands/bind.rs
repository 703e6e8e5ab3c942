//! `namely bind`: the prefixes that applications of the router's host have bound.

use clap::{Args, Subcommand};
use namely_messages::{Binding, bind_flags};
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::options::name;
use crate::output::Cell;
use crate::router::connect;

/// List and remove bindings: prefixes of applications below a route to `local`.
#[derive(Debug, Subcommand)]
pub enum Bind {
    /// List bound prefixes
    List(List),
    /// Remove a binding from its application
    Remove(Remove),
}

impl Bind {
    /// Runs the subcommand.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        match self {
            Bind::List(c) => c.run(ctx),
            Bind::Remove(c) => c.run(ctx),
        }
    }
}

/// List bound prefixes.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely bind list --json")]
pub struct List {}

impl List {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let bindings = connect(ctx)?.bindings()?;
        if ctx.out.is_json() {
            for binding in &bindings {
                ctx.out.answer(String::new, || binding_json(binding));
            }
            return Ok(());
        }
        let rows: Vec<Vec<Cell>> = bindings
            .iter()
            .map(|binding| {
                let routed = if is_routed(binding) { "yes" } else { "no" };
                vec![binding.prefix.to_string().into(), binding.face_id.into(), routed.into()]
            })
            .collect();
        ctx.out.table(&["prefix", "face id", "routed"], &rows);
        if bindings.is_empty() {
            ctx.out.remark(
                "no bindings: below a route of `namely route add PREFIX local` applications bind \
                 prefixes, elsewhere they register routes",
            );
        }
        Ok(())
    }
}

fn is_routed(binding: &Binding) -> bool {
    binding.flags & bind_flags::ROUTED != 0
}

fn binding_json(binding: &Binding) -> serde_json::Value {
    json!({
        "prefix": binding.prefix.to_string(), "face_id": binding.face_id, "routed": is_routed(binding),
    })
}

/// Remove a binding from its application.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely bind remove /lab/data")]
pub struct Remove {
    /// The bound prefix.
    #[arg(value_parser = name)]
    prefix: Name,
}

impl Remove {
    fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = connect(ctx)?;
        let bindings = router.bindings()?;
        let Some(bound) = bindings.iter().find(|binding| binding.prefix == self.prefix) else {
            return Err(Failure::new(
                crate::failure::Exit::NotFound,
                format!("{} is not bound", self.prefix),
            )
            .hint("`namely bind list` lists the bound prefixes"));
        };
        router.unbind(&self.prefix, bound.face_id)?;
        let (prefix, face) = (&self.prefix, bound.face_id);
        ctx.out.answer(
            || format!("{prefix} is no longer bound to face {face}"),
            || json!({"prefix": prefix.to_string(), "face_id": face}),
        );
        Ok(())
    }
}
