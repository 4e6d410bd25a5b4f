//! The system calls that have no safe wrapper: TUN devices, interface settings, real-time priority,
//! waiting for signals and the parent-death signal. Everything above this module is safe.

use std::ffi::CString;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// `SIOCGSTAMPNS` of asm-generic/sockios.h, which libc does not have.
const SIOCGSTAMPNS: libc::Ioctl = 0x8907;

/// Returns the error of the last system call where it failed.
fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn interface_request(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is a plain C struct for which all bytes zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

fn interface_ioctl(
    fd: &OwnedFd,
    request: libc::Ioctl,
    argument: &mut libc::ifreq,
) -> io::Result<()> {
    // SAFETY: `argument` is a valid ifreq that outlives the call, and every request used in this
    // module reads or writes at most an ifreq.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request, argument as *mut libc::ifreq) })
}

fn ipv4(address: Ipv4Addr) -> libc::sockaddr {
    let bytes = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from(address).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: both are plain C structs of 16 bytes; sockaddr_in is meant to be passed as sockaddr.
    unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(bytes) }
}

/// Makes a TUN device in the calling thread's network namespace and returns its non-blocking queue, whose
/// reads and writes are [`crate::frame::Frame`]s. The device vanishes with the last descriptor of its queue.
pub fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut request = interface_request(name);
    request.ifr_ifru.ifru_flags =
        (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    interface_ioctl(&fd, libc::TUNSETIFF as libc::Ioctl, &mut request)?;
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4;
    // SAFETY: this request takes a number, not a pointer.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD as libc::Ioctl, offloads) })?;
    Ok(fd)
}

/// Gives an interface of the calling thread's network namespace its address, MTU and queue length,
/// and switches it on.
pub fn configure_interface(
    name: &str,
    address: Ipv4Addr,
    prefix: u8,
    mtu: Option<u64>,
) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut request = interface_request(name);
    if let Some(mtu) = mtu {
        request.ifr_ifru.ifru_mtu = mtu as libc::c_int;
        interface_ioctl(&socket, libc::SIOCSIFMTU as libc::Ioctl, &mut request)?;
        // The queue between kernel and forwarder only bridges the forwarder's reaction time. It is
        // for real root to lengthen; the kernel's 500 packets do without.
        request.ifr_ifru.ifru_metric = 5000;
        let _ = interface_ioctl(&socket, libc::SIOCSIFTXQLEN as libc::Ioctl, &mut request);
    }
    request.ifr_ifru.ifru_addr = ipv4(address);
    interface_ioctl(&socket, libc::SIOCSIFADDR as libc::Ioctl, &mut request)?;
    request.ifr_ifru.ifru_netmask = ipv4(Ipv4Addr::from(u32::MAX << (32 - prefix)));
    interface_ioctl(&socket, libc::SIOCSIFNETMASK as libc::Ioctl, &mut request)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    interface_ioctl(&socket, libc::SIOCSIFFLAGS as libc::Ioctl, &mut request)
}

/// Makes the kernel note when each packet of the socket came.
pub fn keep_arrival_times(socket: &OwnedFd) {
    // The first question switches it on; there is no packet yet to answer for.
    let _ = arrival_time(socket);
}

/// When the packet received last was taken from the interface; see [`keep_arrival_times`].
pub fn arrival_time(socket: &OwnedFd) -> io::Result<SystemTime> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: this request writes one timespec, and `time` outlives the call.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSTAMPNS, &mut time) })?;
    Ok(UNIX_EPOCH + Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Gives the calling thread real-time priority (SCHED_FIFO), which its children don't inherit.
pub fn real_time_priority(priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `parameter` is valid for the call; 0 names the calling thread.
    check(unsafe { libc::sched_setscheduler(0, policy, &parameter) })
}

/// Gives the calling thread the lowest of all priorities (SCHED_IDLE).
pub fn idle_priority() -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameter` is valid for the call; 0 names the calling thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameter) })
}

/// Signals kept from their default action, to be waited for one by one.
pub struct Signals(libc::sigset_t);

impl Signals {
    /// Blocks `signals` in the calling thread and in the threads it starts from now on.
    pub fn block(signals: &[libc::c_int]) -> io::Result<Self> {
        // SAFETY: sigset_t is a plain C struct, initialised by sigemptyset before it is used; the
        // pointers are valid for each call.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            check(libc::sigemptyset(&mut set))?;
            for &signal in signals {
                check(libc::sigaddset(&mut set, signal))?;
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) {
                0 => Ok(Self(set)),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// Waits for one of the signals, at most `milliseconds`.
    pub fn wait(&self, milliseconds: u64) -> Option<libc::c_int> {
        let limit = libc::timespec {
            tv_sec: (milliseconds / 1000) as libc::time_t,
            tv_nsec: (milliseconds % 1000 * 1_000_000) as libc::c_long,
        };
        // SAFETY: set and time limit are valid for the call; a null info pointer is allowed.
        let signal = unsafe { libc::sigtimedwait(&self.0, std::ptr::null_mut(), &limit) };
        (signal > 0).then_some(signal)
    }
}

/// Makes `command` start in a process group of its own, with no signal blocked, and be sent SIGTERM
/// when the thread that started it is gone.
pub fn die_with_parent(command: &mut Command) {
    command.process_group(0);
    // SAFETY: the closure calls only async-signal-safe functions on memory of its own.
    unsafe {
        command.pre_exec(|| {
            let mut none: libc::sigset_t = std::mem::zeroed();
            check(libc::sigemptyset(&mut none))?;
            check(libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()))?;
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM))
        });
    }
}

/// Makes `command` leave the session of its starter, so that it outlives its terminal, and inherit none
/// of its descriptors but the standard ones: whoever waits for the end of a pipe would wait for the
/// command's end too.
pub fn detach(command: &mut Command) {
    // SAFETY: both calls are async-signal-safe and touch no memory.
    unsafe {
        command.pre_exec(|| {
            let (first, last, flags) = (3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
            if libc::syscall(libc::SYS_close_range, first, last, flags) < 0 {
                return Err(io::Error::last_os_error());
            }
            check(libc::setsid())
        });
    }
}

/// Mounts a file system; a thin wrapper that gives the strings their C form.
pub fn mount(what: &str, target: &str, kind: &str, options: &str) -> io::Result<()> {
    let text = |s: &str| CString::new(s).map_err(io::Error::other);
    let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
    Ok(rustix::mount::mount(
        text(what)?.as_c_str(),
        text(target)?.as_c_str(),
        text(kind)?.as_c_str(),
        flags,
        Some(text(options)?.as_c_str()),
    )?)
}

/// Gives the calling thread new namespaces.
pub fn unshare(kinds: rustix::thread::UnshareFlags) -> io::Result<()> {
    // SAFETY: only namespaces (and with NEWNS the thread's own working folder) are separated; the
    // descriptor table, which others may rely on to be shared, is not among the flags used here.
    Ok(unsafe { rustix::thread::unshare_unsafe(kinds) }?)
}

/// Lets a closed pipe end the program quietly, as other commands do, instead of as an error.
pub fn end_quietly_on_closed_pipe() {
    // SAFETY: restores the default action of a signal before any thread is started.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
