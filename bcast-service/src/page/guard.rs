//! Who is answered, and what a browser may do with the answer.
//!
//! A page of another site can have its own name resolve to this host ("DNS rebinding") and would then read
//! the page as its own: so only names that stand for this host are answered. An address in place of a name
//! cannot be made to stand for another one.

use super::Token;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;
use std::sync::Arc;

/// Only what comes from here, and no scripts or styles inside the page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'";

const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

#[derive(Debug)]
pub struct Guard {
    token: Option<Token>,
    /// In lower case.
    hosts: Vec<String>,
}

impl Guard {
    pub fn new(token: Option<Token>, host_name: &str, others: &[String]) -> Self {
        let own = ["localhost", host_name].map(str::to_owned);
        let hosts = own.into_iter().chain(others.iter().cloned());
        Guard { token, hosts: hosts.map(|host| host.to_ascii_lowercase()).collect() }
    }

    fn knows_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(header::HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Ok(host) = host.to_str() else { return false };
        let name = without_port(host);
        name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    fn knows_token(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.token else { return true };
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        given.and_then(credentials).is_some_and(|given| token.is(&given))
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// `Bearer TOKEN`, or `Basic` with the token for a password, which browsers ask their users for.
fn credentials(authorization: &str) -> Option<Vec<u8>> {
    let (scheme, value) = authorization.split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.as_bytes().to_vec());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let user_and_password = from_base64(value)?;
    let colon = user_and_password.iter().position(|byte| *byte == b':')?;
    Some(user_and_password[colon + 1..].to_vec())
}

/// RFC 4648, with or without padding.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

pub async fn check(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let mut response = if !guard.knows_host(headers) {
        let text =
            "This host is not known by that name; see `hosts` of [page] in arborcastd.toml.\n";
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    } else if !guard.knows_token(headers) {
        let text =
            "A token is needed, as a password or as a bearer; the user's name does not matter.\n";
        let ask = (header::WWW_AUTHENTICATE, "Basic realm=\"arborcast\", charset=\"UTF-8\"");
        (StatusCode::UNAUTHORIZED, [ask], text).into_response()
    } else if ![Method::GET, Method::HEAD].contains(request.method()) {
        (StatusCode::METHOD_NOT_ALLOWED, "Nothing can be changed here.\n").into_response()
    } else {
        next.run(request).await
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_host_are_answered() {
        let guard = Guard::new(None, "Node7", &["grid.example.org".into()]);
        let knows = |host: &'static str| {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            guard.knows_host(&headers)
        };
        for own in [
            "localhost:8430",
            "LOCALHOST",
            "127.0.0.1:9",
            "[::1]:8430",
            "192.0.2.7:80",
            "node7",
            "Grid.example.org:443",
        ] {
            assert!(knows(own), "{own}");
        }
        for other in
            ["evil.example", "localhost.evil.example:8430", "node7.evil", "", "127.0.0.1.nip.io"]
        {
            assert!(!knows(other), "{other}");
        }
        assert!(!guard.knows_host(&HeaderMap::new()));
    }

    #[test]
    fn a_token_comes_as_a_bearer_or_as_a_password() {
        assert_eq!(credentials("Bearer abc"), Some(b"abc".to_vec()));
        assert_eq!(credentials("bearer  abc "), Some(b"abc".to_vec()));
        // operator:secret:x and :a
        assert_eq!(credentials("Basic b3BlcmF0b3I6c2VjcmV0Ong="), Some(b"secret:x".to_vec()));
        assert_eq!(credentials("basic OmE"), Some(b"a".to_vec()));
        for other in ["", "Basic", "Basic ?", "Basic YWJj", "Digest abc"] {
            assert_eq!(credentials(other), None, "{other}");
        }
    }
}
