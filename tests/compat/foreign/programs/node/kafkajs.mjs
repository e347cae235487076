// What the checks ask of a client, by kafkajs. README.md lists the words and what is printed.
import { lz4Compress, lz4Decompress } from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import zlib from 'node:zlib'
import { endOfInput, run, say, sorted, values } from './words.mjs'

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs
const { None: none, GZIP: gzip, Snappy, LZ4: lz4, ZSTD: zstd } = CompressionTypes
const CODECS = { none, gzip, snappy: Snappy, lz4, zstd }

// It brings gzip alone: the others are put in by whoever needs them.
const codec = (compress, decompress) => () => ({ compress: async encoder => compress(encoder.buffer), decompress: async bytes => decompress(bytes) })
CompressionCodecs[Snappy] = snappy
CompressionCodecs[lz4] = codec(bytes => Buffer.from(lz4Compress(bytes)), bytes => Buffer.from(lz4Decompress(bytes)))
CompressionCodecs[zstd] = codec(zlib.zstdCompressSync, zlib.zstdDecompressSync)

const to = bootstrap => new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100, retries: 20, maxRetryTime: 1000 } })

async function produce (bootstrap, topic, codec, count) {
  const producer = to(bootstrap).producer()
  await producer.connect()
  await producer.send({ topic, compression: CODECS[codec], messages: values(codec, Number(count)) })
  await producer.disconnect()
}

async function member (bootstrap, groupId, topic, protocol, instance, sessionMs) {
  const consumer = to(bootstrap).consumer({
    groupId, sessionTimeout: Number(sessionMs), heartbeatInterval: 500, rebalanceTimeout: 10_000, metadataMaxAge: 2_000, maxWaitTimeInMs: 500
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => say({ assigned: sorted(payload.memberAssignment[topic] ?? []) }))
  consumer.on(consumer.events.REBALANCING, () => say({ assigned: [] }))
  consumer.on(consumer.events.CRASH, ({ payload }) => say({ error: `${payload.error}` }))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch, heartbeat }) => {
      const got = batch.messages.map(one => [batch.partition, Number(one.offset), one.value.toString()])
      const offset = Number(batch.lastOffset()) + 1
      say({ got })
      await heartbeat()
      await consumer.commitOffsets([{ topic, partition: batch.partition, offset: `${offset}` }])
      say({ committed: { [batch.partition]: offset } })
    }
  })
  await endOfInput()
  await consumer.disconnect()
}

async function admin (bootstrap, groupId, topic) {
  const admin = to(bootstrap).admin()
  await admin.connect()
  const has = async () => (await admin.listGroups()).groups.some(one => one.groupId === groupId)
  const listed = await has()
  const { groups } = await admin.describeGroups([groupId])
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: '1' }] })
  const [found] = await admin.fetchOffsets({ groupId, topics: [topic] })
  const reset = Number(found.partitions.find(one => one.partition === 0).offset)
  await admin.deleteGroups([groupId])
  say({ listed, state: groups[0].state, reset, deleted: !(await has()) })
  await admin.disconnect()
}

// Copies `count` records, each batch in a transaction with its offsets; after each, one more that is aborted.
async function copy (bootstrap, groupId, from, to_, count) {
  const kafka = to(bootstrap)
  const producer = kafka.producer({ transactionalId: groupId, idempotent: true, maxInFlightRequests: 1 })
  const consumer = kafka.consumer({ groupId, readUncommitted: false })
  await Promise.all([producer.connect(), consumer.connect()])
  await consumer.subscribe({ topic: from, fromBeginning: true })
  let done = 0
  const ended = new Promise(resolve => {
    consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => {
        const messages = batch.messages.map(one => ({ partition: batch.partition, key: one.key, value: one.value }))
        const transaction = await producer.transaction()
        await transaction.send({ topic: to_, messages })
        const offset = `${Number(batch.lastOffset()) + 1}`
        await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic: from, partitions: [{ partition: batch.partition, offset }] }] })
        await transaction.commit()
        const aborted = await producer.transaction()
        await aborted.send({ topic: to_, messages: [{ partition: 0, value: 'aborted' }] })
        await aborted.abort()
        done += messages.length
        if (done >= Number(count)) resolve()
      }
    })
  })
  await ended
  await Promise.all([consumer.disconnect(), producer.disconnect()])
}

await run({ produce, member, admin, copy })
