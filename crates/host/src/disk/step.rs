//! A hook before each system call that takes a name. A test uses it to let another process rename,
//! link and remove at the critical moment. For tests only.

use std::cell::RefCell;

type Hook = Box<dyn FnMut(&'static str)>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Runs `work` on this thread. Before each system call of `work` that takes a name of a file,
/// `hook` receives the name of the call.
pub fn between<T>(hook: impl FnMut(&'static str) + 'static, work: impl FnOnce() -> T) -> T {
    HOOK.set(Some(Box::new(hook)));
    let done = work();
    HOOK.take();
    done
}

pub(super) fn step(call: &'static str) {
    // System calls of the hook itself have no hook.
    if let Some(mut hook) = HOOK.take() {
        hook(call);
        HOOK.set(Some(hook));
    }
}
