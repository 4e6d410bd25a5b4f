// The chosen target: which one it is, and its trees from site to site.

import { ask, byId, element, framed, offer, say, show, svg } from "./element.js";
import { bytes, clock, percent, rate, seconds } from "./units.js";

const SIZE = 440;
const CLASSES = 5;

let known = [];
let path = null;
let loaded = null;
let listeners = [];
// An earlier plan that is looked at: whose, its number and its trees; null while the one in use is.
let earlier = null;

export const chosenPath = () => path;
export const whenChosen = (listener) => listeners.push(listener);

export function targets(list) {
  known = list;
  const options = list.map((target) =>
    [target.path, `${target.root} ${target.size}, ${target.nodes} nodes${target.plan ? "" : ", no plan yet"}`]);
  for (const select of selects()) offer(select, options);
  if (!list.some((target) => target.path === path)) path = (list.find((target) => target.plan) ?? list[0])?.path ?? null;
  follow();
}

const selects = () => document.querySelectorAll("select.target");

// Versions are those of one daemon: after its end all is asked for again.
export function distrust() {
  if (loaded) loaded.version = null;
  earlier = null;
}

export function choose(other) {
  path = other;
  follow();
}

// Asks again where the target has changed.
async function follow() {
  for (const select of selects()) if (path !== null) select.value = path;
  const target = known.find((target) => target.path === path);
  if (!target) {
    loaded = null;
  } else if (loaded?.path !== path || loaded?.version !== target.version) {
    const answer = await ask(`target/${target.path}`);
    if (!answer || answer.path !== path) return;
    loaded = answer;
  } else {
    return;
  }
  draw();
  listeners.forEach((listener) => listener(loaded));
}

for (const select of selects()) select.addEventListener("change", () => choose(select.value));

// The slider has a stop for each plan.
byId("plan-at").addEventListener("input", async (event) => {
  const { plans, path: of } = loaded;
  const plan = plans[Number(event.target.value)];
  drawTime(plan);
  if (plan === plans.at(-1)) {
    earlier = null;
    return draw();
  }
  const asked = { of, number: plan.number, trees: earlier?.trees ?? null };
  earlier = asked;
  const answer = await ask(`target/${of}/${plan.number}`);
  if (earlier !== asked) return;
  earlier = answer && { ...asked, trees: answer };
  draw();
});

function drawTime(shown) {
  const plans = loaded?.plans ?? [];
  byId("time").hidden = plans.length < 2;
  if (plans.length < 2) return;
  const place = plans.findIndex((plan) => plan.number === shown.number);
  const since = (plan) => (plan.since_unix_s === null ? "before this daemon was started" : clock(plan.since_unix_s));
  const next = plans[place + 1];
  const time = shown.median_s === null ? "" : `, ${seconds(shown.median_s)}${shown.is_measured ? "" : " predicted"}`;
  const words = `${next ? `${since(shown)} to ${since(next)}` : `since ${since(shown)}, in use`}: ${shown.text}${time}`;
  const slider = byId("plan-at");
  slider.max = plans.length - 1;
  slider.value = place;
  slider.setAttribute("aria-valuetext", words);
  byId("plan-at-text").textContent = `${place + 1} of ${plans.length}, ${words}`;
}

function draw() {
  const plans = loaded?.plans ?? [];
  if (earlier?.of !== loaded?.path) earlier = null;
  const stop = earlier?.trees && plans.find((plan) => plan.number === earlier.number);
  drawTime(stop || plans.at(-1));
  drawTrees(stop ? earlier.trees : loaded, stop);
}

// Of the target as it is, or as it was with an earlier plan.
function drawTrees(loaded, stop) {
  if (!loaded) {
    say("trees-note", "No target is known yet.");
    say("map-legend", "");
    return ["map", "flows", "tree-texts"].forEach((id) => show(byId(id)));
  }
  const { trees, sites } = loaded;
  const of = loaded.sites_are_known ? "" : " Its links have not been measured: each node stands for itself.";
  const left_out = loaded.left_out_sites > 0 ? ` ${loaded.left_out_sites} smaller sites are left out.` : "";
  const plan = loaded.headline === null ? (stop ? "No plan: an operator had it forgotten." : "No plan yet.") : trees.length === 0 ? "Native: the MPI's own broadcast is in use; it has no trees of ours."
    : `${trees.length} ${trees.length === 1 ? "tree" : "trees"} from ${loaded.root} in segments of ${bytes(trees[0].segment_bytes)}.`;
  const then = stop ? ` Not in use any more; parts of links are of what they have now.${stop.because ? ` It was in use because: ${stop.because}.` : ""}` : "";
  say("trees-note", plan + then + of + left_out);
  show(byId("map"), map(loaded));
  const legend = ["width: share of the message; colour, part of the link's rate: 0 ", Array.from({ length: CLASSES }, (_, i) =>
    element("span", { class: `swatch u${i}` })), " all, or more than was measured last; ", element("span", { class: "swatch unpaced" }), " not paced"];
  show(byId("map-legend"), trees.length === 0 ? [] : legend);
  byId("map-legend").hidden = trees.length === 0;
  show(byId("flows"), trees.length === 0 ? [] : flows(loaded), trees.length === 0 ? [] : stripes(loaded));
  show(byId("tree-texts"), trees.filter((tree) => tree.text).map((tree, i) =>
    element("details", {}, element("summary", {}, `Tree ${i + 1}: ${percent(tree.share)} of the message`),
      element("pre", { tabindex: 0, "aria-label": `Tree ${i + 1}` }, tree.text))));
}

