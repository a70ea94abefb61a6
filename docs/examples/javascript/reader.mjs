// Logs a user in, prints their inbox page by page, and marks it as read. With --follow, it then prints the badge and the
// newest message whenever the inbox changes.
//
// usage: node reader.mjs USER [--follow]

import { call, server, token } from "./fanmail.mjs";
import { live } from "./live.mjs";

async function read(name, follow) {
  const user = `${server("FANMAIL_REHYDRATOR")}/v1/users/${encodeURIComponent(name)}`;

  // A login rebuilds the inbox of a user who was away. After the wait the rebuild continues, and pages are right already.
  const login = await call(`${user}/login?wait=10s`, "POST");
  if (login.state === "rehydrating") {
    console.log(`${name} was ${login.was}: the inbox is still loading`);
  } else {
    console.log(`${name} was ${login.was}: ${login.recovered} recovered`);
  }

  let cursor;
  const query = new URLSearchParams({ limit: 2 }); // small, to show paging; the default is 50
  for (let number = 1; ; number++) {
    const page = await call(`${user}/inbox?${query}`, "GET");
    console.log(`page ${number}, ${page.unread} unread`);
    for (const message of page.messages) { // newest first
      console.log(`${message.from}: ${message.body}`);
    }
    cursor ??= page.cursor; // of the first page
    if (page.next === null) break;
    query.set("before", page.next);
  }
  // What arrives meanwhile stays unread and unseen. inbox:mark marks single messages.
  await call(`${user}/inbox/seen`, "POST", { body: { cursor } });
  await call(`${user}/inbox/read`, "POST", { body: { all: true, cursor } });

  if (!follow) return;
  await live(`${user}/inbox`, token, ([newest], { unseen }) => {
    console.log(`newest, ${unseen} unseen: ${newest?.from}: ${newest?.body}`);
  });
}

const args = process.argv.slice(2);
if (args.length < 1 || args.length > 2 || (args[1] ?? "--follow") !== "--follow") {
  console.error("usage: node reader.mjs USER [--follow]");
  process.exit(2);
}
try {
  await read(args[0], args.length === 2);
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
