import { once } from 'node:events'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { paymentStates } from '../core/domain/payment.ts'
import {
  type AnyGatewayPlugin,
  afterResponsePhases,
  gatewayPhases,
  type Hook,
  jsonReply,
} from '../core/plugin/gateway.ts'
import { startGateway, type TestGateway } from './helpers/gateway.ts'
import { receiptOf } from './helpers/paid.ts'
import { pluginOf } from './helpers/plugins.ts'
import { until } from './helpers/rawHttp.ts'
import { startSeller } from './helpers/sellers.ts'
import { createScriptedSettler, scriptedPayment } from './helpers/settler.ts'

type Phase = (typeof gatewayPhases)[number] | (typeof afterResponsePhases)[number]

/** What a plugin may do instead of going on. */
const misdeeds: Record<string, Hook> = {
  throws: () => {
    throw new Error('secret inside')
  },
  'answers 200': () => jsonReply(200, { mine: true }),
  'answers 451': () => jsonReply(451, { mine: true }),
}

/** A gateway whose plugin does what `misdeed` says in one phase; one call at a time at the seller's. */
async function startWith(t: Test, phase: Phase, place: 'first' | 'last') {
  const state = { misdeed: undefined as Hook | undefined }
  const odd = pluginOf('odd', { [phase]: (x: never) => state.misdeed?.(x) })
  const settler = createScriptedSettler()
  const rest = [
    { use: 'x402' },
    { use: 'replay-guard', with: { joinTimeoutMs: 300 } },
    { use: 'upstream', with: { maxCallsPerOrigin: 1, slotTimeoutMs: 300 } },
    { use: 'purchase-record' },
  ]
  const gateway = await startGateway(t, {
    settlers: [settler],
    extraPlugins: [odd],
    plugins: place === 'first' ? [{ use: 'odd' }, ...rest] : [...rest, { use: 'odd' }],
  })
  return { state, settler, gateway }
}

const rowOf = async ({ store }: TestGateway, nonce: string) =>
  (await store.ledger.list({ states: paymentStates, limit: 1_000 })).find((row) => row.nonce === nonce)

/** A handshake, as far as it comes. @returns the status and the headers of the answer */
async function upgrade(url: string, headers: Record<string, string>) {
  const socket = new WebSocket(url.replace('http', 'ws'), { headers })
  socket.on('error', () => {})
  const [kind, response] = await Promise.race([
    once(socket, 'upgrade').then(([response]) => ['open', response] as const),
    once(socket, 'unexpected-response').then(([, response]) => ['refused', response] as const),
  ])
  socket.terminate()
  return { status: kind === 'open' ? 101 : response.statusCode, headers: new Headers(response.headers) }
}

const kinds = {
  after: { link: { price: '0.10' }, isSocket: false },
  before: { link: { price: '0.10', settle: 'before' }, isSocket: false },
  'socket after': { link: { price: '0.10' }, isSocket: true },
  'socket before': { link: { price: '0.10', settle: 'before' }, isSocket: true },
} as const

/** The same calls with a plugin in this phase, in front of the built-in ones or behind them. */
async function attack(t: Test, phase: Phase, place: 'first' | 'last') {
  const { state, settler, gateway } = await startWith(t, phase, place)
  const sellers = { http: await startSeller(t, 'hello'), socket: await startSeller(t, 'websocket-echo') }
  const becomes = async (nonce: string, states: readonly (string | undefined)[]) => {
    await until(
      async () => states.includes((await rowOf(gateway, nonce))?.state),
      `${nonce} to be one of ${states}`,
    )
    return (await rowOf(gateway, nonce))?.state
  }
  for (const [kind, { link: more, isSocket }] of Object.entries(kinds)) {
    const url = isSocket ? sellers.socket.url : sellers.http.url
    const link = await gateway.addLink({ slug: kind.replace(' ', '-'), url, ...more })
    const call = async (nonce: string) => {
      const headers = { 'payment-signature': scriptedPayment(nonce, '100000') }
      const response = isSocket ? await upgrade(link.url, headers) : await fetch(link.url, { headers })
      if (response instanceof Response) await response.text()
      await until(() => sellers.socket.connections.size === 0, 'the tunnel to close')
      return response
    }
    for (const [name, misdeed] of Object.entries(misdeeds)) {
      const nonce = `${kind} ${name}`
      state.misdeed = misdeed
      const { status, headers } = await call(nonce)
      state.misdeed = undefined
      if (settler.transfers.includes(nonce)) {
        const became = await becomes(nonce, ['settled', 'delivered', 'refund_due'])
        t.equal(receiptOf(headers)?.success, true, `${nonce}: who was charged hears so`)
        if (status >= 400) t.not(became, 'delivered', `${nonce}: a refusal delivers nothing`)
        else if (headers.has('x-purchase-id')) await becomes(nonce, ['delivered'])
      } else {
        await becomes(nonce, [undefined, 'rejected'])
        t.not(receiptOf(headers)?.success, true, `${nonce}: nobody hears of a charge that is none`)
      }
      t.equal(settler.held, 0, `${nonce}: nothing is held`)
    }
    t.ok((await call(`${kind} next`)).status < 300, `${kind}: the only place at the seller's is free`)
    await becomes(`${kind} next`, ['delivered'])
  }
}

for (const phase of [...gatewayPhases, ...afterResponsePhases]) {
  t.test(`a plugin may fail or answer in ${phase}: no payment stays open, held or lost`, async (t) => {
    await attack(t, phase, 'first')
    await attack(t, phase, 'last')
  })
}

t.test('what another plugin than upstream sells is delivered, and refunded when it fails', async (t) => {
  const settler = createScriptedSettler()
  const selling = {
    ...pluginOf('selling', {
      forward: (x) => {
        if (x.subPath === '/fails') throw new Error('no answer')
        x.response = { status: 200, headers: [], mediaType: '', body: Buffer.from('sold'), tunnel: null }
      },
    }),
    slots: { forward: { writes: ['response'] } },
  } as AnyGatewayPlugin
  const gateway = await startGateway(t, {
    settlers: [settler],
    extraPlugins: [selling],
    plugins: ['x402', 'replay-guard', 'selling', 'purchase-record'].map((use) => ({ use })),
  })
  const url = 'http://seller.invalid/'
  for (const settle of ['after', 'before'] as const) {
    const link = await gateway.addLink({ slug: settle, url, price: '0.10', settle })
    const call = (nonce: string, path = '') =>
      fetch(link.url + path, { headers: { 'payment-signature': scriptedPayment(nonce, '100000') } })
    const becomes = (nonce: string, state: string) =>
      until(async () => (await rowOf(gateway, nonce))?.state === state, `${nonce} to be ${state}`)
    t.equal(await (await call(`${settle} sold`)).text(), 'sold')
    await becomes(`${settle} sold`, 'delivered')
    t.equal(await (await call(`${settle} sold`)).text(), 'sold', 'a repeat gets the same')
    t.equal((await call(`${settle} fails`, '/fails')).status, 500)
    await becomes(`${settle} fails`, settle === 'after' ? 'rejected' : 'refund_due')
  }
  t.strictSame(settler.transfers, ['after sold', 'before sold', 'before fails'])
})
