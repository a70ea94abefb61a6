// An inbox that stays current, without a library.

const silence = 60_000; // milliseconds without a byte: the server sends a comment every 25 s
const longestPause = 30_000; // milliseconds between tries to reconnect

// Inbox holds what the inbox at a URL (…/v1/users/{user}/inbox) shows, and calls changed after each change.
export class Inbox {
  state = "closed"; // "live", "lost" until it is connected again, "refused" for good
  complete = false;
  #messages = new Map(); // by id
  #counts = { unread: 0 };
  #cursor = "";
  #version = [];
  #expiredUpTo = "";
  #owed = false; // a page is to be fetched before anything is shown
  #pause = 1000; // milliseconds

  // token returns the token of the user, or "". After a 401 it is asked for a new one: token(true).
  constructor(url, changed, token = async () => "") {
    Object.assign(this, { url, changed, token });
  }

  // messages returns what is not archived, newest first.
  get messages() {
    return [...this.#messages.values()].filter((m) => !m.archived).sort((a, b) => (a.id < b.id ? 1 : -1));
  }

  get unread() {
    return this.#counts.unread;
  }

  // The stream shows what these have changed.
  mark = (id, state) => this.#request(":mark", { method: "POST", body: JSON.stringify({ ids: [id], ...state }) });
  remove = (id) => this.#request("/" + id, { method: "DELETE" });

  // follow keeps the inbox current until the signal says stop, or the server refuses.
  async follow(signal) {
    let failures = 0, renew = false;
    while (!signal?.aborted) {
      let pause = this.#pause; // a stream that ends was asked to come back
      try {
        await this.#listen(signal, renew, () => { failures = 0; renew = false; });
      } catch (error) {
        if (signal?.aborted) break;
        if (error.status >= 400 && error.status < 500 && ![401, 408, 429].includes(error.status)) return this.#show("refused");
        renew = error.status === 401;
        pause = error.retryAfter || Math.min(longestPause, this.#pause * 2 ** failures++ * (0.5 + Math.random() / 2));
      }
      this.#show("lost");
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    this.#show("closed");
  }

  async #listen(signal, renew, connected) {
    const quiet = new AbortController();
    let timer;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => quiet.abort(), silence);
    };
    const until = AbortSignal.any(signal ? [signal, quiet.signal] : [quiet.signal]);
    heard();
    try {
      const response = await this.#request("/events", { headers: { "Last-Event-ID": this.#cursor }, signal: until }, renew);
      for await (const { event, data, retry } of events(response.body, heard)) {
        if (retry) this.#pause = Number(retry);
        if (event !== "frame") continue;
        connected();
        this.#apply(JSON.parse(data));
        if (this.#owed) await this.#fetch(until);
        this.#show("live");
      }
    } finally {
      clearTimeout(timer);
      quiet.abort(); // an exception leaves the stream open otherwise
    }
  }

  #apply(frame) {
    if (frame.reset) {
      this.#messages.clear();
      [this.#expiredUpTo, this.#owed] = ["", false];
    }
    for (const message of frame.messages ?? []) this.#messages.set(message.id, message);
    for (const { id, read, archived } of frame.flags ?? []) {
      const known = this.#messages.get(id);
      if (known) Object.assign(known, { read, archived });
      else this.#owed ||= !archived; // it may have come back to the page
    }
    for (const id of frame.gone ?? []) this.#messages.delete(id);
    if (frame.expired_up_to > this.#expiredUpTo) this.#expiredUpTo = frame.expired_up_to;
    this.#expire();
    this.#owed ||= frame.older ?? false;
    [this.#counts, this.complete, this.#version, this.#cursor] = [frame, frame.complete, frame.version, frame.cursor];
  }

  #expire() {
    for (const id of this.#messages.keys()) if (id <= this.#expiredUpTo) this.#messages.delete(id);
  }

  // #fetch replaces what is held by a page, but not the cursor. A page that is older than the last frame is asked for again.
  async #fetch(signal) {
    const page = await (await this.#request("?archived=all", { signal })).json();
    if (page.version.some((n, i) => n < this.#version[i])) throw new Error("the page is older than the stream");
    this.#messages = new Map(page.messages.map((m) => [m.id, m]));
    this.#expire();
    this.#owed = false;
  }

  async #request(path, options, renew = false) {
    const headers = { "Content-Type": "application/json", ...options.headers };
    const token = await this.token(renew);
    if (token) headers.Authorization = "Bearer " + token;
    const response = await fetch(this.url + path, { cache: "no-store", ...options, headers });
    if (response.ok) return response;
    throw Object.assign(new Error(`${path}: ${response.status}`), {
      status: response.status, retryAfter: 1000 * Number(response.headers.get("Retry-After")),
    });
  }

  #show(state) {
    this.state = state;
    this.changed(this);
  }
}

// events reads server-sent events. Comments are only heard.
async function* events(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", event = {};
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    const lines = (rest + value).split(/\r\n|\n|\r(?!$)/); // a last \r may be half a line end
    rest = lines.pop();
    for (const line of lines) {
      const [, field, text] = /^([^:]*):? ?(.*)$/.exec(line);
      if (line === "") {
        yield event;
        event = {};
      } else if (field === "data" && "data" in event) event.data += "\n" + text;
      else event[field] = text;
    }
  }
}
