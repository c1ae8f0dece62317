import { setTimeout as wait } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { until } from '../../test/helpers/rawHttp.ts'
import { call } from '../../test/helpers/vault/remote/call.ts'
import { type Child, startChild } from '../../test/helpers/vault/remote/startChild.ts'
import { tapRelay } from '../../test/helpers/vault/remote/tap.ts'
import {
  eager,
  gate,
  offerFor,
  pairedWorld,
  proxyFor,
  proxyOptions,
  relayFor,
  tappedWorld,
  vaultFor,
} from '../../test/helpers/vault/remote/world.ts'
import type { ProxyTimes } from '../proxy/vaultClient.ts'
import { type Relay, startRelay } from '../relay/startRelay.ts'

/** Ends a relay and starts another at the same address. */
async function restartRelay(t: Test, relay: Relay): Promise<Relay> {
  await relay.close()
  const next = await startRelay({ host: '127.0.0.1', port: relay.port })
  t.teardown(() => next.close())
  return next
}

const impatient: Partial<ProxyTimes> = { reachMs: 20 }

t.test('a call that is under way when the relay restarts is answered, and was performed once', async (t) => {
  const approval = gate()
  const { relay, vault, proxy } = await pairedWorld(t, {
    async handle({ body }) {
      await approval.opened
      return { status: 200, body }
    },
  })
  const calls = [0, 1, 2].map((n) => call(proxy.url, '/v1/vault/sign', { body: { n } }))
  await until(() => vault.requests.length === 3)
  const second = await restartRelay(t, relay)
  await until(() => proxy.reach === 'vault')
  await restartRelay(t, second)
  approval.open()
  t.strictSame(
    (await Promise.all(calls)).map(({ text }) => text),
    ['{"n":0}', '{"n":1}', '{"n":2}'],
  )
  t.equal(vault.requests.length, 3)
})

t.test('an answer that was made while the relay was away is not lost', async (t) => {
  const approval = gate()
  let answered = 0
  const { relay, vault, proxy } = await pairedWorld(t, {
    async handle({ body }) {
      await approval.opened
      answered++
      return { status: 200, body }
    },
  })
  const signing = call(proxy.url, '/v1/vault/sign', { body: { n: 1 } })
  await until(() => vault.requests.length === 1)
  await relay.close()
  approval.open()
  await until(() => answered === 1)
  const next = await startRelay({ host: '127.0.0.1', port: relay.port })
  t.teardown(() => next.close())
  t.equal((await signing).text, '{"n":1}')
  t.equal(vault.requests.length, 1)
})

t.test('where the way ends is said: no relay, no vault', async (t) => {
  const { relay, vault, proxy } = await pairedWorld(t, {}, { times: impatient })
  await vault.connector.close()
  await until(() => proxy.reach === 'relay')
  const away = await call(proxy.url, '/v1/vault/sign', { body: {} })
  t.strictSame([away.status, away.headers['retry-after']], [503, '5'])
  t.match(away.json, {
    error: { code: 'VAULT_UNREACHABLE', message: String, action: String, retryable: true },
  })
  await relay.close()
  await until(() => proxy.reach === 'nowhere')
  const lost = await call(proxy.url, '/v1/vault/sign', { body: {} })
  t.strictSame([lost.status, lost.json.error.code], [502, 'RELAY_UNREACHABLE'])
  t.equal(vault.requests.length, 0)
})

t.test('a call that comes while vault or relay are away waits a moment for them', async (t) => {
  const { relay, vault, proxy } = await pairedWorld(t, {}, { times: { reachMs: 30_000 } })
  await vault.connector.close()
  await until(() => proxy.reach === 'relay')
  const waiting = call(proxy.url, '/v1/vault/sign', { body: {} })
  await restartRelay(t, relay)
  await vault.restart()
  t.equal((await waiting).status, 200)
})

t.test(
  'a vault that restarts under a call: what reads is asked again, what acts says that nobody knows',
  async (t) => {
    const never = gate()
    const { vault, proxy } = await pairedWorld(t, {
      async handle({ method }) {
        await never.opened
        return { status: 200, body: JSON.stringify(method) }
      },
    })
    const reading = call(proxy.url, '/v1/vault/activity')
    const signing = call(proxy.url, '/v1/vault/sign', { body: {} })
    await until(() => vault.requests.length === 2)
    await vault.restart({ handle: async () => ({ status: 200, body: '"again"' }) })
    t.equal((await reading).text, '"again"')
    const lost = await signing
    t.strictSame(
      [lost.status, lost.json.error.code, lost.json.error.retryable],
      [504, 'OUTCOME_UNKNOWN', false],
    )
    t.match(lost.json.error.action, /activity/)
    t.equal(vault.requests.filter(({ method }) => method === 'POST').length, 1)
    never.open()
  },
)

