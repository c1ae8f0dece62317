import t, { type Test } from 'tap'
import { probe } from '../core/health/probe.ts'
import { startGateway } from './helpers/gateway.ts'
import { talk } from './helpers/rawHttp.ts'
import { startSeller } from './helpers/sellers.ts'

/** A gateway that is known by an address of its own. */
const gatewayAt = (t: Test, publicUrl: string) =>
  startGateway(t, { adapt: (ports) => ({ ...ports, service: { ...ports.service, publicUrl } }) })

/** How many calls a gateway has answered. */
const callsOf = ({ gateway }: { gateway: { calls: { counts(): object } } }) => {
  const { free, refused, failed, left } = gateway.calls.counts() as Record<string, number>
  return free! + refused! + failed! + left!
}

async function assertLoop(t: Test, url: string) {
  const answer = await fetch(url)
  t.equal(answer.status, 508)
  t.match(await answer.json(), { success: false, error: { code: 'loop_detected', retryable: false } })
}

t.test('a link that leads back to the gateway is refused where the call comes in again', async (t) => {
  const g = await gatewayAt(t, 'https://one.example')
  const own = await g.addLink({ slug: 'own', url: `${g.url}/api/link/demo/own` })
  await assertLoop(t, own.url)
  t.equal(callsOf(g), 1)

  const there = await g.addLink({ slug: 'there', url: `${g.url}/api/link/demo/back` })
  await g.addLink({ slug: 'back', url: `${g.url}/api/link/demo/there` })
  await assertLoop(t, there.url)
  t.equal(callsOf(g), 2)

  const name = `http://localhost:${g.port}`
  const named = await g.addLink({ slug: 'named', url: `${name}/api/link/demo/named` })
  await assertLoop(t, named.url)
  t.equal(callsOf(g), 3, 'under another name of the same gateway too')

  const upgrade = await talk(
    g.port,
    `GET ${own.path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  )
  t.match(upgrade.text, /^HTTP\/1\.1 502 [\s\S]*status 508/, 'and for a WebSocket')
  t.equal(callsOf(g), 4)
})

t.test('a call may pass two gateways, and comes back to neither', async (t) => {
  const one = await gatewayAt(t, 'https://one.example')
  const two = await gatewayAt(t, 'https://two.example')
  const seller = await startSeller(t, 'hello')
  await two.addLink({ slug: 'real', url: seller.url })
  const chain = await one.addLink({ slug: 'chain', url: `${two.url}/api/link/demo/real` })
  const answer = await fetch(chain.url, { headers: { 'CDN-Loop': 'cloudflare' } })
  t.equal(answer.status, 200)
  const { rawHeaders } = seller.requests[0]!
  const passed = rawHeaders.filter((_, i) => rawHeaders[i - 1]?.toLowerCase() === 'cdn-loop').join(', ')
  t.match(passed, /^cloudflare, tollgate-[0-9a-f]{16}, tollgate-[0-9a-f]{16}$/)
  t.notMatch(passed, /example/, 'it says nothing about where the gateways are')

  const loop = await one.addLink({ slug: 'loop', url: `${two.url}/api/link/demo/loop` })
  await two.addLink({ slug: 'loop', url: loop.url })
  await assertLoop(t, loop.url)
  t.equal(callsOf(one) + callsOf(two), 4)
})

t.test('a health check sees what a call would: a link that leads back does not pass it', async (t) => {
  const publicUrl = 'https://one.example'
  const g = await gatewayAt(t, publicUrl)
  const own = await g.addLink({ slug: 'own', url: `${g.url}/api/link/demo/own`, price: '0.01' })
  const report = await probe(g.ports.egress, { url: own.url, publicUrl, timeoutMs: 2_000 })
  t.match(report, { ok: false, status: 508 })
})
