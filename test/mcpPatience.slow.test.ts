import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { silentLog } from '../core/ports/log.ts'
import { AdminForwarder } from '../gateway/adminForwarder.ts'
import { connectMcp } from './helpers/admin-api/mcp/connectMcp.ts'
import { startAdmin } from './helpers/admin-api/startAdmin.ts'
import { startGateway } from './helpers/gateway.ts'
import { until } from './helpers/rawHttp.ts'
import { type OwnSeller, sellerOf } from './helpers/sellerOf.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

/** Shorter than the slow seller takes, longer than the pause between two signs of life. */
const FORWARD_MS = 17_000
const SELLER_MS = 20_000

/** Tools through the public listener, which hands `/mcp` over to the admin API. */
async function start(t: Test, seller: OwnSeller, price = '0.10') {
  const settler = createScriptedSettler()
  let admin = ''
  const forwarder = new AdminForwarder(() => admin, FORWARD_MS, silentLog)
  const { gateway, addLink, url } = await startGateway(t, { settlers: [settler], forwarder })
  await addLink({ slug: 'it', url: seller.url, price })
  const f = await startAdmin(t, { linkCalls: gateway.linkCalls })
  const { port } = await f.admin.listen({ host: '127.0.0.1', port: 0 })
  admin = `http://127.0.0.1:${port}`
  const client = await connectMcp(t, url)
  return { ...client, settler, url }
}

const payment = JSON.parse(atob(scriptedPayment('n', '100000')))
const link = 'demo/it'

/** A seller that answers `bought` once it is told to. */
async function heldSeller(t: Test) {
  const { promise: isTold, resolve: respond } = Promise.withResolvers<void>()
  const seller = await sellerOf(t, (_req, res) => void isTold.then(() => res.end('bought')))
  return { seller, respond }
}

t.test(
  'whose client gives up before the charge has paid nothing, and buys it when it asks again',
  async (t) => {
    const { seller, respond } = await heldSeller(t)
    const { call, settler } = await start(t, seller)
    await t.rejects(call('call_link', { link }, payment, { timeout: 1_000 }), /timed out/)
    t.strictSame(settler.transfers, [])
    const again = call('call_link', { link }, payment)
    respond()
    t.match(await again, { structuredContent: { response: 'bought' } })
    t.strictSame(settler.transfers, ['n'])
    t.equal(seller.calls, 1, 'the seller has worked once')
  },
)

t.test('whose client gives up after the charge gets the answer that is kept', async (t) => {
  const seller = await sellerOf(t, (_req, res) => void res.end('bought'))
  const { call, settler } = await start(t, seller)
  settler.settleWith = async (transfer) => {
    transfer()
    await sleep(2_000)
    return undefined
  }
  await t.rejects(call('call_link', { link }, payment, { timeout: 1_000 }), /timed out/)
  t.match(await call('call_link', { link }, payment), { structuredContent: { response: 'bought' } })
  t.equal(seller.calls, 1)
})

/** Calls the tool on a connection that can be broken. @returns once the seller has been asked */
async function callAndBreak(t: Test, url: string, seller: OwnSeller): Promise<void> {
  const page = new AbortController()
  const params = { name: 'call_link', arguments: { link }, _meta: { 'x402/payment': payment } }
  const asking = fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { accept: 'application/json, text/event-stream', 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    signal: page.signal,
  })
  await until(() => seller.calls === 1)
  page.abort()
  await t.rejects(asking.then((response) => response.text()))
}

t.test('a connection that breaks ends a free call', async (t) => {
  const { seller } = await heldSeller(t)
  const { url } = await start(t, seller, '0')
  await callAndBreak(t, url, seller)
  await until(() => seller.connections.size === 0)
})

t.test(
  'a paid call whose connection breaks goes on, as of a buyer who hangs up, and a repeat gets its answer',
  async (t) => {
    const { seller, respond } = await heldSeller(t)
    const { call, settler, url } = await start(t, seller)
    await callAndBreak(t, url, seller)
    respond()
    await until(() => settler.transfers.length === 1)
    t.match(await call('call_link', { link }, payment), { structuredContent: { response: 'bought' } })
    t.strictSame(settler.transfers, ['n'])
    t.equal(seller.calls, 1)
  },
)

t.test(
  'a call that takes longer than the hand-over bears silence ends well, and tells that it lives',
  async (t) => {
    const seller = await sellerOf(t, async (_req, res) => {
      await sleep(SELLER_MS)
      res.end('at last')
    })
    const { call } = await start(t, seller, '0')
    const notified: number[] = []
    const onprogress = ({ progress }: { progress: number }) => void notified.push(progress)
    const [received, silent] = await Promise.all([
      call('call_link', { link }, undefined, { onprogress, timeout: 15_000, resetTimeoutOnProgress: true }),
      call('call_link', { link }),
    ])
    for (const { structuredContent } of [received, silent])
      t.match(structuredContent, { response: 'at last' })
    t.ok(notified.length > 0)
    t.strictSame(
      notified,
      notified.map((_, i) => 5 * (i + 1)),
    )
  },
)
