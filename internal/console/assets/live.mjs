// Keeps the panels of a page current while it is visible. The server sends the HTML of those that have changed.

const button = document.getElementById("live");
let source;

function follow() {
  source?.close();
  source = undefined;
  const wanted = button.getAttribute("aria-pressed") === "true";
  button.textContent = wanted ? "live" : "paused";
  if (!wanted || document.hidden) return;
  const opened = new EventSource(location.href);
  source = opened;
  opened.onopen = () => { button.textContent = "live"; };
  opened.onerror = () => {
    button.textContent = "reconnecting…";
    if (opened.readyState === EventSource.CLOSED) setTimeout(() => { if (source === opened) follow(); }, 5000);
  };
  opened.addEventListener("panel", ({ data }) => show(JSON.parse(data)));
  opened.addEventListener("end", () => location.reload());
}

function show({ id, html }) {
  const panel = document.getElementById(id);
  const link = panel.contains(document.activeElement) && document.activeElement.getAttribute("href");
  panel.innerHTML = html; // made by the templates of the server, which escape
  if (link) panel.querySelector(`[href="${CSS.escape(link)}"]`)?.focus();
}

button.hidden = false;
button.onclick = () => {
  button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") !== "true");
  follow();
};
document.addEventListener("visibilitychange", follow);
follow();
