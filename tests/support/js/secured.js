// kafkajs at a secured broker: deeds by lines on standard input, as ../go/secured.go has them.
'use strict'

const { readFileSync } = require('node:fs')
const { createInterface } = require('node:readline')
const {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  Kafka,
  ResourcePatternTypes,
  logLevel,
} = require('kafkajs')

const OPEN_TOPIC = 'secured'
const WITHIN_MS = 20000
let reads = 0

function login(given) {
  const mechanism = given['sasl.mechanism'].toLowerCase()
  if (mechanism === 'oauthbearer') {
    return { mechanism, oauthBearerProvider: async () => ({ value: given.token }) }
  }
  return { mechanism, username: given['sasl.username'], password: given['sasl.password'] }
}

function connect(given) {
  const settings = {
    brokers: [given['bootstrap.servers']],
    logLevel: logLevel.NOTHING,
    retry: { retries: 1 },
    reauthenticationThreshold: 500, // ms before a session ends; the default is ten seconds
  }
  if (given['security.protocol'].endsWith('SSL')) {
    settings.ssl = { ca: [readFileSync(given['ssl.ca.location'])] }
    if (given['ssl.key.location']) {
      settings.ssl.cert = readFileSync(given['ssl.certificate.location'])
      settings.ssl.key = readFileSync(given['ssl.key.location'])
    }
  }
  if (given['sasl.mechanism']) settings.sasl = login(given)
  return new Kafka(settings)
}

// Reads one record as a member of a group: it reads so or not at all.
async function read(kafka, group, topic) {
  const consumer = kafka.consumer({ groupId: group })
  try {
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      setTimeout(() => reject(new Error('nothing to read')), WITHIN_MS).unref()
      consumer.run({ eachMessage: async () => resolve() }).catch(reject)
    })
  } finally {
    await consumer.disconnect()
  }
}

const deeds = {
  'round-trip': async (kafka, topic) => {
    const producer = kafka.producer()
    try {
      await producer.connect()
      await producer.send({ topic, messages: [{ partition: 0, value: 'hello' }] })
    } finally {
      await producer.disconnect()
    }
    await read(kafka, `reads-${process.pid}-${reads++}`, topic)
  },
  // Writes for five seconds, a record at a time.
  stay: async (kafka, topic) => {
    const producer = kafka.producer()
    try {
      await producer.connect()
      for (let number = 0; number < 20; number++) {
        await producer.send({ topic, messages: [{ partition: 0, value: 'stay' }] })
        await new Promise((resolve) => setTimeout(resolve, 250))
      }
    } finally {
      await producer.disconnect()
    }
  },
  join: async (kafka, group) => read(kafka, group, OPEN_TOPIC),
  acls: async (kafka) => {
    const admin = kafka.admin()
    try {
      await admin.connect()
      await admin.describeAcls({
        resourceType: AclResourceTypes.ANY,
        resourcePatternType: ResourcePatternTypes.ANY,
        operation: AclOperationTypes.ANY,
        permissionType: AclPermissionTypes.ANY,
      })
    } finally {
      await admin.disconnect()
    }
  },
}

async function main() {
  for await (const line of createInterface({ input: process.stdin })) {
    const [deed, name, file] = line.split(' ')
    try {
      await deeds[deed](connect(JSON.parse(readFileSync(file))), name)
      process.stdout.write('OK\n')
    } catch (refused) {
      process.stdout.write(`ERR ${String(refused).replaceAll('\n', ' ')}\n`)
    }
  }
}

main()
