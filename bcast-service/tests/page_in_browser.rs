//! The page in a real browser, where there is one: Chromium, as distributions have it.
//!
//! `ARBORCAST_SCREENSHOTS` names a folder for pictures of the page, and for those of docs/tour.md. `ARBORCAST_AXE` names a copy of axe-core's
//! `axe.min.js`; then a finding of accessibility that is serious or worse fails the test.

mod harness;

use arborcast_planner::grids;
use arborcast_proto::message::Ask;
use harness::browser::{Browser, program};
use harness::grid::Grid;
use harness::http::free_address;
use harness::*;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Within which a viewer is to see a change.
const SEEN: Duration = Duration::from_secs(2);

/// What each view has on the mesh once all is there.
const VIEWS: [(&str, &str); 8] = [
    ("links", "document.querySelectorAll('#links-scroll td').length === 16"),
    (
        "trees",
        "document.querySelectorAll('#map .site').length === 4 && document.querySelectorAll('#map .flow').length === 4",
    ),
    (
        "targets",
        "document.querySelectorAll('#targets-table tbody tr').length === 3 && document.querySelectorAll('#why dt').length > 3",
    ),
    (
        "programs",
        "document.querySelector('#programs-table').innerText.includes('8.50 s') && document.querySelectorAll('#programs-table tbody tr').length === 1",
    ),
    ("binds", "document.querySelectorAll('#binds-list li').length > 2"),
    (
        "experiment",
        "document.querySelectorAll('#convergence circle').length > 30 && document.querySelectorAll('#trials tbody tr').length === 15",
    ),
    (
        "delays",
        "document.querySelectorAll('#late tbody tr').length === 4 && document.querySelectorAll('#received tbody tr').length === 2 && document.querySelector('#holders').innerText.includes('holds it')",
    ),
    ("events", "document.querySelectorAll('#events-list li').length > 3"),
];

fn text_of(browser: &mut Browser, selector: &str) -> String {
    let text = browser.value(&format!("document.querySelector('{selector}').innerText"));
    text.as_str().unwrap().into()
}

#[test]
fn every_view_works_in_a_browser() {
    let Some(program) = program() else {
        println!("NOT TESTED: the page in a browser, since there is no Chromium");
        return;
    };
    let address = free_address();
    let mut daemon = Daemon::start(&["--page-listen", &address.to_string()]);
    let mesh = grids::four_site_mesh();
    let mut grid = Grid::of_mesh(&daemon, &mesh);
    grid.measure(&mesh);
    for (root, bytes, is_measured) in [(0, 1 << 20, true), (0, 32 << 20, true), (5, 1 << 20, false)]
    {
        grid.search(root, bytes, 40);
        grid.publish(root, bytes, 0.651, is_measured);
    }
    grid.publish(0, 1 << 20, 0.25, true);
    grid.measure_fallen(&mesh, 0.1);
    let mut mpi_program = grid.program(&daemon, 1 << 20);
    (0..8).for_each(|number| {
        let report = grid.delivery(1 << 20, 0.01 * f64::from(number));
        mpi_program.connection.tell(&Ask::Delivered(report)).unwrap();
    });
    grid.say(&Ask::Lateness(vec![grid.lateness(1 << 20)]));
    let mut browser = Browser::start(&program);
    browser.screen(1280, false, false);
    browser.open(&format!("http://{address}/"));
    browser.wait_until("document.readyState === 'complete'");
    for (_, is_there) in VIEWS {
        browser.wait_until(is_there);
    }
    assert_eq!(text_of(&mut browser, "#connection"), "live");
    assert!(text_of(&mut browser, "#targets-table").contains("651 ms predicted"));
    the_keyboard_is_enough(&mut browser);
    a_link_s_history_opens_with_a_click(&mut browser);
    the_slider_shows_earlier_trees(&mut browser);
    pictures_and_findings(&mut browser);

    let published = Instant::now();
    grid.publish(0, 1 << 20, 0.249, true);
    browser.wait_until("document.querySelector('#targets-table').innerText.includes('249 ms')");
    println!("a plan change was seen after {:?}", published.elapsed());
    assert!(published.elapsed() < SEEN, "{:?}", published.elapsed());
    browser.wait_until("document.querySelector('#why').innerText.includes('249 ms')");
    browser.wait_until("document.querySelector('#events-list').innerText.includes('249 ms')");
    assert_eq!(browser.complaints, [""; 0]);

    drop(grid);
    daemon.terminate();
    browser.wait_until("document.querySelector('#connection').className === 'lost'");
    daemon.restart();
    let pid = daemon.pid();
    browser.wait_until(&format!("document.querySelector('#footer').innerText.includes('{pid}')"));
    browser.wait_until("document.querySelector('#connection').className === 'live'");
    for (view, is_there) in VIEWS {
        // What is kept in memory only.
        if !["programs", "delays", "events"].contains(&view) {
            browser.wait_until(is_there);
        }
    }
    // That the network said no is no fault of the page.
    browser.complaints.retain(|complaint| !complaint.contains("\"network\""));
    assert_eq!(browser.complaints, [""; 0]);
}

