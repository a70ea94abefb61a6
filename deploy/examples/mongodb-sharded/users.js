// The users of Fanmail, with passwords that are asked for.
const admin = db.getSiblingDB("admin");

// Of the roles: they read and write documents of one database, and change nothing about it.
admin.createUser({
  user: "fanmail",
  pwd: passwordPrompt(),
  roles: [{ role: "readWrite", db: "fanmail" }],
});

// Of 'fanmail admin init --shard': it makes collections and indexes, and says by which keys they are sharded.
admin.createUser({
  user: "fanmail-init",
  pwd: passwordPrompt(),
  roles: [
    { role: "readWrite", db: "fanmail" },
    { role: "dbAdmin", db: "fanmail" },
    { role: "clusterManager", db: "admin" },
  ],
});