function flows(loaded) {
  const rows = loaded.flows.map((flow) => [
    `${loaded.sites[flow.from].name} → ${loaded.sites[flow.to].name}`,
    percent(flow.share),
    flow.trees.map((tree) => tree + 1).join(", "),
    flow.bytes_per_s === null ? "not paced" : rate(flow.bytes_per_s),
    flow.part === null ? "–" : percent(flow.part),
  ]);
  return framed("From site to site", ["link", ">share", "trees", ">rate", ">of the link"], rows);
}

function stripes(loaded) {
  const rows = loaded.trees.map((tree, i) => [
    `${i + 1}`, percent(tree.share), tree.depth, tree.bytes_per_s === null ? "not paced" : rate(tree.bytes_per_s),
  ]);
  return framed("Trees", ["tree", ">share", ">depth", ">paced at"], rows);
}

const flowClass = (flow) => flow.part === null ? "unpaced"
  : `u${Math.min(CLASSES - 1, Math.floor(flow.part * CLASSES))}`;

// Sites on a circle, the root's on top; latencies would put some of them on top of one another.
function map(loaded) {
  const { sites } = loaded;
  const root = loaded.root_place ?? 0;
  const radius = SIZE / 2 - 62;
  const place = sites.map((_, i) => {
    if (sites.length === 1) return [SIZE / 2, SIZE / 2];
    const angle = (2 * Math.PI * (i - root)) / sites.length - Math.PI / 2;
    return [SIZE / 2 + radius * Math.cos(angle), SIZE / 2 + radius * Math.sin(angle)];
  });
  const most = Math.max(...sites.map((site) => site.nodes));
  const sizeOf = (site) => Math.max(5, (sites.length > 24 ? 9 : 17) * Math.sqrt(site.nodes / most));
  const arrow = (flow) => {
    const [[x0, y0], [x1, y1]] = [place[flow.from], place[flow.to]];
    const length = Math.hypot(x1 - x0, y1 - y0);
    const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
    const width = Math.max(1.5, Math.min(14, 10 * flow.share));
    const end = sizeOf(sites[flow.to]) + 4;
    const start = sizeOf(sites[flow.from]);
    // A bend to the right, so that both directions are seen.
    const [mx, my] = [(x0 + x1) / 2 - uy * length * 0.12, (y0 + y1) / 2 + ux * length * 0.12];
    const toward = Math.hypot(x1 - mx, y1 - my);
    const [ex, ey] = [x1 - ((x1 - mx) / toward) * end, y1 - ((y1 - my) / toward) * end];
    const [dx, dy] = [(ex - mx) / Math.hypot(ex - mx, ey - my), (ey - my) / Math.hypot(ex - mx, ey - my)];
    const head = 5 + width;
    const [bx, by] = [ex - dx * head, ey - dy * head];
    const text = `${sites[flow.from].name} → ${sites[flow.to].name}: ${percent(flow.share)} of the message` +
      (flow.part === null ? "" : `, ${percent(flow.part)} of the link`);
    const half = head * 0.55;
    return svg("g", { class: `flow ${flowClass(flow)}` }, svg("title", {}, text),
      svg("path", { class: "line", "stroke-width": width.toFixed(1), d: `M${x0 + ux * start} ${y0 + uy * start}Q${mx} ${my} ${bx} ${by}` }),
      svg("path", { class: "head", d: `M${ex} ${ey}L${bx - dy * half} ${by + dx * half}L${bx + dy * half} ${by - dx * half}Z` }));
  };
  const label = (site, i) => {
    const [x, y] = place[i];
    const [cx, cy] = [x - SIZE / 2, y - SIZE / 2];
    const away = sizeOf(site) + 6;
    const norm = Math.hypot(cx, cy) || 1;
    const isSide = Math.abs(cx) > 0.5 * norm;
    const [tx, ty] = isSide ? [x, y + away + 9] : [x, cy > 0 ? y + away + 9 : y - away];
    return svg("text", { x: tx, y: ty, "text-anchor": "middle" }, sites.length > 24 && i !== root ? "" : site.name);
  };
  const dot = (site, i) => svg("g", { class: i === loaded.root_place ? "site root" : "site" },
    svg("title", {}, `${site.name}: ${site.nodes} nodes`),
    svg("circle", { cx: place[i][0], cy: place[i][1], r: sizeOf(site) }),
    sites.length > 24 ? null : svg("text", { class: "count", x: place[i][0], y: place[i][1] + 4, "text-anchor": "middle" }, `${site.nodes}`),
    label(site, i));
  const words = `${sites.length} sites and what the trees send between them; the table beside it says the same`;
  return svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "map", role: "img", "aria-label": words },
    loaded.flows.map(arrow), sites.map(dot));
}
