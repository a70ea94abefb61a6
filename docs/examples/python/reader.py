"""Log a user in, print their inbox page by page, and mark it as read. With --follow, print messages as they arrive.

usage: reader.py USER [--follow]
"""

import sys
import urllib.parse

import fanmail


def read(name, follow):
    user = fanmail.server("FANMAIL_REHYDRATOR") + "/v1/users/" + urllib.parse.quote(name, safe="")

    # A login rebuilds the inbox of a user who was away. After the wait the rebuild continues, and pages are right already.
    login = fanmail.call(user + "/login?wait=10s", "POST")
    if login["state"] == "rehydrating":
        print(f"{name} was {login['was']}: the inbox is still loading")
    else:
        print(f"{name} was {login['was']}: {login['recovered']} recovered")

    cursor, number = None, 1
    query = {"limit": 2}  # small, to show paging; the default is 50
    while True:
        page = fanmail.call(f"{user}/inbox?{urllib.parse.urlencode(query)}", "GET")
        print(f"page {number}, {page['unread']} unread")
        for message in page["messages"]:  # newest first
            print(f"{message['from']}: {message['body']}")
        cursor = cursor or page.get("cursor")  # of the first page
        if page["next"] is None:
            break
        query["before"] = page["next"]
        number += 1
    # What arrives meanwhile stays unread and unseen. inbox:mark marks single messages.
    fanmail.call(user + "/inbox/seen", "POST", {"cursor": cursor})
    fanmail.call(user + "/inbox/read", "POST", {"all": True, "cursor": cursor})

    while follow:  # each request waits for a change
        sys.stdout.flush()
        query = urllib.parse.urlencode({"cursor": cursor, "wait": "20s"})
        frame = fanmail.call(f"{user}/inbox/changes?{query}", "GET")
        for message in frame.get("messages", []):
            print(f"new, {frame['unseen']} unseen: {message['from']}: {message['body']}")
        cursor = frame["cursor"]


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--follow"]):
        sys.exit("usage: reader.py USER [--follow]")
    try:
        read(sys.argv[1], len(sys.argv) == 3)
    except fanmail.Problem as refused:
        sys.exit(str(refused))
    except OSError as error:
        sys.exit(f"no answer: {error}")
