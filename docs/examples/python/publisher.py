"""Publish a message with an idempotency key, and wait until the message is in every inbox.

usage: publisher.py FROM TO KEY BODY
"""

import sys
import time

import fanmail


def publish(sender, recipient, key, body):
    messages = fanmail.server("FANMAIL_PUBLISHER") + "/v1/messages"

    # The message is on disk when the server answers. With the key, the server publishes it once, however often it is sent.
    receipt = fanmail.call(messages, "POST", {"from": sender, "to": [recipient], "body": body}, key=key)

    # Waiting is only for programs that need the result.
    deadline = time.monotonic() + 60
    while True:
        fanout = fanmail.call(f"{messages}/{receipt['id']}", "GET")["fanout"]
        if fanout["state"] == "done":
            break
        if time.monotonic() > deadline:
            sys.exit(f"{receipt['id']} is {fanout['state']} after a minute")
        time.sleep(0.1)
    print(f"{receipt['id']}: {fanout['delivered']} delivered, {fanout['skipped']} skipped")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: publisher.py FROM TO KEY BODY")
    try:
        publish(*sys.argv[1:])
    except fanmail.Problem as refused:
        if refused.type == "urn:fanmail:problem:key-reused":
            sys.exit(f"{sys.argv[3]} is the key of another message: {refused}")
        sys.exit(str(refused))
    except OSError as error:
        sys.exit(f"no answer: {error}")