/// From the first byte that is asked for to the heat map on the screen.
#[test]
fn a_large_grid_is_seen_at_once() {
    let Some(program) = program() else {
        println!("NOT TESTED: a large grid in a browser, since there is no Chromium");
        return;
    };
    let address = free_address();
    let daemon = Daemon::start(&["--page-listen", &address.to_string()]);
    let (mut grid, sites) = Grid::large(&daemon);
    for root in 0..20 {
        grid.publish(root, 1 << 20, 0.5, true);
    }
    let mut browser = Browser::start(&program);
    browser.screen(1280, false, false);
    browser.ask("Performance.enable", serde_json::json!({}));
    browser.open(&format!("http://{address}/"));
    let cells = sites * sites;
    let seen = format!(
        "document.querySelectorAll('#links-scroll td').length === {cells} && performance.now()"
    );
    let mut seen_ms = None;
    wait_for("the heat map", || {
        seen_ms = browser.value(&seen).as_f64();
        seen_ms.is_some()
    });
    browser.wait_until(&format!("document.querySelectorAll('#map .site').length === {sites}"));
    let slider = "document.querySelector('#plan-at').offsetParent === null";
    assert_eq!(browser.value(slider), true, "there is one plan only, and no time to slide through");
    // On a machine that is busy the first is of the machine, the second of the page.
    println!(
        "{} nodes: seen after {:.0} ms; all of it took the page's thread {:.0} ms of a processor",
        grid.group.len(),
        seen_ms.unwrap(),
        1e3 * browser.processor_time_s()
    );
    if let Some(folder) = std::env::var_os("ARBORCAST_SCREENSHOTS").map(PathBuf::from) {
        browser.picture(&folder.join("large-light.png"));
    }
    assert_eq!(browser.complaints, [""; 0]);
}

fn the_keyboard_is_enough(browser: &mut Browser) {
    browser.value("document.querySelector('#links-scroll td[tabindex=\"0\"]').focus()");
    for key in ["ArrowRight", "ArrowDown", "ArrowDown"] {
        browser.press(key);
    }
    let focused = "document.activeElement.getAttribute('aria-label')";
    let cell = browser.value(focused);
    assert!(cell.as_str().unwrap().starts_with("c0…c3 to c0…c3"), "{cell}");
    assert!(text_of(browser, "#link-detail").starts_with("Inside c0…c3"));
    browser.press("ArrowRight");
    browser.press("ArrowRight");
    assert!(text_of(browser, "#link-detail").starts_with("c0…c3 → d0…d3"), "at the edge it stays");
    let reached = "[...document.querySelectorAll('a, button, select, input, td[tabindex=\"0\"]')].every(e => e.tabIndex >= 0)";
    assert_eq!(browser.value(reached), true);
}

