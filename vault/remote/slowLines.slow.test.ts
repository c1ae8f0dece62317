import t from 'tap'
import { until } from '../../test/helpers/rawHttp.ts'
import { call } from '../../test/helpers/vault/remote/call.ts'
import type { Direction, TappedRelay } from '../../test/helpers/vault/remote/tap.ts'
import { gate, tappedWorld } from '../../test/helpers/vault/remote/world.ts'
import { startRelay } from '../relay/startRelay.ts'

/** Makes the relay forward one frame after the other, as on a slow line; returns the number of bytes so far. */
function slowDown(tapped: TappedRelay, slow: Direction, bytesPerMs: number): () => number {
  let lineIsFreeMs = 0
  let bytes = 0
  tapped.tamper = (payload, direction) => {
    if (direction !== slow) return [payload]
    lineIsFreeMs = Math.max(lineIsFreeMs, performance.now()) + payload.byteLength / bytesPerMs
    bytes += payload.byteLength
    const pass = slow === 'to agent' ? tapped.sendToAgents : tapped.injectToVault
    setTimeout(pass, lineIsFreeMs - performance.now(), payload)
    return []
  }
  return () => bytes
}

const longHandle = (length: number) => ({
  handle: async ({ path }: { path: string }) => ({
    status: 200,
    body: path === '/v1/vault/call' ? 'x'.repeat(length) : '"short"',
  }),
})

t.test(
  'long answers on a slow line are waited for, as is what is behind them, and each is sent once',
  async (t) => {
    const { tapped, vault, proxy } = await tappedWorld(t, longHandle(350_000))
    const bytes = slowDown(tapped, 'to agent', 32)
    const long = [0, 1].map((n) => call(proxy.url, '/v1/vault/call', { body: { n } }))
    await until(() => vault.requests.length === 2)
    const short = call(proxy.url, '/v1/vault/sign', { body: {} })
    for (const response of await Promise.all(long))
      t.strictSame([response.status, response.text.length], [200, 350_000])
    t.equal((await short).text, '"short"')
    t.ok(bytes() < 1_100_000, `${bytes()} bytes were sent`)
    t.equal(vault.requests.length, 3)
  },
)

t.test(
  'a long request on a slow line is waited for, as is what is behind it, and is sent once',
  async (t) => {
    const { tapped, vault, proxy } = await tappedWorld(t)
    const bytes = slowDown(tapped, 'to vault', 24)
    const long = call(proxy.url, '/v1/vault/sign', { body: { text: 'x'.repeat(250_000) } })
    await until(() => bytes() > 250_000)
    const short = call(proxy.url, '/v1/vault/sign', { body: {} })
    t.strictSame([(await long).status, (await short).status], [200, 200])
    t.ok(bytes() < 300_000, `${bytes()} bytes were sent`)
    t.equal(vault.requests.length, 2)
  },
)

t.test('a long answer that was swallowed comes again, at once over a new connection', async (t) => {
  const { relay, tapped, vault, proxy } = await tappedWorld(t, longHandle(40_000))
  let lost = 0
  const loseOne = () => {
    lost = 0
    tapped.tamper = (payload, direction) => {
      if (direction === 'to vault' || payload.byteLength < 40_000 || lost > 0) return [payload]
      lost++
      return []
    }
  }
  loseOne()
  const beganMs = performance.now()
  t.equal((await call(proxy.url, '/v1/vault/call', { body: {} })).text.length, 40_000)
  t.ok(lost === 1 && performance.now() - beganMs < 15_000)

  loseOne()
  const again = call(proxy.url, '/v1/vault/call', { body: {} })
  await until(() => lost === 1)
  await relay.close()
  const next = await startRelay({ host: '127.0.0.1', port: relay.port })
  t.teardown(() => next.close())
  const restartedMs = performance.now()
  t.equal((await again).text.length, 40_000)
  t.ok(performance.now() - restartedMs < 3_000)
  t.equal(vault.requests.length, 2)
})

t.test('a relay that repeats `present` and `under-way` prolongs nothing, and gets few copies', async (t) => {
  const never = gate()
  const callMs = 15_000
  const { tapped, vault, proxy } = await tappedWorld(
    t,
    {
      async handle({ method }) {
        if (method === 'POST') await never.opened
        return { status: 200 }
      },
    },
    { times: { callMs } },
  )
  const recorded: Buffer[] = []
  let copies = 0
  tapped.tamper = (payload, direction) => {
    if (direction === 'to vault') copies++
    else recorded.push(payload)
    return [payload]
  }
  const beganMs = performance.now()
  const signing = call(proxy.url, '/v1/vault/sign', { body: { text: 'x'.repeat(100_000) } })
  const storm = setInterval(() => {
    tapped.sayPresent()
    for (const notice of recorded.slice(0, 3)) tapped.sendToAgents(notice)
  }, 20)
  const response = await signing
  clearInterval(storm)
  t.strictSame([response.status, response.json.error.code], [504, 'OUTCOME_UNKNOWN'])
  t.ok(performance.now() - beganMs < callMs + 1_000)
  t.ok(copies < 10, `${copies} copies`)
  t.equal(vault.requests.length, 1)
  never.open()
})

t.test('a relay that holds each request until it has expired prolongs nothing', async (t) => {
  let aheadMs = 0
  const clock = { now: () => Date.now() + aheadMs }
  const { tapped, vault, proxy } = await tappedWorld(t, { clock }, { clock, times: { callMs: 1_000 } })
  tapped.tamper = (payload, direction) => {
    if (direction === 'to agent') return [payload]
    setTimeout(() => {
      aheadMs += 90_000
      tapped.injectToVault(payload)
    }, 700)
    return []
  }
  const beganMs = performance.now()
  const response = await call(proxy.url, '/v1/vault/sign', { body: {} })
  t.strictSame([response.status, response.json.error.code], [504, 'OUTCOME_UNKNOWN'])
  t.ok(performance.now() - beganMs < 1_300)
  t.equal(vault.requests.length, 0)
})
