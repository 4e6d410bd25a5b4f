// Sites × sites: a grid of cells that arrow keys walk through, and the details of one of them.

import { ask, byId, element, framed, offer, say, show } from "./element.js";
import { past } from "./link_past.js";
import { ago, clock, rate, seconds, times } from "./units.js";

const CLASSES = 7;

let listed = [];
let shown = null;
let chosen = null;
// The newest event of a plan, and what the history that is shown was asked for.
let newestPlan = 0;
let pastKey = null;
let drawPast = () => show(byId("link-past"));

const group = () => byId("group").value;
const measure = () => document.querySelector("input[name=measure]:checked").value;
// A cell: fastest, slowest, mean, least and greatest latency, the slowest pair's nodes.
const cellOf = (a, b) => shown.cells[a][b];

const MEASURES = {
  rate: { value: (a, b) => cellOf(a, b)?.[0], text: rate, low: "slow", high: "fast" },
  round_trip: {
    value: (a, b) => (cellOf(a, b) ? cellOf(a, b)[2] + cellOf(b, a)[2] : undefined),
    text: seconds, low: "near", high: "far",
  },
  asymmetry: { value: asymmetry, text: times, low: "alike both ways", high: "one way faster" },
};

// The faster direction's rate over the slower one's.
function asymmetry(a, b) {
  if (!cellOf(a, b)) return undefined;
  const [there, back] = [cellOf(a, b)[0], cellOf(b, a)[0]];
  if (there === null || back === null) return there === back ? 1 : null;
  return Math.max(there, back) / Math.min(there, back);
}

export async function groups(list) {
  listed = list;
  offer(byId("group"), list.map(({ group, nodes, sites }) =>
    [group, `${group.slice(0, 8)}: ${nodes} nodes, ${sites} sites`]));
  await load();
}

// As in trees.js.
export function distrust() {
  if (shown) shown.version = null;
}

async function load() {
  const facts = listed.find((facts) => facts.group === group());
  if (!facts) {
    shown = null;
  } else if (shown?.version !== facts.version || shown?.group !== facts.group) {
    const answer = await ask(`links/${facts.group}`);
    if (!answer) return;
    shown = { ...answer, version: facts.version };
  }
  draw();
}

export function ages() {
  if (!shown) return say("links-note", "No links have been measured yet.");
  const left_out = shown.left_out_sites === 0 ? "" :
    ` The ${shown.sites.length} largest sites; ${shown.left_out_sites} others with ${shown.left_out_nodes} nodes are left out.`;
  const measured = shown.measured_unix_s === null ? "measured before this daemon was started" :
    `measured ${ago(shown.measured_unix_s)} (${clock(shown.measured_unix_s)})`;
  say("links-note", `From row to column, by the fastest pair of nodes; ${measured}. Nodes that are near by latency are a site.${left_out}`);
}

// Plan changes are marks in the history.
export function plans(newest) {
  newestPlan = newest;
  loadPast();
}

// From the site of the first node of one site to that of another; within a site, between its first two.
async function loadPast() {
  if (!shown || !chosen) {
    drawPast = () => show(byId("link-past"));
    return drawPast();
  }
  const [from, to] = [shown.sites[chosen.a], shown.sites[chosen.b]];
  const nodes = [from.members[0], chosen.a === chosen.b ? to.members[1] : to.members[0]];
  if (nodes[1] === undefined) {
    pastKey = null;
    drawPast = () => show(byId("link-past"));
    return drawPast();
  }
  const key = [shown.group, shown.version, newestPlan, ...nodes].join("/");
  if (key === pastKey) return;
  pastKey = key;
  const answer = await ask(`links/${shown.group}/${nodes.map(encodeURIComponent).join("/")}`);
  if (key !== pastKey) return;
  if (!answer) {
    pastKey = null;
    return;
  }
  drawPast = () => show(byId("link-past"), past(answer, title(from, to), byId("link-past").clientWidth));
  drawPast();
}

addEventListener("resize", () => drawPast());

const title = (from, to) => (from === to ? `inside ${from.name}` : `${from.name} ⇄ ${to.name}`);

function classes() {
  const { value } = MEASURES[measure()];
  const places = shown.sites.map((_, i) => i);
  const values = places.flatMap((a) => places.map((b) => (a === b ? undefined : value(a, b))));
  const finite = values.filter((v) => v !== undefined && v !== null && v > 0);
  const [low, high] = [Math.log(Math.min(...finite)), Math.log(Math.max(...finite))];
  return (v) => {
    if (v === undefined) return "none";
    if (v === null) return `c${CLASSES - 1}`;
    const place = high > low ? (Math.log(v) - low) / (high - low) : measure() === "asymmetry" ? 0 : 0.5;
    return `c${Math.max(0, Math.min(CLASSES - 1, Math.floor(place * CLASSES)))}`;
  };
}

