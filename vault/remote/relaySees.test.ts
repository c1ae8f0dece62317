import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { until } from '../../test/helpers/rawHttp.ts'
import { call } from '../../test/helpers/vault/remote/call.ts'
import { type TappedRelay, tapRelay } from '../../test/helpers/vault/remote/tap.ts'
import {
  eager,
  gate,
  offerFor,
  proxyFor,
  proxyOptions,
  relayFor,
  type TestVault,
  vaultFor,
} from '../../test/helpers/vault/remote/world.ts'
import { requestBoxBytes, responseBoxBytes } from '../channel/header.ts'
import { bucketBytes } from '../channel/message.ts'
import type { RunningProxy } from '../proxy/startProxy.ts'
import type { ConnectorOptions } from './connector.ts'

interface TappedWorld {
  readonly tapped: TappedRelay
  readonly vault: TestVault
  readonly proxy: RunningProxy
}

// So long that 200 kB of random bytes do not contain it by chance.
const serviceId = 'shopping-bot'

async function tappedWorld(t: Test, change: Partial<ConnectorOptions> = {}): Promise<TappedWorld> {
  const relay = await relayFor(t)
  const tapped = await tapRelay(t, relay)
  const vault = await vaultFor(t, tapped, change)
  const offer = await offerFor(vault, serviceId)
  const options = proxyOptions(t, vault, tapped, offer)
  const proxy = await proxyFor(t, { ...options, times: { callMs: 5_000 } })
  return { tapped, vault, proxy }
}

t.test('the relay sees no word of what is said, and nothing finer than a bucket', async (t) => {
  const secrets = ['Ada Lovelace', 'identity.name', 'sk_live_1234567890', 'vault/read', serviceId]
  const { tapped, vault, proxy } = await tappedWorld(t, {
    handle: async () => ({
      status: 200,
      body: JSON.stringify({ value: 'Ada Lovelace', key: 'sk_live_1234567890' }),
    }),
  })
  for (const size of [0, 100, 900, 1500, 5000, 70_000])
    await call(proxy.url, '/v1/vault/read', { body: { scope: 'identity.name', pad: 'p'.repeat(size) } })
  await call(proxy.url, '/address/solana')
  t.equal(vault.requests.length, 7)

  const words = [...secrets, vault.identity.vaultId, 'POST', 'solana', 'application/json', 'vpt_']
  const keys = [vault.identity.signing, ...vault.identity.keys].flatMap((pair) => [
    Buffer.from(pair.publicKey, 'base64'),
    Buffer.from(pair.privateKey, 'base64'),
  ])
  const needles = [...words.map((word) => Buffer.from(word)), ...keys]
  t.ok(tapped.frames.length > 18)
  for (const needle of needles)
    t.notOk(
      tapped.frames.some((frame) => frame.includes(needle)),
      'is in no frame',
    )
  for (const { payload, direction } of tapped.messages) {
    const around = 32 + 16 + (direction === 'to vault' ? requestBoxBytes : responseBoxBytes)
    t.ok(bucketBytes.includes((payload.length - around) as never), `${direction}: ${payload.length} bytes`)
  }
  const short = tapped.messages.filter(({ payload }) => payload.length < 2000)
  const lengths = new Set(short.map(({ payload, direction }) => `${direction} ${payload.length}`))
  t.equal(lengths.size, 2, 'pairing, greeting, call and answer of a size look the same')
})

t.test('a message that comes twice, or ten times later, is performed once', async (t) => {
  const { tapped, vault, proxy } = await tappedWorld(t)
  tapped.tamper = (payload) => [payload, payload]
  for (let i = 0; i < 3; i++)
    t.equal((await call(proxy.url, '/v1/vault/sign', { body: { i } })).json.body, JSON.stringify({ i }))
  const sent = tapped.messages.filter(({ direction }) => direction === 'to vault')
  for (let i = 0; i < 10; i++) for (const { payload } of sent) tapped.injectToVault(payload)
  // Frames keep their order on a connection: once this has a response, all earlier frames were processed.
  t.equal((await call(proxy.url, '/v1/vault/sign', { body: { last: true } })).status, 200)
  t.strictSame(
    vault.requests.map(({ body }) => body.toString()),
    ['{"i":0}', '{"i":1}', '{"i":2}', '{"last":true}'],
  )
  t.equal(vault.questions.length, 1, 'nor is anyone asked twice')
})

