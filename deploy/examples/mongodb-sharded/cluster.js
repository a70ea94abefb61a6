// Makes a cluster of the two shards, once, on a mongos: mongosh --host mongos-1 --tls … --file cluster.js
sh.addShard("shard-1/shard-1-1:27018,shard-1-2:27018,shard-1-3:27018");
sh.addShard("shard-2/shard-2-1:27018,shard-2-2:27018,shard-2-3:27018");
