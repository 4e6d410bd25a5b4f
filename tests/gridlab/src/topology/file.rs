//! The topology file as it is written: TOML turned into plain records that remember where each name
//! stands, so that an error can point at its line.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use super::TcpSettings;
use crate::units::{Loss, Rate, Size, Time};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    #[serde(default)]
    pub hosts: Hosts,
    pub site: Vec<Site>,
    #[serde(default)]
    pub link: Vec<Link>,
    #[serde(default)]
    pub event: Vec<Event>,
    #[serde(default)]
    pub cross_traffic: Vec<CrossTraffic>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hosts {
    #[serde(default)]
    pub tcp: TcpSettings,
    pub congestion_control: Option<String>,
    /// In bytes.
    pub mtu: Option<Spanned<u64>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    pub name: Spanned<String>,
    pub nodes: Spanned<Nodes>,
    pub node_rate: Rate,
    pub latency: Time,
    pub uplink: Option<Rate>,
    pub uplink_queue: Option<Size>,
    pub node_queue: Option<Size>,
}

/// `nodes = 4`, or a list whose entries are names or tables.
#[derive(Debug)]
pub enum Nodes {
    Count(u64),
    List(Vec<Spanned<Node>>),
}

/// `"a1"`, or `{ name = "a1", rate = "100mbit" }`.
#[derive(Debug)]
pub struct Node {
    pub name: String,
    pub rate: Option<Rate>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub between: Option<Spanned<[Spanned<String>; 2]>>,
    pub from: Option<Spanned<String>>,
    pub to: Option<Spanned<String>>,
    pub latency: Spanned<Time>,
    pub rate: Rate,
    pub loss: Option<Loss>,
    pub jitter: Option<Time>,
    pub queue: Option<Size>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    pub at: Spanned<Time>,
    pub between: Option<Spanned<[Spanned<String>; 2]>>,
    pub from: Option<Spanned<String>>,
    pub to: Option<Spanned<String>>,
    pub latency: Option<Time>,
    pub rate: Option<Rate>,
    pub loss: Option<Loss>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrossTraffic {
    pub rate: Spanned<Rate>,
    pub between: Option<Spanned<[Spanned<String>; 2]>>,
    pub from: Option<Spanned<String>>,
    pub to: Option<Spanned<String>>,
    pub on: Option<Time>,
    pub off: Option<Time>,
}

const NODES: &str = "a number of nodes such as 4, or a list of names such as [\"a\", \"b\"]";

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Nodes;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str(NODES)
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Nodes, E> {
                u64::try_from(n)
                    .map(Nodes::Count)
                    .map_err(|_| E::custom(format!("expected {NODES}")))
            }
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Nodes, E> {
                Ok(Nodes::Count(n))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Nodes, A::Error> {
                let mut list = Vec::new();
                while let Some(node) = seq.next_element()? {
                    list.push(node);
                }
                Ok(Nodes::List(list))
            }
        }
        d.deserialize_any(V)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            name: String,
            rate: Option<Rate>,
        }
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Node;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a node's name, or { name = \"…\", rate = \"…\" }")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Node, E> {
                Ok(Node { name: name.to_owned(), rate: None })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Node, A::Error> {
                let table = Table::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Node { name: table.name, rate: table.rate })
            }
        }
        d.deserialize_any(V)
    }
}
