// Keeps the panels of a page current while it is visible. The server sends the HTML of those that have changed.

const button = document.getElementById("live");
let source;

// While the pointer is down nothing changes, or what it is on would be another element when it goes up, and no click.
const late = new Map();
let pressed = false;
addEventListener("pointerdown", () => { pressed = true; });
for (const end of ["pointerup", "pointercancel"]) {
  addEventListener(end, () => setTimeout(() => { // after the click
    pressed = false;
    late.forEach(show);
    late.clear();
  }));
}

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
  opened.addEventListener("panel", ({ data }) => {
    const panel = JSON.parse(data);
    if (pressed) late.set(panel.id, panel);
    else show(panel);
  });
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
