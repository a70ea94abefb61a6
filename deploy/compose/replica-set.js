// Makes a replica set of the three servers of compose.yaml, unless they are one, and waits until there is a primary.
try {
  rs.status();
} catch (error) {
  if (error.codeName !== "NotYetInitialized") throw error;
  rs.initiate({
    _id: "fanmail",
    members: [1, 2, 3].map((n) => ({ _id: n, host: `mongodb-${n}:27017` })),
  });
}
while (!rs.status().members.some((member) => member.stateStr === "PRIMARY")) sleep(500);