fn a_link_s_history_opens_with_a_click(browser: &mut Browser) {
    browser.value("document.querySelector('#links-scroll td[data-a=\"0\"][data-b=\"1\"]').click()");
    browser.wait_until(
        "document.querySelector('#link-past h3')?.innerText === 'History: a0…a3 ⇄ b0…b3'",
    );
    // Two measurements of three lines, and a mark for each plan.
    browser.wait_until("document.querySelectorAll('#link-past circle').length === 6");
    browser.wait_until("document.querySelectorAll('#link-past g.mark').length === 4");
    let summary = text_of(browser, "#link-past summary");
    assert_eq!(summary, "2 measurements, 4 plan changes");
}

fn the_slider_shows_earlier_trees(browser: &mut Browser) {
    let slide = |browser: &mut Browser, stop: u32| {
        browser.value(&format!(
            "(slider => {{ slider.value = {stop}; slider.dispatchEvent(new Event('input')); }})(document.querySelector('#plan-at'))"
        ));
    };
    // The newest target first: it is the one whose plan was put in place of another one.
    assert!(text_of(browser, "#plan-at-text").starts_with("2 of 2, since"));
    slide(browser, 0);
    browser.wait_until(
        "document.querySelector('#trees-note').innerText.includes('Not in use any more')",
    );
    assert!(text_of(browser, "#plan-at-text").contains("2 trees, depth 4, 651 ms"));
    slide(browser, 1);
    browser.wait_until(
        "!document.querySelector('#trees-note').innerText.includes('Not in use any more')",
    );
}

fn pictures_and_findings(browser: &mut Browser) {
    let folder = std::env::var_os("ARBORCAST_SCREENSHOTS").map(PathBuf::from);
    let axe = std::env::var_os("ARBORCAST_AXE").map(|file| std::fs::read_to_string(file).unwrap());
    for (name, width, is_phone) in [("wide", 1280, false), ("phone", 390, true)] {
        for is_dark in [false, true] {
            browser.screen(width, is_phone, is_dark);
            let fits = "document.documentElement.scrollWidth <= window.innerWidth";
            assert_eq!(browser.value(fits), true, "{name}: nothing is wider than the screen");
            let scheme = if is_dark { "dark" } else { "light" };
            if let Some(folder) = &folder {
                browser.picture(&Path::new(folder).join(format!("{name}-{scheme}.png")));
            }
            if let Some(axe) = &axe {
                findings(browser, axe, &format!("{name}, {scheme}"));
            }
        }
    }
    browser.screen(1280, false, false);
    if let Some(folder) = &folder {
        pictures_of_the_tour(browser, folder);
    }
}

/// Those of docs/tour.md.
fn pictures_of_the_tour(browser: &mut Browser, folder: &Path) {
    browser.wait_until("[...document.querySelectorAll('#binds-list article')].every(a => !a.innerText.includes('being computed'))");
    // As wide as the documents are, but for a table that is wider.
    for (view, width) in [
        ("links", 960),
        ("trees", 960),
        ("targets", 960),
        ("programs", 1280),
        ("binds", 960),
        ("delays", 960),
    ] {
        browser.screen(width, false, false);
        browser.picture_of(&format!("#{view}"), &folder.join(format!("tour-{view}.png")));
    }
    browser.screen(1280, false, false);
}

fn findings(browser: &mut Browser, axe: &str, name: &str) {
    browser.value(&format!("{axe}; true"));
    let result = browser.value("axe.run().then(r => r.violations)");
    let violations = result.as_array().unwrap();
    println!("axe, {name}: {} findings", violations.len());
    for found in violations {
        let places: Vec<_> =
            found["nodes"].as_array().unwrap().iter().map(|node| &node["target"]).collect();
        println!("  {} {}: {} at {places:?}", found["impact"], found["id"], found["help"]);
    }
    let is_serious = |f: &&serde_json::Value| f["impact"] == "serious" || f["impact"] == "critical";
    assert_eq!(violations.iter().filter(is_serious).count(), 0, "{name}");
}
