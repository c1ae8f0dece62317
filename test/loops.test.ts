import t, { type Test } from 'tap'
import { probe } from '../core/health/probe.ts'
import { createLoopMarks, MAX_LINKS_PASSED } from '../core/http/loopMark.ts'
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
  const response = await fetch(url)
  t.equal(response.status, 508)
  t.match(await response.json(), { success: false, error: { code: 'loop_detected', retryable: false } })
}

t.test('a link that leads back to itself is refused where the call comes in again', async (t) => {
  const g = await gatewayAt(t, 'https://one.example')
  const own = await g.addLink({ slug: 'own', url: `${g.url}/api/link/demo/own` })
  await assertLoop(t, own.url)
  t.equal(callsOf(g), 1)

  const there = await g.addLink({ slug: 'there', url: `${g.url}/api/link/demo/back` })
  await g.addLink({ slug: 'back', url: `${g.url}/api/link/demo/there` })
  await assertLoop(t, there.url)
  t.equal(callsOf(g), 3)

  const name = `http://localhost:${g.port}`
  const named = await g.addLink({ slug: 'named', url: `${name}/api/link/demo/named` })
  await assertLoop(t, named.url)
  t.equal(callsOf(g), 4, 'under another name of the same gateway too')

  const upgrade = await talk(
    g.port,
    `GET ${own.path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
  )
  t.match(upgrade.text, /^HTTP\/1\.1 502 [\s\S]*status 508/, 'and for a WebSocket')
  t.equal(callsOf(g), 5)
})

t.test('a call may pass two gateways, and comes back to no link of either', async (t) => {
  const one = await gatewayAt(t, 'https://one.example')
  const two = await gatewayAt(t, 'https://two.example')
  const seller = await startSeller(t, 'hello')
  await two.addLink({ slug: 'real', url: seller.url })
  const chain = await one.addLink({ slug: 'chain', url: `${two.url}/api/link/demo/real` })
  const response = await fetch(chain.url, { headers: { 'CDN-Loop': 'cloudflare' } })
  t.equal(response.status, 200)
  const { rawHeaders } = seller.requests[0]!
  const passed = rawHeaders.filter((_, i) => rawHeaders[i - 1]?.toLowerCase() === 'cdn-loop').join(', ')
  t.match(passed, /^cloudflare(, tollgate-[0-9a-f]{16}-[0-9a-f]{16}){2}$/)
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
  const loopMark = createLoopMarks(publicUrl, g.ports.sealer).ofLink(own.id)
  const report = await probe(g.ports.egress, { url: own.url, loopMark, timeoutMs: 2_000 })
  t.match(report, { ok: false, status: 508 })
})

t.test('a link may call another link of the same gateway, but not ever more of them', async (t) => {
  const g = await gatewayAt(t, 'https://one.example')
  const seller = await startSeller(t, 'hello')
  let { url } = await g.addLink({ slug: 'link-1', url: seller.url })
  const ids: string[] = []
  for (let i = 2; i <= MAX_LINKS_PASSED + 1; i++) {
    const next = await g.addLink({ slug: `link-${i}`, url })
    url = next.url
    ids.push(next.id)
    t.equal((await fetch(url)).status, 200, `${i} links`)
  }
  const { rawHeaders } = seller.requests.at(-1)!
  for (const id of ids) t.notMatch(rawHeaders.join(), id, 'no id of a link reaches the seller')
  await assertLoop(t, (await g.addLink({ slug: 'one-more', url })).url)
})
