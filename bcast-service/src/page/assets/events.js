// What has happened, newest first.

import { byId, element, say, show } from "./element.js";
import { ago, clock } from "./units.js";
import { choose } from "./trees.js";

let list = [];

export function update(fresh) {
  list = fresh;
  ages();
}

export function ages() {
  if (list.length === 0) return;
  say("events-note", "Since the daemon was started, at most the newest 200.");
  show(byId("events-list"), list.map((event) => element("li", { value: event.number },
    element("time", { datetime: new Date(1000 * event.unix_s).toISOString(), title: ago(event.unix_s) }, clock(event.unix_s)),
    element("span", { class: `kind ${event.kind}` }, event.kind),
    event.target === null ? null : event.path
      ? element("button", { class: "plain", "data-path": event.path, "data-key": String(event.number) }, event.target)
      : element("span", {}, event.target),
    element("span", { class: "text" }, event.text))));
}

byId("events-list").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  choose(button.dataset.path);
  byId("targets").scrollIntoView();
});
