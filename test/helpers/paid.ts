import type { ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { paymentStates } from '../../core/domain/payment.ts'
import type { Transport } from '../../core/plugin/transport.ts'
import { startGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts'
import { pluginOf } from './plugins.ts'
import { until } from './rawHttp.ts'
import { sellerOf } from './sellerOf.ts'
import { createScriptedSettler, scriptedPayment, testNetwork } from './settler.ts'

export const shortPlugins = [
  { use: 'x402' },
  { use: 'replay-guard', with: { joinTimeoutMs: 300 } },
  {
    use: 'upstream',
    with: { headersTimeoutMs: 1_000, bodyTimeoutMs: 1_000, responseTimeoutMs: 2_000, maxResponseBytes: 4096 },
  },
  { use: 'purchase-record' },
]

/** For tests in which no timeout is due: a busy machine takes long for a call, and for those that join it. */
export const patientPlugins = [
  { use: 'x402' },
  { use: 'replay-guard', with: { joinTimeoutMs: 60_000 } },
  { use: 'upstream', with: { maxResponseBytes: 4096 } },
  { use: 'purchase-record' },
]

export async function startPaid(t: Test, options: TestGatewayOptions = {}) {
  const settler = createScriptedSettler(testNetwork, ['exact', 'upto'])
  const transports: Transport[] = []
  const spy = pluginOf('transports', { guard: ({ transport }) => void transports.push(transport) })
  const gateway = await startGateway(t, {
    settlers: [settler],
    ...options,
    plugins: [...(options.plugins ?? shortPlugins), { use: 'transports' }],
    extraPlugins: [...(options.extraPlugins ?? []), spy],
  })
  const headers = { 'payment-signature': scriptedPayment('n', '100000') }
  return {
    settler,
    gateway,
    headers,
    /** Of the calls that came so far. */
    transports,
    call: (url: string, init: RequestInit = {}) =>
      ask(url, { ...init, headers: { ...headers, ...init.headers } }),
  }
}

/** Calls a link of this price, and disconnects while its seller works, which answers then. Resolves when the call has ended. */
export async function callAndGo(
  t: Test,
  { gateway, call, transports }: Awaited<ReturnType<typeof startPaid>>,
  price: string,
): Promise<void> {
  const requested = Promise.withResolvers<ServerResponse>()
  const seller = await sellerOf(t, (_req, res) => requested.resolve(res))
  const { url } = await gateway.addLink({ slug: 'slow', url: seller.url, price })
  const leaving = new AbortController()
  const called = t.rejects(call(url, { signal: leaving.signal }))
  const response = await requested.promise
  leaving.abort()
  await called
  await until(() => transports.at(-1)!.hasLeft, 'the gateway to see that its caller has left')
  response.setHeader('content-type', 'application/json').end('{}')
  await until(() => gateway.gateway.calls.counts().underWay === 0, 'the call to end')
}

interface Asked {
  status: number
  body: { error?: { code: string; message: string; reason?: string } | string; purchaseId?: string } & Record<
    string,
    unknown
  >
  headers: Headers
  text: string
}

async function ask(url: string, init: RequestInit): Promise<Asked> {
  const response = await fetch(url, init)
  const text = await response.text()
  return { status: response.status, body: parse(text), headers: response.headers, text }
}

function parse(text: string) {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

export const receiptOf = (headers: Headers) =>
  JSON.parse(Buffer.from(headers.get('payment-response') ?? 'bnVsbA==', 'base64').toString())

const rowsOf = ({ store }: TestGateway) => store.ledger.list({ states: paymentStates, limit: 100 })
export const stateOf = async (gateway: TestGateway) => (await rowsOf(gateway))[0]?.state
export const reaches = (gateway: TestGateway, state: string) =>
  until(async () => (await stateOf(gateway)) === state, `the state ${state}`)