function draw() {
  ages();
  if (!shown) {
    show(byId("links-scroll"));
    show(byId("link-detail"));
    loadPast();
    return say("links-legend", "");
  }
  const { value, text, low, high } = MEASURES[measure()];
  const classOf = classes();
  const many = shown.sites.length > 12;
  const { sites } = shown;
  if (!chosen || chosen.a >= sites.length || chosen.b >= sites.length) chosen = { a: 0, b: Math.min(1, sites.length - 1) };
  const cell = (a, b) => {
    const v = value(a, b);
    const words = v === undefined ? "–" : text(v);
    const isChosen = chosen.a === a && chosen.b === b;
    return element("td", {
      class: `cell ${a === b && v !== undefined ? "inside" : classOf(v)}`, "data-key": `${a}-${b}`, "data-a": a, "data-b": b,
      tabindex: isChosen ? 0 : -1, "aria-selected": isChosen, role: "gridcell",
      "aria-label": `${sites[a].name} to ${sites[b].name}: ${words}`,
      title: `${sites[a].name} → ${sites[b].name}: ${words}`,
    }, many ? "" : words);
  };
  const name = (site) => element("span", {}, site.name);
  const grid = element("table", { role: "grid", class: many ? "heat many" : "heat", "aria-label": "Sites by sites" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "from \\ to"),
      sites.map((site) => element("th", { scope: "col" }, name(site))))),
    element("tbody", {}, sites.map((site, a) =>
      element("tr", {}, element("th", { scope: "row" }, name(site)), sites.map((_, b) => cell(a, b))))));
  show(byId("links-scroll"), grid);
  show(byId("links-legend"), low, " ", Array.from({ length: CLASSES }, (_, i) =>
    element("span", { class: `swatch c${i}` })), " ", high);
  details();
}

function details() {
  loadPast();
  const { a, b } = chosen;
  const [from, to] = [shown.sites[a], shown.sites[b]];
  const [there, back] = [cellOf(a, b), cellOf(b, a)];
  const title = a === b ? `Inside ${from.name}` : `${from.name} → ${to.name}`;
  if (!there) return show(byId("link-detail"), element("h3", {}, title), element("p", {}, "A single node."));
  const rows = [
    ["rate, fastest pair", rate(there[0]), rate(back[0])],
    ["rate, slowest pair", rate(there[1]), rate(back[1])],
    ["slowest pair", `${there[5]} → ${there[6]}`, `${back[5]} → ${back[6]}`],
    ["latency, mean", seconds(there[2]), seconds(back[2])],
    ["least", seconds(there[3]), seconds(back[3])],
    ["greatest", seconds(there[4]), seconds(back[4])],
  ];
  show(byId("link-detail"), element("h3", {}, title),
    a === b
      ? framed("Pairs of its nodes", ["measure", ">pairs"], rows.map((row) => row.slice(0, 2)))
      : framed("All pairs of nodes of both sites", ["measure", ">there", ">back"], rows),
    element("p", {}, `Round trip ${seconds(there[2] + back[2])}` +
      (a === b ? "." : `; the faster direction has ${times(asymmetry(a, b))} the rate of the other one.`)),
    element("p", { class: "note" }, `${from.name}: ${members(from)}. ` + (a === b ? "" : `${to.name}: ${members(to)}.`)));
}

function members(site) {
  const some = site.members.slice(0, 8).join(", ");
  return site.nodes > 8 ? `${some} and ${site.nodes - 8} more` : some;
}

function choose(cell, focus) {
  if (!cell) return;
  chosen = { a: Number(cell.dataset.a), b: Number(cell.dataset.b) };
  for (const other of byId("links-scroll").querySelectorAll("td[tabindex='0']")) {
    other.tabIndex = -1;
    other.setAttribute("aria-selected", "false");
  }
  cell.tabIndex = 0;
  cell.setAttribute("aria-selected", "true");
  if (focus) cell.focus();
  details();
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

byId("links-scroll").addEventListener("click", (event) => choose(event.target.closest("td"), true));
byId("links-scroll").addEventListener("keydown", (event) => {
  const step = STEPS[event.key];
  const cell = event.target.closest("td");
  if (!step || !cell) return;
  event.preventDefault();
  const [a, b] = [Number(cell.dataset.a) + step[0], Number(cell.dataset.b) + step[1]];
  choose(byId("links-scroll").querySelector(`td[data-a="${a}"][data-b="${b}"]`), true);
});
byId("group").addEventListener("change", () => { chosen = null; load(); });
for (const radio of document.querySelectorAll("input[name=measure]")) radio.addEventListener("change", () => shown && draw());
