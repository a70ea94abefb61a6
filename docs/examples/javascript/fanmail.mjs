// Requests to Fanmail's HTTP API, with the fetch of Node.js 18 or later.

import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const tries = 6;
const timeout = 30_000; // milliseconds: longer than the 10 s that a login waits

// Problem is an answer that refuses a request. type is stable, and the message says what to do.
export class Problem extends Error {
  constructor(status, document) {
    super(`${document.detail ?? document.title ?? "no answer of Fanmail"} (${status})`);
    this.type = document.type;
  }
}

// server returns the URL of the server: that of a role if roles run apart, or that of all roles.
export function server(role) {
  return process.env[role] || process.env.FANMAIL_SERVER || "http://127.0.0.1:8080";
}

// token reads the token for each request, so that a replaced token needs no restart. It is empty if the server asks for none.
export async function token() {
  const path = process.env.FANMAIL_TOKEN_FILE;
  return path ? (await readFile(path, "utf8")).trim() : "";
}

// call sends a request until it is answered, and returns the answer.
//
// 429 and 503 ask to repeat the request after Retry-After. A lost connection does not tell whether the server has the request.
// Repeating is safe: publishing has an idempotency key, and the other requests of these examples are idempotent.
export async function call(url, method, { body, key } = {}) {
  if (method === "POST" && url.endsWith("/v1/messages") && !key) {
    throw new Error("publishing needs an idempotency key: without one, a repetition is another message");
  }
  const headers = { "Content-Type": "application/json" };
  if (key) headers["Idempotency-Key"] = key;
  const bearer = await token();
  if (bearer) headers.Authorization = `Bearer ${bearer}`;
  for (let tried = 1; ; tried++) {
    let pause = 100 * 2 ** tried;
    try {
      const signal = AbortSignal.timeout(timeout);
      const response = await fetch(url, { method, headers, signal, body: body && JSON.stringify(body) });
      const text = await response.text();
      if (response.ok) return text ? JSON.parse(text) : null;
      if (![429, 503].includes(response.status) || tried === tries) throw problem(response.status, text);
      const seconds = Number(response.headers.get("Retry-After"));
      if (seconds > 0) pause = 1000 * seconds;
    } catch (error) {
      if (error instanceof Problem || tried === tries) throw error; // otherwise there was no answer
    }
    await sleep(pause);
  }
}

// problem returns the problem document of an answer. A proxy in front of Fanmail may answer something else.
function problem(status, text) {
  try {
    return new Problem(status, JSON.parse(text));
  } catch {
    return new Problem(status, {});
  }
}
