// What delays broadcasts on this node: pieces that come late, holds, and nodes of which nothing is known.

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
  const { received, unmeasured, left_out_unmeasured } = told;
  say("delays-note", received.length === 0
    ? "No program on this node has received a broadcast along trees since the daemon was started. What other nodes received, their own daemons show."
    : "Of the last 64 broadcasts of each target that this node reported on; times from the first piece that came here, medians. What other nodes received, their own daemons show.");
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
