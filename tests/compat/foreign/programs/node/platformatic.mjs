// What the checks ask of a client, by @platformatic/kafka. README.md lists the words and what is printed.
import { Admin, Consumer, MessagesStreamFallbackModes, MessagesStreamModes, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'
import { endOfInput, pause, run, say, sorted, values } from './words.mjs'

const base = bootstrap => ({ clientId: 'foreign', bootstrapBrokers: [bootstrap], retries: 20, retryDelay: 250 })
const producing = (bootstrap, more = {}) => new Producer({ ...base(bootstrap), serializers: stringSerializers, autocreateTopics: false, ...more })
const from = { mode: MessagesStreamModes.COMMITTED, fallbackMode: MessagesStreamFallbackModes.EARLIEST }

function consuming (bootstrap, groupId, protocol, instance, more = {}) {
  const classic = protocol === 'classic' ? { heartbeatInterval: 500, rebalanceTimeout: 60_000, ...more } : {}
  return new Consumer({
    ...base(bootstrap), groupId, groupProtocol: protocol, deserializers: stringDeserializers, autocommit: false, maxWaitTime: 500, metadataMaxAge: 2_000,
    ...(instance ? { groupInstanceId: instance } : {}), ...classic
  })
}

async function produce (bootstrap, topic, codec, count) {
  const producer = producing(bootstrap)
  const messages = values(codec, Number(count)).map(one => ({ topic, ...one }))
  await producer.send({ messages, compression: codec, acks: -1 })
  await producer.close()
}

async function member (bootstrap, groupId, topic, protocol, instance, sessionMs) {
  const consumer = consuming(bootstrap, groupId, protocol, instance, { sessionTimeout: Number(sessionMs) })
  consumer.on('error', error => say({ error: `${error}` }))
  let told = ''
  const watch = setInterval(() => {
    const assigned = sorted((consumer.assignments ?? []).filter(one => one.topic === topic).flatMap(one => one.partitions))
    if (`${assigned}` !== told) say({ assigned })
    told = `${assigned}`
  }, 50)
  const stream = await consumer.consume({ topics: [topic], ...from })
  stream.on('error', error => say({ error: `${error}` }))
  stream.on('data', async message => {
    say({ got: [[message.partition, message.offset, message.value]] })
    try {
      await message.commit()
      say({ committed: { [message.partition]: message.offset + 1n } })
    } catch (error) {
      say({ error: `${error}` })
    }
  })
  await endOfInput()
  clearInterval(watch)
  await stream.close()
  await consumer.close(true)
}

async function admin (bootstrap, groupId, topic) {
  const admin = new Admin(base(bootstrap))
  const zero = async () => {
    const [found] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
    return found.topics.find(one => one.name === topic)?.partitions.find(one => one.partitionIndex === 0)?.committedOffset
  }
  const has = async () => (await admin.listGroups({ types: ['classic', 'consumer'] })).has(groupId)
  const listed = await has()
  const state = (await admin.describeGroups({ groups: [groupId] })).get(groupId).state
  await admin.alterConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionOffsets: [{ partition: 0, offset: 1n }] }] })
  const reset = await zero()
  await admin.deleteConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionIndexes: [0] }] })
  const forgotten = (await zero()) === undefined
  await admin.deleteGroups({ groups: [groupId] })
  say({ listed, state, reset, forgotten, deleted: !(await has()) })
  await admin.close()
}

// Copies `count` records, each in a transaction with its offset; after each tenth, one more that is aborted.
async function copy (bootstrap, groupId, topic, to, count, protocol) {
  const producer = producing(bootstrap, { transactionalId: groupId, idempotent: true, acks: -1 })
  const consumer = consuming(bootstrap, groupId, protocol, '')
  const stream = await consumer.consume({ topics: [topic], ...from })
  let done = 0
  for await (const message of stream) {
    const transaction = await producer.beginTransaction()
    await transaction.addConsumer(consumer)
    await transaction.send({ messages: [{ topic: to, partition: message.partition, key: message.key, value: message.value }] })
    await transaction.addOffset(message)
    await transaction.commit()
    done += 1
    if (done % 10 === 0) {
      const aborted = await producer.beginTransaction()
      await aborted.send({ messages: [{ topic: to, partition: 0, value: 'aborted' }] })
      await aborted.abort()
    }
    if (done >= Number(count)) break
  }
  await pause(0)
  await stream.close().catch(() => {})
  await consumer.close(true)
  await producer.close()
}

await run({ produce, member, admin, copy })