t.test('whatever a relay does to copies, the vault performs what was said, once', async (t) => {
  const { tapped, vault, proxy } = await tappedWorld(t)
  let round = 0
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('flip', 'cut', 'grow', 'mix', 'noise', 'reorder' as const),
      fc.nat(),
      async (how, at) => {
        const before = vault.requests.length
        const held: Buffer[] = []
        tapped.tamper = (payload) => {
          const last = tapped.messages.at(-2)?.payload ?? payload
          const bad = Buffer.from(payload)
          bad[at % bad.length]! ^= 1 << (at % 8)
          if (how === 'flip') return [bad, payload, bad]
          if (how === 'cut') return [payload.subarray(0, at % payload.length), payload]
          if (how === 'grow') return [Buffer.concat([payload, last.subarray(0, 1 + (at % 900))]), payload]
          if (how === 'mix') return [Buffer.concat([payload.subarray(0, 32), last.subarray(32)]), payload]
          if (how === 'noise') return [randomBytes(payload.length), payload]
          held.push(payload)
          return [...held].reverse()
        }
        const body = { round: round++ }
        const response = await call(proxy.url, '/v1/vault/sign', { body })
        return (
          response.json.body === JSON.stringify(body) &&
          vault.requests.length === before + 1 &&
          vault.requests.at(-1)!.body.toString() === JSON.stringify(body)
        )
      },
    ),
    { numRuns: 60, examples: [['flip', 32 + requestBoxBytes + 7]] },
  )
  t.equal(vault.requests.length, round)
})

t.test('answers that are swapped between two calls reach neither', async (t) => {
  const both = gate()
  const { tapped, vault, proxy } = await tappedWorld(t, {
    async handle({ body }) {
      await both.opened
      return { status: 200, body }
    },
  })
  const first = call(proxy.url, '/v1/vault/sign', { body: { n: 1 } })
  const second = call(proxy.url, '/v1/vault/sign', { body: { n: 2 } })
  await until(() => vault.requests.length === 2)
  const responses: Buffer[] = []
  tapped.tamper = (payload, direction) => {
    if (direction === 'to vault') return [payload]
    responses.push(payload)
    if (responses.length < 2) return []
    const [a, b] = responses as [Buffer, Buffer]
    const head = 32 + responseBoxBytes
    const mixed = [
      Buffer.concat([a.subarray(0, head), b.subarray(head)]),
      Buffer.concat([b.subarray(0, head), a.subarray(head)]),
    ]
    return [...mixed, b, a]
  }
  both.open()
  t.strictSame([(await first).text, (await second).text], ['{"n":1}', '{"n":2}'])
})

t.test('a message that is led to another agent’s place opens nothing there', async (t) => {
  const relay = await relayFor(t)
  const tapped = await tapRelay(t, relay)
  const vault = await vaultFor(t, tapped)
  const [one, two] = [await offerFor(vault, 'one'), await offerFor(vault, 'two')]
  const proxies = [
    await proxyFor(t, proxyOptions(t, vault, tapped, one)),
    await proxyFor(t, proxyOptions(t, vault, tapped, two)),
  ]
  await call(proxies[0]!.url, '/v1/vault/sign', { body: { from: 'one' } })
  const sent = tapped.messages.filter(({ direction }) => direction === 'to vault')
  // Each goes to both destinations: to its own, and to the other's.
  for (const { payload } of sent) tapped.injectToVault(payload)
  await Promise.all(proxies.map((proxy) => call(proxy.url, '/v1/vault/scopes')))
  t.equal(vault.requests.filter(({ path }) => path === '/v1/vault/sign').length, 1)
  t.equal(vault.questions.length, 2)
})

t.test('calls recorded in one life of the vault do nothing in the next', async (t) => {
  const { tapped, vault, proxy } = await tappedWorld(t)
  await call(proxy.url, '/v1/vault/sign', { body: { n: 1 } })
  const sent = tapped.messages
    .filter(({ direction }) => direction === 'to vault')
    .map(({ payload }) => payload)
  await vault.restart({ backoff: eager })
  // A read is repeated with a vault that has lost the session; then the proxy has a new session.
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
  for (const payload of sent) tapped.injectToVault(payload)
  t.equal((await call(proxy.url, '/v1/vault/sign', { body: { n: 2 } })).status, 200)
  t.strictSame(
    vault.requests.map(({ body }) => body.toString()),
    ['{"n":1}', '', '{"n":2}'],
  )
})