t.test('a call without an answer ends, and says what that means', async (t) => {
  const never = gate()
  const { proxy, vault } = await pairedWorld(
    t,
    {
      async handle() {
        await never.opened
        return { status: 200 }
      },
    },
    { times: { callMs: 30 } },
  )
  const reading = await call(proxy.url, '/v1/vault/activity')
  t.strictSame([reading.status, reading.json.error.code], [504, 'VAULT_TIMEOUT'])
  const signing = await call(proxy.url, '/v1/vault/sign', { body: {} })
  t.strictSame([signing.status, signing.json.error.code], [504, 'OUTCOME_UNKNOWN'])
  await until(() => vault.requests.length === 2, 'both being at the vault')
  never.open()
  await until(async () => (await call(proxy.url, '/v1/vault/scopes')).status === 200)
  const methods = vault.requests.filter(({ path }) => path !== '/v1/vault/scopes').map(({ method }) => method)
  t.strictSame(methods, ['GET', 'POST'], 'neither was repeated by itself')
})

t.test('a frame that the relay swallows is sent again within seconds, and performed once', async (t) => {
  const { tapped, vault, proxy } = await tappedWorld(t)
  for (const lost of ['to vault', 'to agent'] as const) {
    let isLost = false
    tapped.tamper = (payload, direction) => {
      if (direction !== lost || isLost) return [payload]
      isLost = true
      return []
    }
    const beganMs = performance.now()
    const response = await call(proxy.url, '/v1/vault/sign', { body: { lost } })
    t.strictSame([response.status, response.json.body], [200, JSON.stringify({ lost })])
    t.ok(isLost && performance.now() - beganMs < 10_000, `lost on its way ${lost}`)
  }
  t.equal(vault.requests.length, 2)
})

t.test(
  'a relay that swallows every frame ends a call within seconds, and the error says what is safe',
  async (t) => {
    const { tapped, vault, proxy } = await tappedWorld(t)
    for (const lost of ['to vault', 'to agent'] as const) {
      tapped.tamper = (payload, direction) => (direction === lost ? [] : [payload])
      const beganMs = performance.now()
      const [reading, signing] = await Promise.all([
        call(proxy.url, '/v1/vault/activity'),
        call(proxy.url, '/v1/vault/sign', { body: { lost } }),
      ])
      t.ok(performance.now() - beganMs < 20_000, `lost on their way ${lost}`)
      t.match(reading, { status: 504, json: { error: { code: 'VAULT_TIMEOUT', retryable: true } } })
      t.match(signing, {
        status: 504,
        json: { error: { code: 'OUTCOME_UNKNOWN', retryable: false, action: /activity/ } },
      })
      // There is no session left either, so the call itself is never sent.
      t.match(await call(proxy.url, '/v1/vault/sign', { body: { lost } }), {
        status: 504,
        json: { error: { code: 'VAULT_TIMEOUT', retryable: true } },
      })
      tapped.tamper = (payload) => [payload]
      t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
    }
    const signed = vault.requests.filter(({ method }) => method === 'POST')
    t.strictSame(
      signed.map(({ body }) => body.toString()),
      ['{"lost":"to agent"}'],
    )
  },
)

t.test('a call that waits for the owner goes on: the vault says that it is under way', async (t) => {
  const approval = gate()
  const { tapped, vault, proxy } = await tappedWorld(t, {
    async handle({ method }) {
      if (method === 'POST') await approval.opened
      return { status: 200, body: '"done"' }
    },
  })
  const signing = call(proxy.url, '/v1/vault/sign', { body: {} })
  await wait(15_000)
  let isLost = false
  tapped.tamper = (payload, direction) => {
    if (direction === 'to vault' || isLost) return [payload]
    isLost = true
    return []
  }
  const openedMs = performance.now()
  approval.open()
  t.equal((await signing).text, '"done"')
  t.ok(isLost && performance.now() - openedMs < 15_000, 'also where the answer itself was swallowed')
  t.equal(vault.requests.length, 1)
})

t.test('sessions end by the vault’s clock, and the proxy has a new one before', async (t) => {
  let aheadMs = 0
  const clock = { now: () => Date.now() + aheadMs }
  const { proxy, vault } = await pairedWorld(t, { clock }, { clock })
  for (let hour = 0; hour < 3; hour++) {
    t.equal((await call(proxy.url, '/v1/vault/sign', { body: {} })).status, 200)
    aheadMs += 3_600_000
  }
  t.equal(vault.requests.length, 3)
})

