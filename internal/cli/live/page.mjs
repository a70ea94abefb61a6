// The page: a form that publishes, and three inboxes.

import { Inbox } from "./inbox.mjs";

const api = await (await fetch("api")).text();
const copy = (template) => document.getElementById(template).content.cloneNode(true);
const text = { live: "live", lost: "reconnecting…", refused: "refused", closed: "dormant" };

for (const section of document.querySelectorAll("section")) {
  section.append(copy("inbox"));
  const find = (selector) => section.querySelector(selector);
  find("h2").textContent = section.dataset.user;
  const inbox = new Inbox(`${api}/v1/users/${section.dataset.user}/inbox`, () => {
    section.dataset.state = inbox.state === "live" && !inbox.complete ? "rebuilding" : inbox.state;
    find(".state").textContent = text[section.dataset.state] ?? "rebuilding…";
    find(".badge").textContent = inbox.unread;
    find("ol").replaceChildren(...inbox.messages.map((m) => row(inbox, m)));
  });
  inbox.changed();
  const open = () => {
    find(".back").remove();
    inbox.follow();
  };
  if ("dormant" in section.dataset) find(".back").onclick = open;
  else open();
}

function row(inbox, { id, from, sent, body, read }) {
  const item = copy("message").firstElementChild;
  const find = (selector) => item.querySelector(selector);
  item.classList.toggle("unread", !read);
  find("strong").textContent = from;
  find("time").textContent = new Date(sent).toLocaleTimeString();
  find("span").textContent = body; // never as HTML
  find(".read").onclick = () => inbox.mark(id, { read: true }).catch(say);
  find(".archive").onclick = () => inbox.mark(id, { archived: true }).catch(say);
  find(".delete").onclick = () => inbox.remove(id).catch(say);
  return item;
}

function say(what) {
  document.querySelector("output").textContent = what.message ?? what;
}

// A try that fails is repeated with its key, so that the message is published once. Another message has another key.
let key = crypto.randomUUID();
const form = document.getElementById("publish");
form.oninput = () => { key = crypto.randomUUID(); };
form.onsubmit = async (submit) => {
  submit.preventDefault();
  const { from, to, body } = Object.fromEntries(new FormData(form));
  const draft = to ? { from, to: [to], body } : { from, audience: "followers", body };
  try {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
    const response = await fetch(api + "/v1/messages", { method: "POST", headers, body: JSON.stringify(draft) });
    const answer = await response.json();
    say(response.ok ? `Published ${answer.id}` : answer.detail);
    if (response.ok) key = crypto.randomUUID();
  } catch (error) {
    say(`${error.message}: publish again`);
  }
};
