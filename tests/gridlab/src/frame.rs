//! What one read of a TUN queue gives: a packet, or as many TCP segments of one connection as the kernel
//! leaves for the interface to cut (TSO), told by a header before them (`struct virtio_net_hdr`, virtio
//! 1.2, 5.1.6). They travel as one where nothing parts them, as they would from an interface that cuts into
//! one that joins (GRO): packet by packet, 1500 bytes a time, one process could not move what a grid does.
//! Where a queue takes some of them only, or one is lost, the frame is split.

/// Before each packet, in the machine's byte order: flags, kind, length of headers, payload of a segment,
/// two places of a checksum.
pub const PREFIX_BYTES: usize = 10;
/// The longest frame: what an IPv4 packet holds.
pub const MAX_BYTES: usize = PREFIX_BYTES + 65_535;

const GSO_TCPV4: u8 = 1;
/// Of a packet that is none: its checksum is already right.
const PLAIN: [u8; PREFIX_BYTES] = [0; PREFIX_BYTES];
const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// A packet or several segments of one connection, with what the kernel put before them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// As it was read from the queue of an interface; `None` where it is too short for one.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() > PREFIX_BYTES).then(|| Self { bytes: bytes.to_vec() })
    }

    /// One packet, whatever is in it.
    pub fn of_packet(packet: &[u8]) -> Self {
        Self { bytes: [&PLAIN, packet].concat() }
    }

    /// To be written to the queue of an interface.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// From the IPv4 header on, as if it were one packet.
    pub fn packet(&self) -> &[u8] {
        &self.bytes[PREFIX_BYTES.min(self.bytes.len())..]
    }

    /// Bytes of the headers of each segment, and of the payload of all but the last; `None` for a packet.
    fn cut(&self) -> Option<(usize, usize)> {
        let is_cut = self.bytes.get(1).is_some_and(|kind| *kind == GSO_TCPV4);
        let ip_bytes = ip_header_bytes(self.packet());
        let tcp_bytes = usize::from(self.packet().get(ip_bytes + 12)? >> 4) * 4;
        let payload = u16::from_ne_bytes([self.bytes[4], self.bytes[5]]);
        (is_cut && payload > 0).then_some((ip_bytes + tcp_bytes, payload.into()))
    }

    /// How many packets go over a wire for this frame.
    pub fn packets(&self) -> u64 {
        let Some((headers, payload)) = self.cut() else { return 1 };
        self.packet().len().saturating_sub(headers).div_ceil(payload).max(1) as u64
    }

    /// What goes over a wire for it, from the IPv4 headers on.
    pub fn wire_bytes(&self) -> u64 {
        let headers = self.cut().map_or(0, |(headers, _)| headers as u64);
        self.packet().len() as u64 + (self.packets() - 1) * headers
    }

    /// How many of its packets have room in a number of bytes.
    pub fn packets_in(&self, room_bytes: u64) -> u64 {
        if self.wire_bytes() <= room_bytes {
            return self.packets();
        }
        self.cut().map_or(0, |(headers, payload)| room_bytes / (headers + payload) as u64)
    }

    /// Keeps the first packets, at least one, and returns the others, at least one.
    ///
    /// # Panics
    /// Where there are not that many.
    pub fn split_off(&mut self, packets: u64) -> Self {
        assert!((1..self.packets()).contains(&packets), "nothing to split");
        let (headers, payload) = self.cut().expect("several packets");
        let at = PREFIX_BYTES + headers + packets as usize * payload;
        let rest = [&self.bytes[..PREFIX_BYTES + headers], &self.bytes[at..]].concat();
        let mut rest = Self { bytes: rest };
        self.bytes.truncate(at);
        self.tcp_flags(!TCP_FIN_PSH);
        rest.tcp_flags(!TCP_CWR);
        let ip_bytes = ip_header_bytes(self.packet());
        let sequence = &mut rest.bytes[PREFIX_BYTES + ip_bytes + 4..][..4];
        let first = u32::from_be_bytes([sequence[0], sequence[1], sequence[2], sequence[3]]);
        let next = first.wrapping_add(packets as u32 * payload as u32);
        sequence.copy_from_slice(&next.to_be_bytes());
        self.ip_length();
        rest.ip_length();
        rest
    }

    fn tcp_flags(&mut self, keep: u8) {
        let ip_bytes = ip_header_bytes(self.packet());
        self.bytes[PREFIX_BYTES + ip_bytes + 13] &= keep;
    }

    /// Writes the length into the IPv4 header, and the header's checksum. That of TCP the kernel leaves to
    /// the interface, and does not ask for it from one whose frames are not cut.
    fn ip_length(&mut self) {
        let length = self.packet().len() as u16;
        let ip = &mut self.bytes[PREFIX_BYTES..];
        ip[2..4].copy_from_slice(&length.to_be_bytes());
        ip[10..12].fill(0);
        let header = &ip[..ip_header_bytes(ip)];
        let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

/// Of an IPv4 packet (RFC 791: a count of words in its first byte).
fn ip_header_bytes(packet: &[u8]) -> usize {
    packet.first().map_or(0, |first| usize::from(first & 0x0f) * 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv4 and TCP headers of 20 and 32 bytes, then payload that counts up.
    fn segments(payload: usize, of_each: u16) -> Frame {
        let mut bytes = PLAIN.to_vec();
        bytes[1] = GSO_TCPV4;
        bytes[4..6].copy_from_slice(&of_each.to_ne_bytes());
        let mut headers = [0; 52];
        headers[0] = 0x45;
        headers[20 + 4..20 + 8].copy_from_slice(&u32::MAX.to_be_bytes());
        headers[20 + 12] = 0x80;
        headers[20 + 13] = TCP_FIN_PSH | TCP_CWR | 0x10;
        bytes.extend(headers);
        bytes.extend((0..payload).map(|i| i as u8));
        let mut frame = Frame { bytes };
        frame.ip_length();
        frame
    }

    fn payload(frame: &Frame) -> &[u8] {
        &frame.packet()[52..]
    }

    #[test]
    fn every_segment_has_headers_on_the_wire() {
        let frame = segments(3500, 1448);
        assert_eq!((frame.packets(), frame.wire_bytes()), (3, 3500 + 3 * 52));
        assert_eq!(frame.packets_in(10_000), 3);
        assert_eq!(
            [frame.packets_in(1499), frame.packets_in(1500), frame.packets_in(3200)],
            [0, 1, 2]
        );
        let packet = Frame::of_packet(&[0x45; 84]);
        assert_eq!((packet.packets(), packet.wire_bytes(), packet.packets_in(83)), (1, 84, 0));
    }

    #[test]
    fn what_is_split_is_what_was_sent() {
        let whole = segments(3500, 1448);
        let mut first = whole.clone();
        let rest = first.split_off(2);
        assert_eq!((first.packets(), rest.packets()), (2, 1));
        assert_eq!([payload(&first), payload(&rest)].concat(), payload(&whole));
        let sequence = |frame: &Frame| frame.packet()[24..28].to_vec();
        assert_eq!(
            sequence(&rest),
            2895u32.to_be_bytes(),
            "2 × 1448 behind, less the one that wraps"
        );
        let flags = |frame: &Frame| frame.packet()[33];
        assert_eq!([flags(&first), flags(&rest)], [TCP_CWR | 0x10, TCP_FIN_PSH | 0x10]);
        for frame in [&first, &rest] {
            let ip = &frame.packet()[..20];
            assert_eq!(u16::from_be_bytes([ip[2], ip[3]]) as usize, frame.packet().len());
            let sum: u32 = ip.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "a header's words add up to that");
        }
    }
}