t.test('what a sleep held up is asked for anew when it was not begun, and is done once', async (t) => {
  let aheadMs = 0
  const clock = { now: () => Date.now() + aheadMs }
  const relay = await relayFor(t)
  const tapped = await tapRelay(t, relay)
  const vault = await vaultFor(t, tapped, { clock })
  const offer = await offerFor(vault)
  const proxy = await proxyFor(t, { ...proxyOptions(t, vault, tapped, offer), clock })
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
  const bodies = () => vault.requests.map(({ body }) => body.toString()).filter((body) => body !== '')

  const asleep: Buffer[] = []
  tapped.tamper = (payload) => {
    asleep.push(payload)
    return []
  }
  const late = call(proxy.url, '/v1/vault/sign', { body: { n: 1 } })
  await until(() => asleep.length === 1)
  aheadMs += 90_000
  // Its response is lost in the connection that broke meanwhile; the request is sent again.
  tapped.tamper = (payload, direction) => (direction === 'to vault' ? [payload] : [])
  const before = tapped.messages.length
  tapped.injectToVault(asleep[0]!)
  await until(() => tapped.messages.length > before)
  tapped.tamper = (payload) => [payload]
  tapped.injectToVault(asleep[0]!)
  t.equal((await late).status, 200)

  // A delayed response says nothing about the vault's clock.
  const responses: (() => void)[] = []
  tapped.tamper = (payload, direction) => {
    if (direction === 'to vault') return [payload]
    responses.push(() => tapped.sendToAgents(payload))
    return []
  }
  const heldUp = call(proxy.url, '/v1/vault/sign', { body: { n: 2 } })
  await until(() => responses.length === 1)
  aheadMs += 90_000
  responses[0]!()
  t.equal((await heldUp).status, 200)
  tapped.tamper = (payload) => [payload]
  const soFar = tapped.messages.length
  t.equal((await call(proxy.url, '/v1/vault/sign', { body: { n: 3 } })).status, 200)
  t.equal(tapped.messages.length, soFar + 2, 'one question and its answer')
  tapped.injectToVault(asleep[0]!)
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
  t.strictSame(bodies(), ['{"n":1}', '{"n":2}', '{"n":3}'])
})

t.test('a vault that nobody is paired with leaves the relay alone', async (t) => {
  const relay = await relayFor(t, { limits: { identifyMs: 50 } })
  const vault = await vaultFor(t, relay)
  t.equal(relay.stats().connections, 0)
  const offer = await offerFor(vault)
  const proxy = await proxyFor(t, proxyOptions(t, vault, relay, offer))
  t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
  await vault.restart()
  await until(() => relay.stats().routes === 1)
})

t.test('a killed relay, proxy or vault comes back as it was', async (t) => {
  const relay = await startChild(t, 'relay', { port: 0 })
  const vaultFile = `${t.testdir({})}/vault.json`
  const vaultOptions = { relay: relay.url, file: vaultFile }
  const vault = await startChild(t, 'vault', vaultOptions)
  const { token, vaultId, hpkeKey } = vault.fields as Record<string, string>
  const options = { serviceId: 'bot', vaultId, hpkeKey, relay: relay.url, port: 0, home: `${vaultFile}.home` }
  const proxy = await startChild(t, 'proxy', { ...options, pair: token })
  const ask = async (at: Child, n: number) => (await call(at.url, '/v1/vault/preview', { body: { n } })).json
  t.strictSame(await ask(proxy, 1), { n: 1 })

  await proxy.kill()
  const proxy2 = await startChild(t, 'proxy', options)
  t.strictSame(await ask(proxy2, 2), { n: 2 })

  await relay.kill()
  const relay2 = await startChild(t, 'relay', { port: Number(new URL(relay.url).port) })
  t.strictSame(await ask(proxy2, 3), { n: 3 })

  await vault.kill()
  await startChild(t, 'vault', vaultOptions)
  t.equal((await call(proxy2.url, '/v1/vault/scopes')).status, 200)
  t.strictSame(await ask(proxy2, 4), { n: 4 })
  t.equal(relay2.url, relay.url)
})

t.test(
  'the machine of the owner moves to another network: the newer connection of a vault counts',
  async (t) => {
    const relay = await relayFor(t)
    const vault = await vaultFor(t, relay)
    const offer = await offerFor(vault)
    const proxy = await proxyFor(t, proxyOptions(t, vault, relay, offer))
    t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
    const old = vault.connector
    // The old connection is not closed: the relay was not notified that it is dead.
    const next = await vaultFor(t, relay, { identity: vault.identity })
    await next.store.put((await vault.store.list())[0]!)
    await next.restart({ backoff: eager })
    await until(() => old.state.routes === 0)
    t.equal((await call(proxy.url, '/v1/vault/scopes')).status, 200)
    t.strictSame([vault.requests.length, next.requests.length], [1, 1])
  },
)
