//! A step of somebody else before each system call that takes a name: a test has another process
//! rename, link and remove there, in the one moment that counts. For tests only.

use std::cell::RefCell;

type Hook = Box<dyn FnMut(&'static str)>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Does `work` on this thread; before each of its system calls that take a name, `hook` gets the
/// call's name.
pub fn between<T>(hook: impl FnMut(&'static str) + 'static, work: impl FnOnce() -> T) -> T {
    HOOK.set(Some(Box::new(hook)));
    let done = work();
    HOOK.take();
    done
}

pub(super) fn step(call: &'static str) {
    // What the hook does itself has no steps between.
    if let Some(mut hook) = HOOK.take() {
        hook(call);
        HOOK.set(Some(hook));
    }
}
