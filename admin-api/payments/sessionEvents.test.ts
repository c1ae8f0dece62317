import t from 'tap'
import { type Event, readEvents } from '../../test/helpers/admin-api/readEvents.ts'
import { startAdmin } from '../../test/helpers/admin-api/startAdmin.ts'

type StatusEvent = Event<{ readonly status: string }>

/** A request as from a client with this address, which the gateway names. */
const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })

async function allOf(response: Response): Promise<StatusEvent[]> {
  const notified: StatusEvent[] = []
  for await (const one of readEvents<StatusEvent['data']>(response)) notified.push(one)
  return notified
}

t.test('a stream tells how it stands, each change, and ends with the session', async (t) => {
  const f = await startAdmin(t)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const { key } = await f.store()
  const create = { key, body: { amount: '1', title: 'x' } }
  const { id, clientSecret } = (await f.call('POST', '/api/v1/payments', create)).body.data
  const base = `http://127.0.0.1:${port}/api/v1/payments/${id}`
  const response = await fetch(`${base}/events?cs=${clientSecret}`)
  t.equal(response.status, 200)
  t.match(response.headers.get('content-type'), /^text\/event-stream/)
  t.match(response.headers.get('cache-control'), /no-store/)
  const notified: StatusEvent[] = []
  for await (const one of readEvents<StatusEvent['data']>(response)) {
    notified.push(one)
    if (notified.length === 1) await fetch(`${base}/cancel?cs=${clientSecret}`, { method: 'POST' })
  }
  t.strictSame(
    notified.map(({ event, data }) => [event, data.status]),
    [
      ['session', 'open'],
      ['session', 'canceled'],
    ],
  )
  const read = (await (await fetch(`${base}?cs=${clientSecret}`)).json()) as { data: object }
  t.strictSame(notified.at(-1)!.data, read.data, 'the data of a read')
  const after = await allOf(await fetch(`${base}/events?cs=${clientSecret}`))
  t.strictSame(
    after.map(({ data }) => data.status),
    ['canceled'],
    'whoever comes back hears the end',
  )
  t.equal((await fetch(`${base}/events?cs=pscs_wrong`)).status, 404)
})

t.test('of one session ten are open at a time, and they end with the server', async (t) => {
  const f = await startAdmin(t)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const { key } = await f.store()
  const create = { key, body: { amount: '1', title: 'x' } }
  const { id, clientSecret } = (await f.call('POST', '/api/v1/payments', create)).body.data
  const url = `http://127.0.0.1:${port}/api/v1/payments/${id}/events?cs=${clientSecret}`
  const leaver = new AbortController()
  const streams = await Promise.all(
    Array.from({ length: 10 }, (_, i) => fetch(url, i === 0 ? { signal: leaver.signal } : {})),
  )
  t.equal((await fetch(url)).status, 429)
  leaver.abort()
  let again = await fetch(url)
  while (again.status === 429) again = await fetch(url)
  t.equal(again.status, 200, 'who leaves makes room')
  const ended = Promise.all([...streams.slice(1), again].map((one) => allOf(one)))
  await f.admin.close()
  for (const notified of await ended)
    t.strictSame(
      notified.map(({ data }) => data.status),
      ['open'],
    )
})

t.test('the streams of one store leave room for those of others', async (t) => {
  const f = await startAdmin(t)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const [crowd, other] = [await f.store(), await f.store()]
  const open = async (key: string) => {
    const create = { key, body: { amount: '1', title: 'x' } }
    const { id, clientSecret } = (await f.call('POST', '/api/v1/payments', create)).body.data
    return `http://127.0.0.1:${port}/api/v1/payments/${id}/events?cs=${clientSecret}`
  }
  const urls = await Promise.all(Array.from({ length: 26 }, () => open(crowd.key)))
  const streams = await Promise.all(
    urls.flatMap((url, i) => Array.from({ length: 10 }, () => fetch(url, from(`192.0.2.${i}`)))),
  )
  const answered = Map.groupBy(streams, ({ status }) => status)
  t.strictSame([answered.get(200)?.length, answered.get(429)?.length], [250, 10])
  t.equal((await fetch(await open(other.key))).status, 200)
  await f.admin.close()
})

t.test('the streams of one client leave room for those of others, however many stores it has', async (t) => {
  const f = await startAdmin(t)
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  const open = async () => {
    const create = { key: (await f.store()).key, body: { amount: '1', title: 'x' } }
    const { id, clientSecret } = (await f.call('POST', '/api/v1/payments', create)).body.data
    return `http://127.0.0.1:${port}/api/v1/payments/${id}/events?cs=${clientSecret}`
  }
  const urls = await Promise.all(Array.from({ length: 11 }, open))
  const streams = await Promise.all(
    urls.flatMap((url, i) => Array.from({ length: 10 }, () => fetch(url, from(`2001:db8::${i}`)))),
  )
  const answered = Map.groupBy(streams, ({ status }) => status)
  t.strictSame([answered.get(200)?.length, answered.get(429)?.length], [100, 10], 'a /64 is one client')
  t.equal((await fetch(await open(), from('2001:db8:0:1::1'))).status, 200)
  await f.admin.close()
})
