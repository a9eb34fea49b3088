// The pure JavaScript client of Pulsar with its default settings: asked by lines, answers by lines.
// It sends values and properties only, and its new subscriptions begin at the end of a topic.
const readline = require("readline");
const { Consumer, Producer } = require("pulsar-flex");

const server = process.argv[2];
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const silent = () => () => {};

const bytes = (word) => (word === "~" ? null : Buffer.from(word.slice(1), "base64"));
const word = (data) => `.${Buffer.from(data).toString("base64")}`;
const options = (topic) => ({ topic, discoveryServers: [server], logCreator: silent });

function message([key, value, eventMs, ...rest]) {
  if (key !== "~" || value === "~" || eventMs !== "0") throw new Error("it sends values and properties only");
  const properties = {};
  for (let at = 0; at < rest.length; at += 2) properties[bytes(rest[at])] = bytes(rest[at + 1]).toString();
  return { payload: bytes(value), properties };
}

async function produce(topic, count, isBatch) {
  const messages = [];
  for (let number = 0; number < count; number += 1) {
    messages.push(message((await lines.next()).value.split(" ")));
  }
  const producer = new Producer({ ...options(topic), producerAccessMode: Producer.ACCESS_MODES.SHARED });
  await producer.create();
  if (isBatch) await producer.sendBatch({ messages });
  else for (const one of messages) await producer.sendMessage(one);
  await producer.close();
  return [];
}

function written(message, metadata, { messageId }) {
  const key = metadata.partitionKey ? word(metadata.partitionKey) : "~";
  const place = `${messageId.ledgerid}:${messageId.entryid}:${messageId.batchIndex}`;
  const properties = metadata.propertiesList.map(({ key, value }) => [word(key), word(value)]);
  const value = metadata.nullValue ? "~" : word(message);
  return [key, value, metadata.eventTime, place, ...properties.sort().flat()].join(" ");
}

async function consume(topic, subscription, mode, count) {
  const consumer = new Consumer({
    ...options(topic),
    subscription,
    consumerName: "node",
    subType: Consumer.SUB_TYPES[mode.toUpperCase()],
  });
  await consumer.subscribe();
  const found = [];
  await new Promise((done) => {
    const onMessage = async ({ ack, message, metadata, command }) => {
      if (found.length === count) return;
      await ack();
      found.push(written(message, metadata, command));
      if (found.length === count) done();
    };
    consumer.run({ onMessage, autoAck: false });
  });
  await consumer.unsubscribe();
  return found;
}

async function answer([command, topic, ...words]) {
  if (command === "PRODUCE") return produce(topic, Number(words[0]), false);
  if (command === "BATCH") return produce(topic, Number(words[0]), true);
  if (command === "CONSUME") return consume(topic, words[0], words[1], Number(words[2]));
  throw new Error(`unknown question ${command}`);
}

async function main() {
  for (;;) {
    const { value, done } = await lines.next();
    if (done) return;
    try {
      for (const line of await answer(value.split(" "))) console.log(line);
      console.log("OK");
    } catch (problem) {
      console.log(`ERR ${String(problem).replaceAll("\n", " ")}`);
    }
  }
}

main();
