// Takes the daemon's updates and hands each section to its view.

import { byId, say } from "./element.js";
import * as links from "./links.js";
import * as trees from "./trees.js";
import * as targets from "./targets.js";
import * as programs from "./programs.js";
import * as binds from "./binds.js";
import * as experiment from "./experiment.js";
import * as delays from "./delays.js";
import * as events from "./events.js";

// After which a connection that the browser has given up is opened again.
const RETRY_MS = 1000;
// Ages are told anew.
const AGES_MS = 10000;

let version = null;

function status(facts) {
  // A daemon of another version has other files.
  if (version !== null && version !== facts.version) return location.reload();
  version = facts.version;
  byId("node").textContent = `${facts.node} · site ${facts.site}`;
  document.title = `Arborcast · ${facts.node}`;
  say("footer", `arborcastd ${facts.version}, process ${facts.daemon_pid}; the page only shows, it changes nothing.`);
  experiment.status(facts);
  delays.status(facts);
}

const sections = {
  status,
  groups: links.groups,
  targets(list) {
    targets.update(list);
    trees.targets(list.targets);
  },
  binds: binds.update,
  programs(list) {
    programs.update(list);
    delays.use(list);
  },
  delays: delays.update,
  events(list) {
    events.update(list);
    links.plans(list.find(({ kind }) => kind === "plan")?.number ?? 0);
  },
};

function connect() {
  const source = new EventSource("updates");
  const connection = byId("connection");
  const tell = (state, text) => {
    connection.className = state;
    connection.textContent = text;
  };
  source.onopen = () => {
    links.distrust();
    trees.distrust();
    tell("live", "live");
  };
  source.onerror = () => {
    tell("lost", "the daemon does not answer; trying on …");
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MS);
  };
  for (const [name, update] of Object.entries(sections)) {
    source.addEventListener(name, (message) => update(JSON.parse(message.data)));
  }
}

trees.whenChosen((detail) => {
  targets.detail(detail);
  experiment.detail(detail);
});
connect();
setInterval(() => [links, targets, programs, experiment, events].forEach((view) => view.ages()), AGES_MS);
