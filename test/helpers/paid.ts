import type { ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { paymentStates } from '../../core/domain/payment.ts'
import type { Door } from '../../core/plugin/door.ts'
import { startGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts'
import { pluginOf } from './plugins.ts'
import { until } from './rawHttp.ts'
import { sellerOf } from './sellerOf.ts'
import { createScriptedSettler, scriptedPayment } from './settler.ts'

export const shortPlugins = [
  { use: 'x402' },
  { use: 'replay-guard', with: { joinTimeoutMs: 300 } },
  {
    use: 'upstream',
    with: { headersTimeoutMs: 300, bodyTimeoutMs: 300, answerTimeoutMs: 600, maxAnswerBytes: 4096 },
  },
  { use: 'purchase-record' },
]

export async function startPaid(t: Test, options: TestGatewayOptions = {}) {
  const settler = createScriptedSettler()
  const doors: Door[] = []
  const spy = pluginOf('doors', { guard: ({ door }) => void doors.push(door) })
  const gateway = await startGateway(t, {
    settlers: [settler],
    ...options,
    plugins: [...(options.plugins ?? shortPlugins), { use: 'doors' }],
    extraPlugins: [...(options.extraPlugins ?? []), spy],
  })
  const headers = { 'payment-signature': scriptedPayment('n', '100000') }
  return {
    settler,
    gateway,
    headers,
    /** Of the calls that came so far. */
    doors,
    call: (url: string, init: RequestInit = {}) =>
      ask(url, { ...init, headers: { ...headers, ...init.headers } }),
  }
}

/** Calls a link of this price, and hangs up while its seller works, which answers then. Resolves when the call has ended. */
export async function callAndGo(
  t: Test,
  { gateway, call, doors }: Awaited<ReturnType<typeof startPaid>>,
  price: string,
): Promise<void> {
  const asked = Promise.withResolvers<ServerResponse>()
  const seller = await sellerOf(t, (_req, res) => asked.resolve(res))
  const { url } = await gateway.addLink({ slug: 'slow', url: seller.url, price })
  const leaving = new AbortController()
  const called = t.rejects(call(url, { signal: leaving.signal }))
  const answer = await asked.promise
  leaving.abort()
  await called
  await until(() => doors.at(-1)!.hasLeft, 'the gateway to see that its caller has left')
  answer.setHeader('content-type', 'application/json').end('{}')
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

const rowsOf = ({ store }: TestGateway) => store.books.list({ states: paymentStates, limit: 100 })
export const stateOf = async (gateway: TestGateway) => (await rowsOf(gateway))[0]?.state
export const reaches = (gateway: TestGateway, state: string) =>
  until(async () => (await stateOf(gateway)) === state, `the state ${state}`)
