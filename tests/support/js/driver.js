// kafkajs at default settings, driven by lines on standard input.
//
// The format stands in ../clients/driven.py. Logging is off, because it goes to standard output.
'use strict'

const { createInterface } = require('node:readline')
const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

const ANSWER_WITHIN_MS = 60000
const POLL_FOR_MS = 200
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING })
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const members = new Map()
let reads = 0

const raw = (word) => (word === '~' ? null : Buffer.from(word.slice(1), 'base64'))
const word = (bytes) => (bytes === null ? '~' : '.' + bytes.toString('base64'))
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

class Member {
  constructor(group) {
    this.consumer = kafka.consumer({ groupId: group })
    this.arrived = []
  }

  async start(topic) {
    await this.consumer.connect()
    await this.consumer.subscribe({ topic, fromBeginning: true })
    await this.consumer.run({
      eachMessage: async ({ partition, message: m }) => {
        this.arrived.push(`${partition} ${m.offset} ${word(m.key)} ${word(m.value)} ${m.timestamp}`)
      },
    })
  }
}

async function records(count) {
  const given = []
  while (given.length < count) {
    const [partition, key, value] = (await lines.next()).value.split(' ')
    given.push({ partition: Number(partition), key: raw(key), value: raw(value) })
  }
  return given
}

// It tells the first offset of each partition in a call.
async function produce(topic, settings, codec, given) {
  const producer = kafka.producer(settings)
  await producer.connect()
  try {
    const answers = await producer.send({ topic, compression: CODECS[codec], messages: given })
    const next = new Map(answers.map((a) => [a.partition, Number(a.baseOffset)]))
    return given.map(({ partition }) => {
      const offset = next.get(partition)
      next.set(partition, offset + 1)
      return offset
    })
  } finally {
    await producer.disconnect()
  }
}

// It reads as a member of a group or not at all: a group of its own, with every partition.
async function consume(topic, partitions, count) {
  const wanted = new Set(partitions.split(','))
  const member = new Member(`reads-${process.pid}-${reads++}`)
  await member.start(topic)
  try {
    const deadline = Date.now() + ANSWER_WITHIN_MS
    let found = []
    while (found.length < count && Date.now() < deadline) {
      await sleep(10)
      found = member.arrived.filter((line) => wanted.has(line.split(' ')[0]))
    }
    return found
  } finally {
    await member.consumer.disconnect()
  }
}

async function withAdmin(act) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await act(admin)
  } finally {
    await admin.disconnect()
  }
}

const questions = {
  PRODUCE: async (topic, codec, count) => produce(topic, {}, codec, await records(Number(count))),
  IDEMPOTENT: async (topic, count) =>
    produce(topic, { idempotent: true }, 'none', await records(Number(count))),
  CONSUME: async (topic, partitions, count) => consume(topic, partitions, Number(count)),
  SUBSCRIBE: async (name, group, topic) => {
    const member = new Member(group)
    members.set(name, member)
    await member.start(topic)
  },
  POLL: async (name) => {
    await sleep(POLL_FOR_MS)
    return members.get(name).arrived.splice(0)
  },
  LEAVE: async (name) => {
    await members.get(name).consumer.disconnect()
    members.delete(name)
  },
  CREATE: async (topic, partitions) => {
    const topics = [{ topic, numPartitions: Number(partitions) }]
    if (!(await withAdmin((admin) => admin.createTopics({ topics })))) {
      throw new Error(`${topic} exists`)
    }
  },
  PARTITIONS: async (topic, total) => {
    const topicPartitions = [{ topic, count: Number(total) }]
    await withAdmin((admin) => admin.createPartitions({ topicPartitions }))
  },
  ALTER: async (topic, operation, name, value) => {
    const resource = { type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }
    await withAdmin((admin) => admin.alterConfigs({ validateOnly: false, resources: [resource] }))
  },
  DELETE: async (topic) => {
    await withAdmin((admin) => admin.deleteTopics({ topics: [topic] }))
  },
  LIST: async () => {
    const { topics } = await withAdmin((admin) => admin.fetchTopicMetadata())
    return topics.map(({ name, partitions }) => `${name} ${partitions.length}`)
  },
}

async function main() {
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const [question, ...words] = line.value.split(' ')
    try {
      const answer = (await questions[question](...words)) ?? []
      process.stdout.write([...answer, 'OK'].join('\n') + '\n')
    } catch (refused) {
      process.stdout.write(`ERR ${String(refused).replaceAll('\n', ' ')}\n`)
    }
  }
}

main()
