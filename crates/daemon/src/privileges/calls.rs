//! Refuses system calls that the router does not need and that an attacker in its process could
//! use. A seccomp filter answers them with EPERM, if the kernel supports such filters.

use std::collections::BTreeMap;

use namely_io::Xdp;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use crate::config::{Config, Engine};

/// The refused calls. Most of them execute programs, access other processes, or change mounts,
/// namespaces, or the kernel's keys, modules and clocks.
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

/// Refuses these calls for this process from now on. A missing feature of the kernel is logged.
pub(super) fn confine(config: &Config) {
    let is_bpf_needed = config.faces.ethernet.xdp != Xdp::Off;
    let is_uring_needed = config.cs.disk.folder.is_some() && config.cs.disk.engine != Engine::Threads;
    let refused = REFUSED.into_iter().chain((!is_bpf_needed).then_some(libc::SYS_bpf));
    let refused = refused.chain((!is_uring_needed).then_some(libc::SYS_io_uring_setup));
    match filter(refused).and_then(|filter| seccompiler::apply_filter(&filter)) {
        Ok(()) => tracing::info!("system calls are confined"),
        Err(error) => tracing::warn!(%error, "system calls are not confined"),
    }
}

fn filter(refused: impl Iterator<Item = libc::c_long>) -> Result<BpfProgram, seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let rules: BTreeMap<i64, Vec<_>> = refused.map(|call| (call, Vec::new())).collect();
    let errno = SeccompAction::Errno(libc::EPERM as u32);
    Ok(SeccompFilter::new(rules, SeccompAction::Allow, errno, arch)?.try_into()?)
}
