//! Which system calls the router may not make: those by which somebody who has taken it over would
//! go on from there, and which it has no use for. A seccomp filter answers them with EPERM, where
//! the kernel has such filters.

use std::collections::BTreeMap;

use namely_io::Xdp;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use crate::config::{Config, Engine};

/// Programs, other processes, mounts and namespaces, keys of the kernel, its modules and its
/// clocks.
const REFUSED: [libc::c_long; 47] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fsconfig,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_personality,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_fanotify_init,
    libc::SYS_process_madvise,
];

/// From now on the process makes none of these calls. What the kernel cannot do is said in the log.
pub(super) fn confine(config: &Config) {
    let is_bpf_needed = config.faces.ethernet.xdp != Xdp::Off;
    let is_uring_needed = config.cs.disk.folder.is_some() && config.cs.disk.engine != Engine::Threads;
    let refused = REFUSED.into_iter().chain((!is_bpf_needed).then_some(libc::SYS_bpf));
    let refused = refused.chain((!is_uring_needed).then_some(libc::SYS_io_uring_setup));
    match filter(refused).and_then(|filter| seccompiler::apply_filter(&filter).map_err(|e| e.to_string())) {
        Ok(()) => tracing::info!("system calls are confined"),
        Err(why) => tracing::warn!("system calls are not confined: {why}"),
    }
}

fn filter(refused: impl Iterator<Item = libc::c_long>) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let rules: BTreeMap<i64, Vec<_>> = refused.map(|call| (call, Vec::new())).collect();
    let errno = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, errno, arch);
    filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())
}
