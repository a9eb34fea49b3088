// The Fluvio client of npm as a program: one command, lines of JSON.
// The package is compiled from TypeScript when it is installed; here, before its first use.
const fs = require("fs");
const path = require("path");

const root = path.dirname(require.resolve("@fluvio/client/package.json"));
const built = path.join(root, "dist", "index.js");
if (!fs.existsSync(built)) {
  const source = fs.readFileSync(path.join(root, "src", "index.ts"), "utf8");
  const made = require("esbuild").transformSync(source, { loader: "ts", format: "cjs" });
  fs.writeFileSync(built, made.code);
}
const { default: Fluvio, Offset } = require("@fluvio/client");

async function main([address, command, topic, ...words]) {
  const [host, port] = address.split(":");
  const client = new Fluvio({ host, port: Number(port) });
  await client.connect();
  if (command === "topics") {
    const admin = await client.admin();
    await admin.createTopic(topic, { partitions: 1, replicationFactor: 1, ignoreRackAssignment: true });
    const listed = JSON.parse(await admin.listTopic());
    const names = listed.map((one) => one.name).filter((name) => name === topic);
    console.log(JSON.stringify({ step: "listed", names }));
    await admin.deleteTopic(topic);
    console.log(JSON.stringify({ step: "end" }));
    return;
  }
  if (command === "produce") {
    const producer = await client.topicProducer(topic);
    for (const pair of words.slice(1)) {
      const [key, value] = pair.split("=");
      await producer.send(key, value);
    }
    await producer.flush();
    return;
  }
  const consumer = await client.partitionConsumer(topic, 0);
  const stream = await consumer.createStream(Offset.FromBeginning());
  let left = Number(words[1]);
  for await (const record of stream) {
    console.log(JSON.stringify({ key: record.keyString(), value: record.valueString() }));
    left -= 1;
    if (left === 0) return;
  }
}

main(process.argv.slice(2)).then(
  () => process.exit(0),
  (problem) => {
    console.error(problem);
    process.exit(1);
  },
);
