import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { connectTestRedis } from '../../test/helpers/redis.ts'
import { startRedisServer } from '../../test/helpers/servers/startRedisServer.ts'
import { createMemoryCounters } from '../memory/counters.ts'
import { createRedisCounters } from './counters.ts'

const minute = 60_000

/** A log that keeps its lines, and for whose lines a test can wait. */
function listen() {
  const seen: string[] = []
  const awaited = new Map<string, () => void>()
  const note = (level: string) => () => {
    seen.push(level)
    awaited.get(level)?.()
  }
  return {
    seen,
    log: { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') },
    next: (level: string) => new Promise<void>((resolve) => awaited.set(level, resolve)),
  }
}

async function startCounters(t: Test, url: string) {
  const received = listen()
  const fallback = createMemoryCounters()
  const counters = createRedisCounters({ url, fallback, log: received.log })
  t.teardown(() => counters.close())
  await counters.connected()
  return { ...received, counters, fallback }
}

t.test(
  'while Redis is away every take is answered by this process, and Redis counts again once it is back',
  async (t) => {
    const server = await startRedisServer(t)
    if (server === undefined) return
    const { counters, seen, next } = await startCounters(t, server.url)
    t.match(await counters.take('key', 3, 5, minute), { ok: true, remaining: 2 })

    const warned = next('warn')
    await server.stop()
    await warned
    const local = await Promise.all(Array.from({ length: 20 }, () => counters.take('key', 1, 5, minute)))
    t.equal(local.filter(({ ok }) => ok).length, 5, 'a limit still holds')
    t.strictSame(seen, ['warn'], 'said once, however often it was asked')

    const back = next('info')
    await server.start()
    await back
    t.match(await counters.take('key', 1, 5, minute), { ok: true, remaining: 4 }, 'counted by the new server')
    const client = new Redis(server.url)
    t.teardown(() => client.disconnect())
    t.equal(await client.get('tollgate:count:key'), '1')
    t.strictSame(seen, ['warn', 'info'])
  },
)

t.test('takes under way when Redis is killed are answered, each once', async (t) => {
  const server = await startRedisServer(t)
  if (server === undefined) return
  const { counters } = await startCounters(t, server.url)
  const underWay = Array.from({ length: 2_000 }, () => counters.take('key', 1, 100, minute))
  const [responses] = await Promise.all([Promise.all(underWay), server.stop()])
  t.equal(responses.length, 2_000)
  const admitted = responses.filter(({ ok }) => ok).length
  t.ok(admitted >= 100 && admitted <= 200, `at most once by Redis and once here, was ${admitted}`)
})

t.test('a Redis that holds the connection and stops answering is left aside, then taken back', async (t) => {
  const server = await startRedisServer(t)
  if (server === undefined) return
  const { counters, next } = await startCounters(t, server.url)
  t.ok(await counters.isShared())
  server.freeze()
  t.notOk(await counters.isShared(), 'noticed without a call, and before its connection ends')
  t.match(await counters.take('key', 1, 5, minute), { ok: true, remaining: 4 }, 'answered by the fallback')
  t.match(await counters.take('key', 1, 5, minute), { ok: true, remaining: 3 })
  const back = next('info')
  server.thaw()
  await back
  t.ok(await counters.isShared())
  t.match(await counters.take('other', 2, 5, minute), { ok: true, remaining: 3 })
  const client = new Redis(server.url)
  t.teardown(() => client.disconnect())
  t.equal(await client.get('tollgate:count:other'), '2', 'Redis is asked again')
})

t.test('a Redis that was never there stops nothing, and the log holds no password', async (t) => {
  const fields: object[] = []
  const warned = new Promise<void>((resolve) => {
    const log = {
      debug() {},
      info() {},
      error() {},
      warn(field: object) {
        fields.push(field)
        resolve()
      },
    }
    const url = 'redis://:geheim@127.0.0.1:1'
    const counters = createRedisCounters({ url, fallback: createMemoryCounters(), log })
    t.teardown(() => counters.close())
    void Promise.resolve(counters.take('key', 1, 5, minute)).then((taken) =>
      t.match(taken, { ok: true, remaining: 4 }),
    )
  })
  await warned
  t.strictSame(fields, [{ reason: 'ECONNREFUSED' }])
})

t.test('one take with a broken number does not spoil the others of its turn', async (t) => {
  const redis = await connectTestRedis(t)
  if (redis === undefined) return
  const { url, keyPrefix } = redis
  const counters = createRedisCounters({
    url,
    keyPrefix,
    fallback: createMemoryCounters(),
    timeoutMs: 10_000,
  })
  t.teardown(() => counters.close())
  await counters.connected()
  const [good, broken, fraction] = await Promise.all([
    counters.take('good', 1, 5, minute),
    counters.take('broken', Number.NaN, 5, minute),
    counters.take('fraction', 0.5, 5, 0.5),
  ])
  t.match(good, { ok: true, remaining: 4 })
  t.match(broken, { ok: false })
  t.match(fraction, { ok: true })
  t.equal(await redis.client.get(`${keyPrefix}good`), '1')
})

t.test('takes of one turn travel together', async (t) => {
  const redis = await connectTestRedis(t)
  if (redis === undefined) return
  const { keyPrefix } = redis
  let isCounting = false
  const writes: string[] = []
  const relay = createServer((socket) => {
    const { hostname, port } = new URL(redis.url)
    const onward = connect(Number(port) || 6379, hostname)
    socket.on('data', (bytes) => isCounting && writes.push(String(bytes)))
    socket.pipe(onward).pipe(socket)
    socket.on('error', () => {})
    onward.on('error', () => {})
  }).listen(0, '127.0.0.1')
  await once(relay, 'listening')
  t.teardown(() => relay.close())
  const counters = createRedisCounters({
    url: `redis://127.0.0.1:${(relay.address() as AddressInfo).port}`,
    keyPrefix,
    fallback: createMemoryCounters(),
    timeoutMs: 10_000,
  })
  t.teardown(() => counters.close())
  await counters.connected()
  await counters.take('first', 1, 5, minute)
  isCounting = true
  await Promise.all(Array.from({ length: 100 }, (_, i) => counters.take(`key ${i}`, 1, 5, minute)))
  t.equal(writes.join('').split(`${keyPrefix}key `).length - 1, 100)
  // 12 kB: a socket may hand them over in a few pieces.
  t.ok(writes.length < 10, `${writes.length} writes for 100 takes`)
})

t.test('a Redis that takes no writes is left aside too, said once, and taken back', async (t) => {
  const server = await startRedisServer(t)
  if (server === undefined) return
  const { counters, seen, next } = await startCounters(t, server.url)
  const client = new Redis(server.url)
  t.teardown(() => client.disconnect())
  await client.config('SET', 'min-replicas-to-write', '1')
  for (const remaining of [4, 3]) {
    t.match(await counters.take('key', 1, 5, minute), { ok: true, remaining })
  }
  t.strictSame(seen, ['warn'])
  t.notOk(await counters.isShared())
  const back = next('info')
  await client.config('SET', 'min-replicas-to-write', '0')
  t.match(await counters.take('key', 1, 5, minute), { ok: true, remaining: 4 })
  await back
})

t.test('answers that are no counts are left to this process', async (t) => {
  const nonsense = [
    '+OK',
    '*0',
    '*2\r\n$-1\r\n$-1',
    '*2\r\n$1\r\na\r\n$1\r\nb',
    '*2\r\n:5\r\n:-1',
    '*2\r\n*1\r\n:1\r\n:1',
  ]
  for (const response of nonsense) {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      socket.on('data', (bytes) => {
        for (const [, command] of String(bytes).matchAll(/\*\d+\r\n\$\d+\r\n(\w+)/g)) {
          const greeting = { info: '$2\r\n\r\n', client: '+OK', script: '*1\r\n:1' }[command!.toLowerCase()]
          socket.write(`${greeting ?? response}\r\n`)
        }
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const { port } = server.address() as AddressInfo
    const { counters, seen } = await startCounters(t, `redis://127.0.0.1:${port}`)
    for (const remaining of [1, 0]) {
      t.match(await counters.take('key', 1, 2, minute), { ok: true, remaining }, JSON.stringify(response))
    }
    t.match(await counters.take('key', 1, 2, minute), { ok: false, remaining: 0 })
    t.equal(seen[0], 'warn')
  }
})

t.test('after close a take is still answered', async (t) => {
  const redis = await connectTestRedis(t)
  if (redis === undefined) return
  const { url, keyPrefix } = redis
  const counters = createRedisCounters({ url, keyPrefix, fallback: createMemoryCounters() })
  await counters.connected()
  const waiting = counters.take('key', 1, 5, minute)
  await counters.close()
  t.match(await waiting, { ok: true, remaining: 4 })
  t.match(await counters.take('key', 1, 5, minute), { ok: true })
})
