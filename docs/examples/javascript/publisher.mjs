// Publishes a message with an idempotency key, and waits until the message is in every inbox.
//
// usage: node publisher.mjs FROM TO KEY BODY

import { setTimeout as sleep } from "node:timers/promises";

import { call, Problem, server } from "./fanmail.mjs";

async function publish(from, to, key, body) {
  const messages = `${server("FANMAIL_PUBLISHER")}/v1/messages`;

  // The message is on disk when the server answers. With the key, the server publishes it once, however often it is sent.
  const receipt = await call(messages, "POST", { body: { from, to: [to], body }, key });

  // Waiting is only for programs that need the result.
  const deadline = Date.now() + 60_000;
  let fanout;
  while ((fanout = (await call(`${messages}/${receipt.id}`, "GET")).fanout).state !== "done") {
    if (Date.now() > deadline) throw new Error(`${receipt.id} is ${fanout.state} after a minute`);
    await sleep(100);
  }
  console.log(`${receipt.id}: ${fanout.delivered} delivered, ${fanout.skipped} skipped`);
}

const args = process.argv.slice(2);
if (args.length !== 4) {
  console.error("usage: node publisher.mjs FROM TO KEY BODY");
  process.exit(2);
}
try {
  await publish(...args);
} catch (error) {
  const reused = error instanceof Problem && error.type === "urn:fanmail:problem:key-reused";
  console.error(reused ? `${args[2]} is the key of another message: ${error.message}` : error.message);
  process.exit(1);
}
