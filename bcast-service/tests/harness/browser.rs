//! Chromium without a window, told what to do over a pipe (the DevTools protocol; no port is opened).

use super::{LONG, wait_for};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use tempfile::TempDir;

/// Names that distributions give it.
const PROGRAMS: [&str; 4] =
    ["chromium", "chromium-browser", "chrome-headless-shell", "google-chrome"];
/// Where the protocol has its pipes: Chromium reads 3 and writes 4.
const PIPES: [i32; 2] = [3, 4];

pub struct Browser {
    child: Child,
    commands: File,
    messages: Receiver<Value>,
    count: u64,
    session: Option<String>,
    /// What the page complained of: uncaught exceptions, errors and warnings on the console.
    pub complaints: Vec<String>,
    _profile: TempDir,
}

/// The first that is in the PATH.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = PROGRAMS.iter().flat_map(|name| {
        std::env::split_paths(&path).map(move |folder| folder.join(name)).collect::<Vec<_>>()
    });
    found.into_iter().find(|file| file.is_file())
}

/// A pipe whose ends are none of [`PIPES`] and are closed in programs that others start.
fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    let away = |fd: OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 10).unwrap();
    (away(reader.into()), away(writer.into()))
}

impl Browser {
    pub fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let ((its_input, commands), (answers, its_output)) = (pipe(), pipe());
        let ends = [its_input.as_raw_fd(), its_output.as_raw_fd()];
        let mut command = Command::new(program);
        command
            // Tests may run as root, whom the sandbox does not take.
            .args(["--headless", "--no-sandbox", "--remote-debugging-pipe", "--disable-gpu"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-extensions"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            // It makes folders there, and leaves them when it is killed.
            .env("TMPDIR", profile.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: between fork and exec the closure makes system calls only, on descriptors of this process.
        unsafe {
            command.pre_exec(move || {
                for (end, pipe) in ends.iter().zip(PIPES) {
                    if libc::dup2(*end, pipe) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        drop((its_input, its_output));
        let (to_test, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(File::from(answers)).split(0) {
                let Ok(message) = message else { return };
                if to_test.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let mut browser = Browser {
            child,
            commands: commands.into(),
            messages,
            count: 0,
            session: None,
            complaints: Vec::new(),
            _profile: profile,
        };
        let page = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(Into::into);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.ask(domain, json!({}));
        }
        browser
    }

    /// One command, and its result.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.count += 1;
        let mut command = json!({ "id": self.count, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let message = self.messages.recv_timeout(LONG).expect(method);
            if message["id"] == self.count {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.complaints.push(parameters["exceptionDetails"].to_string());
            }
            Some("Runtime.consoleAPICalled")
                if ["error", "warning", "assert"]
                    .iter()
                    .any(|kind| parameters["type"] == *kind) =>
            {
                self.complaints.push(parameters["args"].to_string());
            }
            Some("Log.entryAdded") if parameters["entry"]["level"] != "info" => {
                self.complaints.push(parameters["entry"].to_string());
            }
            _ => {}
        }
    }

    /// The value of an expression, or of what it promises.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.ask("Runtime.evaluate", parameters);
        assert!(
            result["exceptionDetails"].is_null(),
            "{expression}: {}",
            result["exceptionDetails"]
        );
        result["result"]["value"].clone()
    }

    /// Of the page's main thread so far, after `Performance.enable`.
    pub fn processor_time_s(&mut self) -> f64 {
        let told = self.ask("Performance.getMetrics", json!({}));
        let metrics = told["metrics"].as_array().unwrap();
        let time = metrics.iter().find(|metric| metric["name"] == "ThreadTime").unwrap();
        time["value"].as_f64().unwrap()
    }

    pub fn open(&mut self, address: &str) {
        self.ask("Page.navigate", json!({ "url": address }));
    }

    /// Waits until the expression is true.
    pub fn wait_until(&mut self, expression: &str) {
        wait_for(expression, || self.value(expression) == true);
    }

    pub fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.ask("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key }));
        }
    }

    pub fn screen(&mut self, width: u32, is_phone: bool, is_dark: bool) {
        let (height, scale) = if is_phone { (844, 2) } else { (1000, 1) };
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone }),
        );
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// The whole page as it would be scrolled through.
    pub fn picture(&mut self, file: &Path) {
        self.capture(file, json!({ "format": "png", "captureBeyondViewport": true }));
    }

    /// One element, at two thirds of its size.
    pub fn picture_of(&mut self, selector: &str, file: &Path) {
        let place = format!(
            "(r => ({{ x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 0.65 }}))(document.querySelector('{selector}').getBoundingClientRect())"
        );
        let clip = self.value(&place);
        self.capture(file, json!({ "format": "png", "captureBeyondViewport": true, "clip": clip }));
    }

    fn capture(&mut self, file: &Path, parameters: Value) {
        let picture = self.ask("Page.captureScreenshot", parameters);
        let base64 = picture["data"].as_str().unwrap();
        let decode = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(File::create(file).unwrap())
            .spawn();
        let mut decode = decode.unwrap();
        decode.stdin.take().unwrap().write_all(base64.as_bytes()).unwrap();
        assert!(decode.wait().unwrap().success());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
