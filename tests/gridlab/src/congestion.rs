//! Which congestion control the TCP of a host uses. The setting of a network namespace
//! (`net.ipv4.tcp_congestion_control`) takes only what the machine's administrator allows everyone; a
//! route's metric (`congctl`, ip-route(8)) takes any that the kernel has, so the choice is made there,
//! in a message of rtnetlink(7). It holds for connections between hosts, not for those inside one.

use std::io;
use std::net::Ipv4Addr;

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

/// What users of ordinary Linux have.
pub const USUAL: &str = "cubic";

/// Runs a test with hosts that have the congestion control of this name, or says that the kernel lacks it.
pub fn tested_with(name: &str, test: impl FnOnce(Option<String>)) {
    let available = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(available).unwrap_or_default();
    if available.split_whitespace().any(|other| other == name) {
        return test(Some(name.to_owned()));
    }
    eprintln!("SKIPPED: this kernel has no congestion control `{name}`; try `modprobe tcp_{name}`");
}

// linux/netlink.h and linux/rtnetlink.h
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWROUTE: u16 = 24;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_KERNEL: u8 = 2;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_CC_ALGO: u16 = 16;
const HEADER_BYTES: usize = 16;

/// What the calling thread's network namespace uses where nothing else is said.
pub fn of_namespace() -> io::Result<String> {
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    Ok(std::fs::read_to_string(path)?.trim().to_owned())
}

/// Makes all connections of the calling thread's network namespace through `interface`, which has
/// `address`, use the congestion control of this name.
///
/// # Errors
/// `EINVAL` where the kernel does not have it.
pub fn choose(interface: &str, address: Ipv4Addr, prefix: u8, name: &str) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    // Protocol 0 of netlink is that of routes.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let inet = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    let index = netdevice::name_to_index(&inet, interface)?;
    rustix::io::write(&socket, &new_route(index, address, prefix, name))?;
    let mut answer = [0; 1024];
    let len = rustix::io::read(&socket, &mut answer)?;
    refusal(&answer[..len]).map_or(Ok(()), Err)
}

/// The route that the kernel made for the interface's own network, with a metric more.
fn new_route(index: u32, address: Ipv4Addr, prefix: u8, name: &str) -> Vec<u8> {
    let network = u32::from(address) & (u32::MAX << (32 - prefix));
    // rtmsg: family, prefixes and type of service, table, protocol, scope, type, flags.
    let family = libc::AF_INET as u8;
    let mut body = vec![family, prefix, 0, 0, RT_TABLE_MAIN, RTPROT_KERNEL, RT_SCOPE_LINK];
    body.extend([RTN_UNICAST, 0, 0, 0, 0]);
    body.extend(attribute(RTA_DST, &network.to_be_bytes()));
    body.extend(attribute(RTA_OIF, &index.to_ne_bytes()));
    body.extend(attribute(RTA_PREFSRC, &address.octets()));
    let text = [name.as_bytes(), &[0]].concat();
    body.extend(attribute(RTA_METRICS, &attribute(RTAX_CC_ALGO, &text)));
    let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_REPLACE | NLM_F_CREATE;
    let len = (HEADER_BYTES + body.len()) as u32;
    let mut message = len.to_ne_bytes().to_vec();
    message.extend([RTM_NEWROUTE.to_ne_bytes(), flags.to_ne_bytes()].concat());
    // Sequence number and sender, which nobody asks for.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Length, kind and content, filled up to a multiple of four bytes.
fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
    let len = (4 + content.len()) as u16;
    let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The error that the kernel's answer tells, if it does; one that is no answer is an error as well.
fn refusal(answer: &[u8]) -> Option<io::Error> {
    let word = |at: usize| answer.get(at..at + 4)?.try_into().ok().map(i32::from_ne_bytes);
    let kind = answer.get(4..6).map(|bytes| u16::from_ne_bytes([bytes[0], bytes[1]]));
    match (kind, word(HEADER_BYTES)) {
        (Some(NLMSG_ERROR), Some(0)) => None,
        (Some(NLMSG_ERROR), Some(code)) => Some(io::Error::from_raw_os_error(-code)),
        _ => Some(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_written_as_the_kernel_reads_it() {
        let route = new_route(7, Ipv4Addr::new(10, 2, 0, 1), 8, "cubic");
        assert_eq!(route[..4], (route.len() as u32).to_ne_bytes());
        assert_eq!(route.len() % 4, 0);
        let attributes = &route[HEADER_BYTES + 12..];
        assert_eq!(attributes[4..8], [10, 0, 0, 0], "the network, not the host");
        assert!(attributes.windows(6).any(|window| window == b"cubic\0"));
    }

    #[test]
    fn only_an_answer_of_zero_means_done() {
        let answer = |kind: u16, code: i32| {
            let mut bytes = vec![0; HEADER_BYTES];
            bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
            bytes.extend(code.to_ne_bytes());
            bytes
        };
        assert!(refusal(&answer(NLMSG_ERROR, 0)).is_none());
        let error = refusal(&answer(NLMSG_ERROR, -libc::EINVAL)).unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert!(refusal(&answer(RTM_NEWROUTE, 0)).is_some() && refusal(&[]).is_some());
    }
}
