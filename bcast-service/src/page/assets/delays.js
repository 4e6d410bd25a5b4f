// What delays broadcasts: nodes that get them late, pieces that come late to this node, holds, and nodes of which
// nothing is known.

import { byId, element, framed, say, show } from "./element.js";
import { count, percent, rate, seconds } from "./units.js";
import { nameOf } from "./programs.js";

let facts = null;
let told = null;
let programs = [];

export function status(fresh) {
  facts = fresh;
  draw();
}

export function update(fresh) {
  told = fresh;
  draw();
}

export function use(fresh) {
  programs = fresh.programs;
  draw();
}

function draw() {
  if (!facts || !told) return;
  const { received, late, unmeasured, left_out_unmeasured } = told;
  say("late-note", late.length === 0
    ? "No program of the grid has reported a broadcast along trees since the daemon was started, or no experiment runs that would tell."
    : "The nodes where a broadcast takes longest, from the first piece that comes to a node to its last; medians of a node's last 15 reports. Clocks of two nodes do not compare, so what came before a node's first piece is not in it.");
  show(byId("late"), late.map(lateNodes));
  say("delays-note", received.length === 0
    ? "No program on this node has received a broadcast along trees since the daemon was started."
    : "Of the last 64 broadcasts of each target that this node reported on; times from the first piece that came here, medians.");
  show(byId("received"), received.map(card));
  say("holds-note", `Since the daemon was started, ${count(facts.hold_timeouts, "broadcast", "broadcasts")} went ahead because the experiment had not ` +
    `stopped in time (hold time-outs); here it was late to stop ${count(facts.overdue_stops, "time", "times")}. ` +
    `${count(facts.holds, "hold stands", "holds stand")} now, and ${facts.forgotten_holds} that stood for too long no longer count.`);
  const holders = programs.filter(({ claims, hold_timeouts, holds }) => holds || hold_timeouts > 0 || claims > 0);
  show(byId("holders"), holders.length === 0 ? [] : framed("Who has held the network", ["program", "now", ">claims", ">time-outs"],
    holders.map((program) => [nameOf(program), program.holds ? "holds it" : program.ended_unix_s === null ? "–" : "has ended",
      program.claims, program.hold_timeouts])));
  const more = left_out_unmeasured === 0 ? "" : ` and ${left_out_unmeasured} more`;
  say("unmeasured", unmeasured.length === 0 ? "" :
    `Programs use these nodes, and no experiment has measured their links: ${unmeasured.join(", ")}${more}. Either it has not come to them yet, or they have no daemon or no rank of the job.`);
}

function lateNodes(of) {
  const rows = of.latest.map((node) => [
    node.node, seconds(node.took_s), of.median_s === 0 ? "–" : `${(node.took_s / of.median_s).toFixed(2)} ×`,
    `${node.listened_late} of ${node.reports}`, node.processor_wait_s === 0 ? "–" : seconds(node.processor_wait_s),
  ]);
  return element("article", {}, element("h3", {}, of.name),
    element("p", {}, `${count(of.nodes, "node", "nodes")}, complete after ${seconds(of.median_s)} in the median.`),
    framed(`Where ${of.name} is complete last`, ["node", ">complete after", ">of the median", ">program late", ">processor busy"], rows));
}

function card(of) {
  const late = of.listened_late === 0 ? "This node's program always listened in time." :
    `In ${percent(of.listened_late / of.reports)} of them the message was here before this node's program listened: the program was late, not the network.`;
  const waits = of.most_processor_wait_s === 0 ? "" :
    ` Its processor had other work for ${seconds(of.processor_wait_s)}, ${seconds(of.most_processor_wait_s)} at most.`;
  const rows = of.parents.map((parent) => [
    parent.node, `${parent.last} of ${parent.reports}`, parent.behind_s === null ? "–" : seconds(parent.behind_s),
    seconds(parent.done_s), parent.bytes_per_s === null ? "–" : rate(parent.bytes_per_s),
  ]);
  return element("article", {}, element("h3", {}, of.name),
    element("p", {}, `${count(of.reports, "broadcast", "broadcasts")}, complete after ${seconds(of.took_s)}. ${late}${waits}`),
    framed(`Where the pieces of ${of.name} came from`, ["from", ">came last", ">after all others by", ">complete after", ">rate"], rows));
}
