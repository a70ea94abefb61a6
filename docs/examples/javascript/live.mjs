// Keeps the newest messages of an inbox and its badge up to date, in a browser or in Node.js 18 or later:
//   live("/v1/users/ben/inbox", token, (messages, { unseen }) => { badge.textContent = unseen; list(messages); });
// token gets a new short-lived token of this user from your server. A refusal that another try does not change is thrown.
export async function live(inbox, token, show, silence = 60_000) { // in milliseconds; the server sends something every 25 s
  const held = new Map(); // messages by id; ids sort by time
  const sleep = (time) => new Promise((done) => setTimeout(done, time));
  for (let bearer, cursor, pause, retry = 2000, timer; ; await sleep(Math.max(pause, retry) * (1 + Math.random() / 2))) {
    const lost = new AbortController();
    const heard = () => { clearTimeout(timer); timer = setTimeout(() => lost.abort(), silence); };
    const ask = async (path, headers) => {
      const Authorization = `Bearer ${bearer ??= await token()}`;
      const response = await fetch(inbox + path, { headers: { ...headers, Authorization }, signal: lost.signal });
      return response.ok ? response : Promise.reject(response);
    };
    try {
      pause = 0;
      heard();
      const reader = (await ask("/events", cursor && { "Last-Event-ID": cursor })).body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = "", part; !(part = await reader.read()).done; heard()) {
        const events = (text + part.value).split("\n\n");
        text = events.pop(); // the beginning of the next event
        for (const event of events) {
          const field = (name) => event.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
          retry = Number(field("retry") ?? retry);
          if (field("event") !== "frame") continue; // such as a heartbeat
          const frame = JSON.parse(field("data"));
          for (let again = apply(held, frame); again; again && await sleep(500)) {
            const { messages, version } = await (await ask("?limit=50")).json();
            again = frame.version.some((number, i) => version[i] < number); // the page is older than the frame
            apply(held, { reset: true, messages });
          }
          show([...held.values()].filter(({ archived }) => !archived).sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, 50), frame);
          cursor = frame.cursor;
        }
      }
    } catch ({ status, headers }) { // of an answer; a connection that is lost or silent has none
      if (status === 401) bearer = undefined;
      else if (status < 500 && ![408, 429].includes(status)) throw new Error(`${inbox}: ${status}`);
      pause = 1000 * (headers?.get("Retry-After") ?? 0);
    } finally { clearTimeout(timer); lost.abort(); }
  }
}
function apply(held, { reset, messages = [], flags = [], older, gone = [], expired_up_to: expired = "" }) {
  if (reset) held.clear();
  for (const message of messages) held.set(message.id, message);
  const ids = [...held.keys()].sort();
  for (const { id, ...state } of flags) Object.assign(held.get(id) ?? {}, state);
  for (const id of ids) if (gone.includes(id) || id <= expired) held.delete(id);
  return older || flags.some(({ id, archived }) => !archived && id > ids[0] && !ids.includes(id)); // back from the archive: fetch a page
}
