//! The filter, and the kernel's notifications about calls that it holds back.
//!
//! Every `unsafe` block is one system call with structures that are made and checked here, with two
//! exceptions: one names the call that a child makes before it becomes the program, and one copies
//! into memory that the caller lent.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::{c_long, c_uint, seccomp_data, seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog};

/// The calls that are held back.
const WATCHED: [c_long; 8] = [
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
];

/// The calls that fail as if the kernel had none.
const REFUSED: [c_long; 2] = [libc::SYS_io_uring_setup, libc::SYS_io_setup];

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The id by which the answer names the call.
    pub id: u64,
    /// The thread that made it.
    pub thread: u32,
    /// The number of the system call.
    pub number: c_long,
    /// Its arguments.
    pub arguments: [u64; 6],
}

/// The file descriptor on which calls are received and answered.
#[derive(Debug)]
pub struct Listener(OwnedFd);

fn statement(code: c_uint, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// The filter: loads the number of the call and compares it.
fn filter() -> Vec<sock_filter> {
    let number = std::mem::offset_of!(seccomp_data, nr) as u32;
    let mut filter = vec![statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, number)];
    let mut answer = |call: c_long, action: u32| {
        // The next statement if the number is this one, else the one after that.
        let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        filter.push(sock_filter { code, jt: 0, jf: 1, k: call as u32 });
        filter.push(statement(libc::BPF_RET | libc::BPF_K, action));
    };
    WATCHED.iter().for_each(|&call| answer(call, libc::SECCOMP_RET_USER_NOTIF));
    REFUSED.iter().for_each(|&call| answer(call, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    filter.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW));
    filter
}

/// Puts the calling thread, and all processes that it starts, under the filter.
pub fn install() -> io::Result<Listener> {
    let mut filter = filter();
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: prctl with this option takes numbers only.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program points to `filter`, which outlives the call; the kernel copies it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::c_ulong::from(libc::SECCOMP_SET_MODE_FILTER),
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and no other code has its number.
    Ok(Listener(unsafe { OwnedFd::from_raw_fd(fd as i32) }))
}

/// Makes the program of `command` end with the thread that starts it: without a supervisor all its
/// reads and writes would fail.
pub fn bind(command: &mut Command) {
    let end_with_us = || Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?);
    // SAFETY: between fork and exec only one system call is made, with numbers; nothing is
    // allocated and no lock is taken.
    unsafe { command.pre_exec(end_with_us) };
}

impl Listener {
    /// Receives the next call. `None` if the call was withdrawn, or all programs have ended.
    pub fn receive(&self) -> io::Result<Option<Call>> {
        // SAFETY: all zeros is a value of this structure of numbers, and what the kernel asks for.
        let mut notification: seccomp_notif = unsafe { zeroed() };
        // SAFETY: the kernel fills in a structure of the size that the request names.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notification) };
        if done != 0 {
            let error = io::Error::last_os_error();
            let gone = [Some(libc::ENOENT), Some(libc::EINTR)].contains(&error.raw_os_error());
            return if gone { Ok(None) } else { Err(error) };
        }
        let data = notification.data;
        let (id, thread) = (notification.id, notification.pid);
        Ok(Some(Call { id, thread, number: c_long::from(data.nr), arguments: data.args }))
    }

    /// Lets the kernel carry out a call. A call whose program has ended meanwhile needs no answer.
    pub fn carry_out(&self, id: u64) {
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        let answer = seccomp_notif_resp { id, val: 0, error: 0, flags };
        // SAFETY: the kernel reads a structure of the size that the request names.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    }
}

/// Copies memory of a thread's program at `address`, in one system call instead of the three that
/// the file of its memory needs: each takes time that a real disk would not take.
pub fn read_memory(thread: u32, address: u64, into: &mut [u8]) -> io::Result<()> {
    let thread = libc::pid_t::try_from(thread).map_err(io::Error::other)?;
    let ours = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // An address of the other program, which is not dereferenced here.
    let theirs = libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: into.len() };
    // SAFETY: the kernel writes to `into` alone, and no more than its length. It checks the
    // addresses of the other program itself.
    let copied = unsafe { libc::process_vm_readv(thread, &raw const ours, 1, &raw const theirs, 1, 0) };
    match usize::try_from(copied) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(copied) if copied < into.len() => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(()),
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

// The ABI of the notifications; the numbers of the requests contain these sizes.
const _: () = assert!(size_of::<seccomp_notif>() == 80 && size_of::<seccomp_notif_resp>() == 24);
