//! HTTP as short as it can be: what is sent and what comes is in plain sight.

use super::LONG;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// An address of this host on which nothing listens.
pub fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// In lower case.
    pub headers: String,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub fn json(&self) -> serde_json::Value {
        assert_eq!((self.status, self.header("content-type")), (200, Some("application/json")));
        serde_json::from_str(&self.body).unwrap()
    }
}

/// `request` is the first line and more headers.
pub fn send(address: SocketAddr, request: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(format!("{request}\r\n\r\n").as_bytes()).unwrap();
    BufReader::new(stream)
}

pub fn request(address: SocketAddr, request: &str) -> Response {
    let mut reader = send(address, &format!("{request}\r\nconnection: close"));
    let mut text = Vec::new();
    reader.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (headers, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
    let status = headers[9..12].parse().unwrap();
    Response { status, headers: headers.to_lowercase(), body: body.into() }
}

pub fn get(address: SocketAddr, path: &str) -> Response {
    request(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost:{}", address.port()))
}

/// The page's updates as they come.
pub struct Updates {
    reader: BufReader<TcpStream>,
    is_over: bool,
}

impl Updates {
    pub fn open(address: SocketAddr) -> Self {
        let mut reader = send(address, "GET /updates HTTP/1.1\r\nhost: localhost");
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Updates { reader, is_over: false }
    }

    /// The name and the data of the next one; `None` at the connection's end.
    pub fn next(&mut self) -> Option<(String, serde_json::Value)> {
        let (mut name, mut line) = (String::new(), String::new());
        while !self.is_over {
            line.clear();
            self.is_over = self.reader.read_line(&mut line).unwrap_or(0) == 0;
            if let Some(text) = line.strip_prefix("event: ") {
                name = text.trim().into();
            } else if let Some(text) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(text).unwrap()));
            }
        }
        None
    }

    /// The next one of this name.
    pub fn next_of(&mut self, wanted: &str) -> serde_json::Value {
        loop {
            let (name, data) = self.next().expect(wanted);
            if name == wanted {
                return data;
            }
        }
    }
}
